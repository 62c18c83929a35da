/* Fair share per tenant. The configuration is a table of shares in percent, and what happens beyond them:
 *
 *   attribute tenant
 *   acme 50
 *   * 10
 *   over deny
 *
 * A tenant that asks for more than its share of what is available is denied, or with `over priority -20` goes later. `*` is for all
 * other tenants, and for requests of none; without such a line those have no limit. Lines that begin with # are for people. */
#include "table.h"

static permitd_table table;
static int priority; /* 0: deny */

/* over deny | over priority -N */
static int read_over(permitd_word first, permitd_text rest) {
	if (!permitd_is(first, PERMITD_TEXT("over"))) return 0;
	permitd_word what = permitd_next_word(&rest), by = permitd_next_word(&rest);
	if (permitd_is(what, PERMITD_TEXT("deny")) && by.len == 0) return 1;
	if (!permitd_is(what, PERMITD_TEXT("priority")) || by.len < 2 || by.text[0] != '-' || permitd_next_word(&rest).len != 0) return -1;
	by.text++, by.len--;
	int n = permitd_number(by);
	if (n < 1 || n > 100) return -1;
	priority = -n;
	return 1;
}

PERMITD_EXPORT("configure")
int configure(void) { return permitd_table_load(&table, read_over); }

PERMITD_EXPORT("evaluate")
long long evaluate(long long requested, long long limit, long long available, long long waiting) {
	int share = permitd_table_find(&table);
	if (share < 0 || 100 * requested <= share * available) return PERMITD_NO_OPINION;
	if (priority == 0) return permitd_deny(PERMITD_TEXT("more than its share of what is available"));
	permitd_set_priority(priority);
	return PERMITD_NO_OPINION;
}
