/* Preloaded into a redis-server: shifts its clock, also the one of its scripts, and slows its disk, by what a mapped file says. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t none[2], *says = none; /* by how many us the clock is ahead; how many us a flush takes longer */

__attribute__((constructor)) static void begin(void) {
	int fd = open(getenv("PERMITD_SHIM"), O_RDONLY);
	void *map = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
	if (map != MAP_FAILED) says = map;
}

struct timeval_ { int64_t sec, usec; };

int gettimeofday(struct timeval_ *restrict tv, void *restrict zone) {
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	int64_t us = now.tv_sec * 1000000LL + now.tv_nsec / 1000 + says[0];
	tv->sec = us / 1000000, tv->usec = us % 1000000;
	return 0;
}

int fdatasync(int fd) { return usleep(says[1]), (int)syscall(SYS_fdatasync, fd); }
int fsync(int fd) { return usleep(says[1]), (int)syscall(SYS_fsync, fd); }
