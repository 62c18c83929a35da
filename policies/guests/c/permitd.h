/* permitd.h - write a permitd policy in C.
 *
 *   clang --target=wasm32 -O2 -nostdlib -Wl,--no-entry -Wl,-z,stack-size=16384 -o policy.wasm policy.c
 *
 * Define evaluate with PERMITD_EXPORT, and configure if the policy has a configuration. Numbers come as parameters, texts are
 * fetched into buffers of your own. There is no libc. What is kept in static variables is shared by all requests that the same instance
 * serves, unless the binding says isolation: fresh. */
#ifndef PERMITD_H
#define PERMITD_H

#define PERMITD_IMPORT(n) __attribute__((import_module("permitd_v1"), import_name(n)))
#define PERMITD_EXPORT(n) __attribute__((export_name(n)))

#define PERMITD_NO_OPINION 0LL /* the weight is what was requested */
#define PERMITD_DENY (-1LL)

/* The length of an attribute, -1 if absent; it is copied only if it fits. */
PERMITD_IMPORT("attr_get") int permitd_attr_get(const char *key, int key_len, char *buf, int cap);
/* All attributes, sorted by key: u16 key length, u16 value length, key, value, repeated. */
PERMITD_IMPORT("attrs_all") int permitd_attrs_all(char *buf, int cap);
/* The binding's configuration, up to 16 KiB; also legal in configure, as is log. */
PERMITD_IMPORT("config_get") int permitd_config_get(char *buf, int cap);
PERMITD_IMPORT("set_reason") void permitd_set_reason(const char *text, int len);
PERMITD_IMPORT("set_priority") void permitd_set_priority(int priority);
PERMITD_IMPORT("set_ttl_ms") void permitd_set_ttl_ms(long long ms);
PERMITD_IMPORT("log") void permitd_log(int level, const char *text, int len);
PERMITD_IMPORT("now_ms") long long permitd_now_ms(void);

/* The mark of the ABI. */
PERMITD_EXPORT("permitd_abi_v1") void permitd_abi_v1(void) {}

/* A text that is a literal, with its length. */
#define PERMITD_TEXT(literal) (literal), (int)(sizeof(literal) - 1)

static inline long long permitd_deny(const char *reason, int len) {
	permitd_set_reason(reason, len);
	return PERMITD_DENY;
}

static inline int permitd_same(const char *a, int a_len, const char *b, int b_len) {
	if (a_len != b_len) return 0;
	for (int i = 0; i < a_len; i++)
		if (a[i] != b[i]) return 0;
	return 1;
}

/* A configuration that is lines of words. */
typedef struct {
	const char *at, *end;
} permitd_text;

typedef struct {
	const char *text;
	int len;
} permitd_word;

/* The next word of a line, or one of length 0 at its end. */
static inline permitd_word permitd_next_word(permitd_text *line) {
	while (line->at < line->end && (*line->at == ' ' || *line->at == '\t' || *line->at == '\r')) line->at++;
	permitd_word word = {line->at, 0};
	while (line->at < line->end && *line->at != ' ' && *line->at != '\t' && *line->at != '\r') line->at++, word.len++;
	return word;
}

/* The next line; 0 at the end of the text. */
static inline int permitd_next_line(permitd_text *text, permitd_text *line) {
	if (text->at >= text->end) return 0;
	line->at = text->at;
	while (text->at < text->end && *text->at != '\n') text->at++;
	line->end = text->at++;
	return 1;
}

static inline int permitd_is(permitd_word word, const char *literal, int len) {
	return permitd_same(word.text, word.len, literal, len);
}

/* A number of up to six digits, or -1. */
static inline int permitd_number(permitd_word word) {
	int n = 0;
	if (word.len < 1 || word.len > 6) return -1;
	for (int i = 0; i < word.len; i++) {
		if (word.text[i] < '0' || word.text[i] > '9') return -1;
		n = 10 * n + (word.text[i] - '0');
	}
	return n;
}

#endif
