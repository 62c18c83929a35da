package localnode

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/permitd/permitd/engine"
)

// parse reads the bytes of a journal's only file.
func parse(b []byte, number int) (entries []string, err error) {
	_, f, err := journalHeadOf(b, number)
	if err != nil {
		return nil, err
	}
	j := &journalReading{entries: map[uint32][]byte{}}
	if err := j.read(f); err != nil {
		return nil, err
	}
	return sorted(j.entries), nil
}

func sorted(entries map[uint32][]byte) []string {
	var list []string
	for _, e := range entries {
		list = append(list, string(e))
	}
	slices.Sort(list)
	return list
}

// desk is a journal that is written, and what should be in it.
type desk struct {
	journal *journal
	changes *changes
	kept    []*tombstone
	named   int // how many there were
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	before := &journal{dir: t.TempDir(), head: journalHead{format: storeFormat, bootID: "boot"}, turn: turnUsual}
	j, err := before.create(1, false)
	if err == nil {
		err = j.name()
	}
	if err != nil {
		t.Fatal(err)
	}
	j.wholeNow()
	d := &desk{journal: j, changes: newChanges()}
	t.Cleanup(func() { _ = d.journal.close() }) // a test may have closed it
	return d
}

func (d *desk) add(text string) {
	d.named++
	x := &tombstone{semaphore: &semaphore{name: db}, lease: fmt.Sprint(text, " ", d.named), by: "b"}
	d.kept = append(d.kept, x)
	d.changes.keep(x)
}

func (d *desk) drop(i int) *tombstone {
	x := d.kept[i]
	d.kept = slices.Delete(d.kept, i, i+1)
	d.changes.unkeep(x)
	return x
}

func (d *desk) write(t *testing.T) {
	t.Helper()
	if err := d.journal.write(d.changes); err != nil {
		t.Fatal(err)
	}
	d.changes.wrote()
}

// want is what should be read.
func (d *desk) want() []string {
	var list []string
	for _, x := range d.kept {
		list = append(list, string(appendEntry(nil, x)))
	}
	slices.Sort(list)
	return list
}

// reads reads what is in the directory.
func (d *desk) reads(t *testing.T) ([]string, error) {
	t.Helper()
	numbers, err := journalNumbers(d.journal.dir)
	if err != nil {
		t.Fatal(err)
	}
	return readOf(d.journal.dir, numbers[len(numbers)-1])
}

func (d *desk) is(t *testing.T, want []string) {
	t.Helper()
	got, err := d.reads(t)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Fatalf("the journal (-want +got), error %v:\n%s", err, diff)
	}
}

func (d *desk) fails(t *testing.T, why string) {
	t.Helper()
	if _, err := d.reads(t); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("the error is %v, want %q", err, why)
	}
}

// bytes are those of the file.
func (d *desk) bytes(t *testing.T) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(d.journal.dir, journalName(d.journal.number)))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// filled is a desk whose file has some frames, and where the last of them begins.
func filled(t *testing.T) (d *desk, last int) {
	t.Helper()
	d = newDesk(t)
	for i := range 40 {
		last = int(d.journal.end)
		d.add(strings.Repeat("x", i))
		d.add("y")
		if i%3 == 2 {
			d.drop(i)
		}
		d.write(t)
	}
	return d, last
}

func TestAKillAtAnyPlaceOfAWriteLosesThatWriteAlone(t *testing.T) {
	t.Parallel()
	d, last := filled(t)
	b, end := d.bytes(t), int(d.journal.end)
	whole, err := parse(b, 1)
	if diff := cmp.Diff(d.want(), whole); err != nil || diff != "" {
		t.Fatalf("the journal (-want +got), error %v:\n%s", err, diff)
	}
	var before []string
	for written := last; written < end; written++ {
		torn := slices.Concat(b[:written], make([]byte, len(b)-written))
		got, err := parse(torn, 1)
		if written == last {
			before = got
		}
		if err != nil || !slices.Equal(got, before) || slices.Equal(got, whole) {
			t.Fatalf("killed after %d bytes of %d: %d entries, error %v; want the %d of before", written-last, end-last, len(got), err, len(before))
		}
	}
}

func TestAJournalThatWasCutOffIsToldWhereverThatWas(t *testing.T) {
	t.Parallel()
	d, _ := filled(t)
	b := d.bytes(t)
	for length := range len(b) {
		if _, err := parse(b[:length], 1); err == nil {
			t.Fatalf("cut off after %d bytes of %d, and not told", length, len(b))
		}
	}
}

func TestAJournalThatWasCutOffAtAMultipleOfItsStepIsTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for d.journal.size <= 4*journalGrows {
		d.add(strings.Repeat("x", 1000))
		d.write(t)
	}
	b := d.bytes(t)
	for length := journalGrows; length < int(d.journal.end); length += journalGrows {
		if _, err := parse(b[:length], 1); err == nil {
			t.Errorf("cut off after %d bytes of %d, and not told", length, len(b))
		}
	}
}

