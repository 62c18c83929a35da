package engine_test

import (
	"bytes"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/permitd/permitd/engine"
)

func TestAValueIsChangedOneStepAtATimeByAllReplicas(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		if v, err := r1.Value(t.Context(), "policies"); v != nil || err != nil {
			t.Errorf("at first it is %q, %v", v, err)
		}
		count := func(old []byte) ([]byte, error) {
			n, _ := strconv.Atoi(string(old))
			return []byte(strconv.Itoa(n + 1)), nil
		}
		var work sync.WaitGroup
		for _, p := range []*player{r1, r2} {
			for range 10 {
				work.Go(func() {
					if _, err := p.ChangeValue(t.Context(), "policies", count); err != nil {
						t.Error(err)
					}
				})
			}
		}
		work.Wait()
		for _, p := range []*player{r1, r2} {
			if v, err := p.Value(t.Context(), "policies"); string(v) != "20" || err != nil {
				t.Errorf("it is %q, %v; want 20", v, err)
			}
		}
		objection := errors.New("no")
		if _, err := r1.ChangeValue(t.Context(), "policies", func([]byte) ([]byte, error) { return nil, objection }); !errors.Is(err, objection) {
			t.Errorf("a change that its maker objects to: %v", err)
		}
		large := func([]byte) ([]byte, error) { return bytes.Repeat([]byte("x"), 1<<20), nil }
		if _, err := r1.ChangeValue(t.Context(), "policies", large); !errors.Is(err, engine.ErrTooLargeValue) {
			t.Errorf("a large value: %v", err)
		}
		if v, err := r2.Value(t.Context(), "other"); v != nil || err != nil {
			t.Errorf("another name is %q, %v", v, err)
		}
	})
}

func TestEveryReplicaHearsThatAValueHasChanged(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		changed := r2.ValueChanged()
		synctest.Wait()
		if _, err := r1.ChangeValue(t.Context(), "policies", func([]byte) ([]byte, error) { return []byte("1"), nil }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case <-changed:
		default:
			t.Error("the other replica has not heard it")
		}
	})
}
