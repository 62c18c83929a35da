package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/enginetest"
)

// aBlob is some pieces long.
func aBlob(fill byte) (sum string, data []byte) {
	data = bytes.Repeat([]byte{fill, 0, 0xff}, 50_000)
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:]), data
}

func TestABlobIsKeptOnAQuorumAndReadThroughEveryReplica(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		sum, data := aBlob('a')
		s.Servers[2].Kill()
		synctest.Wait()
		for range 2 { // again is no error
			if err := r1.WriteBlob(t.Context(), sum, data); err != nil {
				t.Fatal(err)
			}
		}
		s.Servers[2].Restart(enginetest.Kept)
		time.Sleep(time.Second)
		for _, gone := range []int{0, 1} {
			s.Servers[gone].Kill()
			synctest.Wait()
			got, err := r2.ReadBlob(t.Context(), sum)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("without %d: %d bytes, %v", gone, len(got), err)
			}
			s.Servers[gone].Restart(enginetest.Kept)
			time.Sleep(time.Second)
		}
		other, _ := aBlob('b')
		if _, err := r2.ReadBlob(t.Context(), other); !errors.Is(err, engine.ErrNoBlob) {
			t.Errorf("read: %v", err)
		}
		if err := r2.DropBlob(t.Context(), sum); err != nil {
			t.Error(err)
		}
		if _, err := r1.ReadBlob(t.Context(), sum); !errors.Is(err, engine.ErrNoBlob) {
			t.Errorf("read after it was dropped: %v", err)
		}
	})
}

func TestWithoutAQuorumNoBlobIsWrittenOrSaidNotToBeThere(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1 := s.player()
		sum, data := aBlob('a')
		s.Servers[0].Kill()
		s.Servers[1].Kill()
		synctest.Wait()
		if err := r1.WriteBlob(t.Context(), sum, data); !errors.Is(err, engine.ErrQuorumUnavailable) {
			t.Errorf("write: %v", err)
		}
		other, _ := aBlob('b')
		if _, err := r1.ReadBlob(t.Context(), other); !errors.Is(err, engine.ErrQuorumUnavailable) {
			t.Errorf("read: %v", err)
		}
		if err := r1.DropBlob(t.Context(), sum); !errors.Is(err, engine.ErrQuorumUnavailable) {
			t.Errorf("drop: %v", err)
		}
		if err := r1.MendBlobs(t.Context(), nil); !errors.Is(err, engine.ErrQuorumUnavailable) {
			t.Errorf("mend: %v", err)
		}
	})
}

func TestANodeThatLostItsBlobsGetsThemAgainAndKeepsNoneThatNobodyUses(t *testing.T) {
	play(t, func(t *testing.T, s *stage) {
		r1, r2 := s.player(), s.player()
		used, data := aBlob('a')
		spare, other := aBlob('b')
		for sum, data := range map[string][]byte{used: data, spare: other} {
			if err := r1.WriteBlob(t.Context(), sum, data); err != nil {
				t.Fatal(err)
			}
		}
		s.Servers[1].Kill()
		synctest.Wait()
		s.Servers[1].Restart(enginetest.Lost)
		time.Sleep(5 * time.Second) // it is readmitted
		if got := s.Servers[1].Blobs(); len(got) != 0 {
			t.Fatalf("it still has %v", got)
		}
		mend := func(p *player) {
			if err := p.MendBlobs(t.Context(), map[string]bool{used: true}); err != nil {
				t.Error(err)
			}
		}
		mend(r1)
		mend(r2) // whoever has put the other one may be about to use it: two looks of one replica decide
		if got := s.Servers[1].Blobs(); !slices.Equal(got, []string{used}) {
			t.Errorf("it has %v", got)
		}
		if got, err := r2.ReadBlob(t.Context(), spare); err != nil || !bytes.Equal(got, other) {
			t.Errorf("the other one: %v", err)
		}
		mend(r1)
		for _, server := range s.Servers {
			if got := server.Blobs(); !slices.Equal(got, []string{used}) {
				t.Errorf("%s has %v", server.Name(), got)
			}
		}
		lost, _ := aBlob('c')
		if err := r1.MendBlobs(t.Context(), map[string]bool{lost: true, used: true}); !errors.Is(err, engine.ErrNoBlob) {
			t.Errorf("mending what nobody has: %v", err)
		}
	})
}
