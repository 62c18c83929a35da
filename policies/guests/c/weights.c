/* Weight by attribute. The configuration is a table:
 *
 *   attribute tier
 *   gold 1
 *   silver 2
 *   * 4
 *
 * A request weighs what it asks for times the number beside its value of the attribute; 0 denies. `*` is for all other values, and
 * for none; without such a line those are as if there were no policy. Lines that begin with # are for people. */
#include "table.h"

static permitd_table table;

PERMITD_EXPORT("configure")
int configure(void) { return permitd_table_load(&table, 0); }

PERMITD_EXPORT("evaluate")
long long evaluate(long long requested, long long limit, long long available, long long waiting) {
	int factor = permitd_table_find(&table);
	if (factor < 0) return PERMITD_NO_OPINION;
	if (factor == 0) return permitd_deny(PERMITD_TEXT("not admitted"));
	return factor * requested;
}
