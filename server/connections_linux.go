package server

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// unheardMax is how long what was sent may stay unacknowledged, before the connection counts as lost. Without it a client that
// vanishes while an answer is on its way, as in a hold stream, is noticed after a quarter of an hour.
const unheardMax = 25 * time.Second

// limitSilence ends a connection whose other end has vanished.
func limitSilence(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return // it is closed already
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unheardMax.Milliseconds())) // then the system's own limit holds
	})
}