func TestABitThatFlippedAnywhereInAJournalIsToldOrHarmless(t *testing.T) {
	t.Parallel()
	d, last := filled(t)
	b, want, told := d.bytes(t), d.want(), 0
	for at := range int(d.journal.end) + 100 {
		for bit := range 8 {
			if at < last && bit != at%8 { // of the last frame each bit, of those before one in eight
				continue
			}
			b[at] ^= 1 << bit
			got, err := parse(b, 1)
			b[at] ^= 1 << bit
			if err != nil {
				told++
			} else if !slices.Equal(got, want) {
				t.Fatalf("bit %d of byte %d of %d flipped: it is not told, and the entries are others", bit, at, d.journal.end)
			}
		}
	}
	if told == 0 {
		t.Error("no damage was found at all")
	}
}

func TestFramesOfAnotherFileAreTold(t *testing.T) {
	t.Parallel()
	d, last := filled(t)
	b, end := d.bytes(t), int(d.journal.end)
	frame := slices.Clone(b[last:end])
	for name, other := range map[string][]byte{
		"a frame twice":        slices.Concat(b[:end], frame, b[end+len(frame):]),
		"one without the last": slices.Concat(b[:last-40], frame, b[last-40+len(frame):]),
	} {
		if _, err := parse(other, 1); err == nil {
			t.Errorf("%s is not told", name)
		}
	}
	if _, err := parse(b, 2); err == nil {
		t.Error("a file under another's number is not told")
	}
}

func TestWhatAWriteThatFailedHasLeftIsWrittenOver(t *testing.T) {
	t.Parallel()
	d, _ := filled(t)
	d.add("z")
	garbage := bytes.Repeat([]byte{7}, 5000)
	if _, err := d.journal.file.WriteAt(garbage, d.journal.end); err != nil {
		t.Fatal(err)
	}
	d.journal.dirt = int64(len(garbage))
	d.write(t)
	d.is(t, d.want())
	d.add("z")
	d.write(t)
	d.is(t, d.want())
}

func TestAWriteThatFailsLeavesTheJournalAsItWas(t *testing.T) {
	t.Parallel()
	d, _ := filled(t)
	want := d.want()
	writable := d.journal.file
	readOnly, err := os.Open(filepath.Join(d.journal.dir, journalName(1)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = readOnly.Close() }()
	d.journal.file = readOnly
	d.add("z")
	gone := d.drop(3)
	for range 2 {
		if err := d.journal.write(d.changes); err == nil {
			t.Fatal("it was written")
		}
		d.is(t, want)
	}
	d.journal.file = writable
	d.write(t)
	d.is(t, d.want())
	if gone.serial != 0 {
		t.Errorf("what is gone has still the serial %d", gone.serial)
	}
}

func TestWhileANewFileCanNotBeBegunNothingIsWrittenAndNothingLost(t *testing.T) {
	t.Parallel()
	for _, name := range []string{journalName(2) + freshEnd, journalName(2)} {
		d, _ := filled(t)
		want := d.want()
		d.journal.turnAt = 0
		inTheWay := filepath.Join(d.journal.dir, name, "directory")
		if err := os.MkdirAll(inTheWay, dirMode); err != nil {
			t.Fatal(err)
		}
		d.add("z")
		for range 2 {
			if err := d.journal.write(d.changes); err == nil {
				t.Errorf("it was written, in spite of %s", name)
			}
			if got, err := readOf(d.journal.dir, 1); err != nil || !slices.Equal(got, want) {
				t.Errorf("with %s in the way: %d entries, want %d, error %v", name, len(got), len(want), err)
			}
		}
		if err := os.RemoveAll(filepath.Dir(inTheWay)); err != nil {
			t.Fatal(err)
		}
		d.write(t)
		d.is(t, d.want())
		if d.journal.number != 2 {
			t.Errorf("it goes on in file %d", d.journal.number)
		}
	}
}

// readOf reads a journal whose last file has this number.
func readOf(dir string, number int) ([]string, error) {
	_, entries, err := readJournal(dir, number)
	return sorted(entries), err
}

// TestAJournalIsTheSameWhateverComesAndGoesAndHoweverOftenItIsBegunAnew also looks after each write at what a kill would leave.
func TestAJournalIsTheSameWhateverComesAndGoesAndHoweverOftenItIsBegunAnew(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		d := newDesk(t)
		d.journal.turn = int64(rng.IntN(3000))
		d.journal.turnAt = 0
		d.journal.sync = seed == 0 // as where a power cut is not noticed
		most := 20 + rng.IntN(500)
		for range 600 {
			for range rng.IntN(5) {
				switch {
				case len(d.kept) < most && rng.IntN(3) > 0:
					d.add(strings.Repeat("x", rng.IntN(30)))
				case len(d.kept) > 0 && rng.IntN(2) == 0:
					x := d.drop(rng.IntN(len(d.kept)))
					if rng.IntN(2) == 0 {
						d.add("heir")
						d.kept[len(d.kept)-1].inherit(&x.stored)
					}
				case len(d.kept) > 0:
					x := d.kept[rng.IntN(len(d.kept))]
					x.at = rng.Int64()
					d.changes.keep(x)
				}
			}
			d.write(t)
			d.is(t, d.want())
		}
		if d.journal.number < 5 {
			t.Errorf("seed %d: only %d files were begun", seed, d.journal.number)
		}
		if len(d.journal.slots) > most+10 {
			t.Errorf("seed %d: %d serials for %d entries", seed, len(d.journal.slots), most)
		}
		numbers, err := journalNumbers(d.journal.dir)
		if err != nil || len(numbers) > 2 {
			t.Errorf("seed %d: the files %v are left, error %v", seed, numbers, err)
		}
	}
}

