package enginetest

// Spoil replaces what happens to messages from now on; Seed stays. The zero value is a good network again: what was lost, or
// will be repeated, stays so.
func (n *Node) Spoil(faults Faults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dice.faults, n.wakeDice.faults = faults, faults
}
