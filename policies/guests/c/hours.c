/* Office hours. The configuration says when it is open, and what happens outside:
 *
 *   utc +60
 *   open 1-5 08:00-18:00
 *   open 6 09:00-12:00
 *   outside deny
 *
 * Days are 1, Monday, to 7; `utc` is how many minutes local time is ahead. Outside, requests are denied, or with `outside times 3`
 * weigh three times what they ask for. Lines that begin with # are for people. */
#include "permitd.h"

#define OPEN_MAX 32
#define MINUTES_OF_DAY 1440

static char text[16384];
static struct {
	int from_day, to_day, from, to; /* to is not open any more */
} open[OPEN_MAX];
static int opens, utc, times; /* times 0: deny */

/* Splits a word at a character; the second part is empty if it is not there. */
static void split(permitd_word word, char at, permitd_word *first, permitd_word *second) {
	*first = word;
	second->text = word.text + word.len;
	second->len = 0;
	for (int i = 0; i < word.len; i++)
		if (word.text[i] == at) {
			first->len = i;
			second->text = word.text + i + 1;
			second->len = word.len - i - 1;
			return;
		}
}

/* The minute of the day of 08:00, or -1. */
static int minute(permitd_word word) {
	permitd_word hours, minutes;
	split(word, ':', &hours, &minutes);
	int h = permitd_number(hours), m = permitd_number(minutes);
	if (h < 0 || m < 0 || minutes.len != 2 || m > 59 || 60 * h + m > MINUTES_OF_DAY) return -1;
	return 60 * h + m;
}

/* open 1-5 08:00-18:00 */
static int read_open(permitd_text rest) {
	permitd_word days = permitd_next_word(&rest), hours = permitd_next_word(&rest), first, second;
	if (permitd_next_word(&rest).len != 0 || opens == OPEN_MAX) return -1;
	split(days, '-', &first, &second);
	int from_day = permitd_number(first), to_day = second.len > 0 ? permitd_number(second) : from_day;
	split(hours, '-', &first, &second);
	int from = minute(first), to = minute(second);
	if (from_day < 1 || to_day > 7 || to_day < from_day || from < 0 || to <= from) return -1;
	open[opens].from_day = from_day, open[opens].to_day = to_day, open[opens].from = from, open[opens].to = to;
	opens++;
	return 0;
}

/* utc +60 | utc -300 */
static int read_utc(permitd_text rest) {
	permitd_word by = permitd_next_word(&rest);
	int sign = by.len > 0 && by.text[0] == '-' ? -1 : 1;
	if (by.len > 0 && (by.text[0] == '-' || by.text[0] == '+')) by.text++, by.len--;
	int n = permitd_number(by);
	if (n < 0 || n > MINUTES_OF_DAY || permitd_next_word(&rest).len != 0) return -1;
	utc = sign * n;
	return 0;
}

/* outside deny | outside times 3 */
static int read_outside(permitd_text rest) {
	permitd_word what = permitd_next_word(&rest), by = permitd_next_word(&rest);
	if (permitd_next_word(&rest).len != 0) return -1;
	if (permitd_is(what, PERMITD_TEXT("deny"))) return by.len == 0 ? 0 : -1;
	times = permitd_number(by);
	return permitd_is(what, PERMITD_TEXT("times")) && times > 0 ? 0 : -1;
}

static int read_line(permitd_word first, permitd_text rest) {
	if (permitd_is(first, PERMITD_TEXT("open"))) return read_open(rest);
	if (permitd_is(first, PERMITD_TEXT("utc"))) return read_utc(rest);
	if (permitd_is(first, PERMITD_TEXT("outside"))) return read_outside(rest);
	return -1;
}

PERMITD_EXPORT("configure")
int configure(void) {
	permitd_text all = {text, text + permitd_config_get(text, sizeof text)}, line;
	while (permitd_next_line(&all, &line)) {
		permitd_text rest = line;
		permitd_word first = permitd_next_word(&rest);
		if (first.len == 0 || first.text[0] == '#') continue;
		if (read_line(first, rest) < 0) {
			permitd_log(3, line.at, (int)(line.end - line.at));
			return 1;
		}
	}
	if (opens == 0) {
		permitd_log(3, PERMITD_TEXT("the configuration needs a line: open DAYS HOURS"));
		return 1;
	}
	return 0;
}

static int is_open(void) {
	long long minutes = permitd_now_ms() / 60000 + utc;
	int day = (int)((minutes / MINUTES_OF_DAY + 3) % 7) + 1; /* the epoch was a Thursday */
	int now = (int)(minutes % MINUTES_OF_DAY);
	for (int i = 0; i < opens; i++)
		if (day >= open[i].from_day && day <= open[i].to_day && now >= open[i].from && now < open[i].to) return 1;
	return 0;
}

PERMITD_EXPORT("evaluate")
long long evaluate(long long requested, long long limit, long long available, long long waiting) {
	if (is_open()) return PERMITD_NO_OPINION;
	if (times == 0) return permitd_deny(PERMITD_TEXT("outside office hours"));
	return times * requested;
}
