/* Gold clients go first at face value. Others are denied when less than a quarter is free, else weigh double and get 5 s. */
#include "permitd.h"

PERMITD_EXPORT("evaluate")
long long evaluate(long long requested, long long limit, long long available, long long waiting) {
	char tier[16];
	int len = permitd_attr_get(PERMITD_TEXT("tier"), tier, sizeof tier);
	if (permitd_same(tier, len, PERMITD_TEXT("gold"))) {
		permitd_set_priority(10);
		return requested;
	}
	if (4 * available < limit) return permitd_deny(PERMITD_TEXT("less than a quarter is free"));
	permitd_set_ttl_ms(5000);
	return 2 * requested;
}
