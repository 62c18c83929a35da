/* table.h - a configuration that is a table: the name of an attribute, and a number for each of its values. */
#ifndef TABLE_H
#define TABLE_H

#include "permitd.h"

#define CONFIG_MAX 16384
#define VALUE_MAX 1024

typedef struct {
	char text[CONFIG_MAX];
	int len;
	permitd_word attribute;
} permitd_table;

/* Reads a line that is no row of the table. It returns 0 if the line is not for it, 1 if it is, -1 if it is wrong. */
typedef int (*permitd_line_reader)(permitd_word first, permitd_text rest);

static inline int permitd_wrong_line(permitd_text line) {
	permitd_log(3, line.at, (int)(line.end - line.at));
	return 1;
}

/* Reads and checks the configuration; the answer is configure's. */
static inline int permitd_table_load(permitd_table *t, permitd_line_reader other) {
	t->len = permitd_config_get(t->text, CONFIG_MAX);
	permitd_text text = {t->text, t->text + t->len}, line;
	while (permitd_next_line(&text, &line)) {
		permitd_text whole = line;
		permitd_word first = permitd_next_word(&line);
		if (first.len == 0 || first.text[0] == '#') continue;
		if (t->attribute.len == 0) {
			permitd_word name = permitd_next_word(&line);
			if (!permitd_is(first, PERMITD_TEXT("attribute")) || name.len == 0 || permitd_next_word(&line).len != 0)
				return permitd_wrong_line(whole);
			t->attribute = name;
			continue;
		}
		int read = other ? other(first, line) : 0;
		if (read < 0) return permitd_wrong_line(whole);
		if (read > 0) continue;
		if (permitd_number(permitd_next_word(&line)) < 0 || permitd_next_word(&line).len != 0) return permitd_wrong_line(whole);
	}
	if (t->attribute.len == 0) {
		permitd_log(3, PERMITD_TEXT("the configuration begins with: attribute NAME"));
		return 1;
	}
	return 0;
}

/* The number beside the request's value, or beside *, or -1. */
static inline int permitd_table_find(permitd_table *t) {
	char value[VALUE_MAX];
	int len = permitd_attr_get(t->attribute.text, t->attribute.len, value, VALUE_MAX), others = -1, header = 1;
	permitd_text text = {t->text, t->text + t->len}, line;
	while (permitd_next_line(&text, &line)) {
		permitd_word first = permitd_next_word(&line);
		if (first.len == 0 || first.text[0] == '#') continue;
		if (header) {
			header = 0;
			continue;
		}
		int number = permitd_number(permitd_next_word(&line));
		if (number < 0) continue; /* not a row */
		if (len > 0 && permitd_is(first, value, len)) return number;
		if (others < 0 && permitd_is(first, PERMITD_TEXT("*"))) others = number;
	}
	return others;
}

#endif
