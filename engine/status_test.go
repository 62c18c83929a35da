package engine

import (
	"testing"

	"github.com/permitd/permitd/engine/quorum"
)

// TestWhatIsInUseIsAddedUpAtOnceHoweverManyLeasesThereAre is not parallel: it counts allocations.
func TestWhatIsInUseIsAddedUpAtOnceHoweverManyLeasesThereAre(t *testing.T) {
	for _, leases := range []int{1, 1000} {
		page := &ViewPage{}
		for i := range leases {
			page.Leases = append(page.Leases, Record{Slots: quorum.OneSlot(2 * i)})
			page.Cooling = append(page.Cooling, Cooling{Slots: quorum.OneSlot(2*i + 1)})
		}
		if used := (usage{}).add(page).add(page).used; used.String() != (quorum.Slots{{First: 0, Last: 2*leases - 1}}).String() {
			t.Errorf("%d leases use %s", leases, used)
		}
		const most = 5
		if n := testing.AllocsPerRun(10, func() { usage{}.add(page) }); n > most {
			t.Errorf("adding up %d leases allocates %v times; want %d at most", leases, n, most)
		}
	}
}