func TestAKillWhileANewFileIsBegunLosesNothing(t *testing.T) {
	t.Parallel()
	d, _ := filled(t)
	want := d.want()
	fresh, err := d.journal.create(2, true)
	if err != nil {
		t.Fatal(err)
	}
	d.is(t, want) // killed here
	if err := fresh.name(); err != nil {
		t.Fatal(err)
	}
	d.is(t, want) // or here
	if err := d.journal.append(append(d.journal.frame(), changeNext)); err != nil {
		t.Fatal(err)
	}
	d.is(t, want) // or here
	old := d.journal
	d.journal = fresh
	if err := old.close(); err != nil {
		t.Fatal(err)
	}
	first := filepath.Join(d.journal.dir, journalName(1))
	kept, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	for d.journal.older {
		d.add("z")
		d.write(t)
		d.is(t, d.want())
	}
	if err := os.WriteFile(first, kept, fileMode); err != nil { // killed before it was removed
		t.Fatal(err)
	}
	d.is(t, d.want())
}

func TestAFileOfTwoThatIsMissingOrCutOffIsTold(t *testing.T) {
	t.Parallel()
	d, last := filled(t)
	d.journal.turnAt = 0
	d.add("z")
	d.write(t)
	if !d.journal.older {
		t.Fatal("everything was carried over at once")
	}
	d.is(t, d.want())
	path := func(number int) string { return filepath.Join(d.journal.dir, journalName(number)) }
	first, err := os.ReadFile(path(1))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path(1), slices.Concat(first[:last], make([]byte, len(first)-last)), fileMode); err != nil {
		t.Fatal(err)
	}
	d.fails(t, "its end is missing")
	if err := os.Remove(path(1)); err != nil {
		t.Fatal(err)
	}
	d.fails(t, journalName(1)+" is missing")
	if err := os.WriteFile(path(1), first, fileMode); err != nil {
		t.Fatal(err)
	}
	d.is(t, d.want())
	if err := os.Remove(path(2)); err != nil {
		t.Fatal(err)
	}
	d.fails(t, journalName(2)+" is missing")
}

func TestADirectoryIsOpenedAgainWhicheverOfItsJournalsAKillHasLeft(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: t.TempDir(), Now: newHandClock(1).Now, bootID: "boot", turn: 1}
	f := openAs(t, cfg, engine.Value{Limit: 1000})
	files := map[int]bool{}
	for i := range 300 {
		lease := fmt.Sprint("L", i)
		f.says(t, claimOf(lease, "a"), engine.SaysGranted)
		if i%2 == 0 {
			f.says(t, releaseOf(lease, "a", engine.WhyReleased), engine.SaysReleased)
		}
		if i%20 != 0 {
			continue
		}
		image := cfg // what a kill would leave
		image.Dir = t.TempDir()
		if err := os.CopyFS(image.Dir, os.DirFS(cfg.Dir)); err != nil {
			t.Fatal(err)
		}
		numbers, err := journalNumbers(image.Dir)
		if err != nil {
			t.Fatal(err)
		}
		files[len(numbers)] = true
		var log logged
		image.Log = log.log()
		again, err := Open(image)
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
		if log.String() != "" {
			t.Fatalf("the log says %q", log.String())
		}
		if diff := cmp.Diff(content(t, f.node.state), content(t, again.state)); diff != "" {
			t.Fatalf("after opening again (-want +got):\n%s", diff)
		}
		if left, err := journalNumbers(image.Dir); err != nil || len(left) != 1 {
			t.Fatalf("the files %v are left, error %v", left, err)
		}
	}
	if !maps.Equal(files, map[int]bool{1: true, 2: true}) {
		t.Errorf("there were %v files", slices.Collect(maps.Keys(files)))
	}
}

// FuzzJournal reads what nobody wrote.
func FuzzJournal(f *testing.F) {
	b := closed(journalHead{format: storeFormat, bootID: "boot"}.append(make([]byte, frameHead)), firstChain(1))
	f.Add(b)
	f.Add(append(b, closed(append(make([]byte, frameHead), changePut, 1, 0, 0, 0, 0), little.Uint32(b[len(b)-frameTail:]))...))
	f.Fuzz(func(_ *testing.T, b []byte) {
		_, _ = parse(append(b, make([]byte, (journalGrows-len(b)%journalGrows)%journalGrows)...), 1)
	})
}

// closed is a frame with its tail.
func closed(b []byte, chain uint32) []byte {
	return append(little.AppendUint32(b, closeFrame(b, chain)), frameEnd)
}
