package main

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// A run that is long enough for some of each fault; make chaos plays longer ones.
func TestChaos(t *testing.T) {
	t.Parallel()
	chaos(t, plan{seed: rand.Uint64N(1_000_000), length: 25 * time.Second})
}

// Two permits, and nothing but partitions: of the semaphores that Jepsen has tried, Hazelcast's let in more than two here.
func TestPartitionsOfTwoPermits(t *testing.T) {
	t.Parallel()
	chaos(t, plan{seed: rand.Uint64N(1_000_000), length: 12 * time.Second, partitions: true})
}

func chaos(t *testing.T, p plan) {
	var tale bytes.Buffer
	err := play(t.Context(), t, &tale, p)
	t.Logf("%s", &tale)
	if err != nil {
		t.Errorf("%v\nagain: %s", err, p.command())
	}
}
