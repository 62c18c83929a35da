package localnode

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// What lies in the directory.
const (
	firstName    = "registers.db"     // the first file; who has it open has the directory
	journalBegin = "leases-"          // of the second, whose name has a number in its middle
	journalEnd   = ".log"             // likewise
	asideName    = "leases-set-aside" // a directory: the latest second file that could not be used
	blobsName    = "blobs"            // a directory
	freshEnd     = ".new"             // of a file that is being made
)

const (
	storeFormat = 1                      // of both files; a larger one is refused
	lockTimeout = 200 * time.Millisecond // how long another process may take to leave the directory
	dirMode     = 0o700
	fileMode    = 0o600
)

// opening is a directory that is being opened.
type opening struct {
	dir    string
	bootID string
	now    int64 // the node's clock, µs
	wall   int64 // the wall clock, µs
	turn   int64 // of the journal
	log    *slog.Logger

	store *store
	fresh bool // there was nothing in the directory
}

// openDirectory opens the directory and returns what it keeps, as the State of a node whose changes the store collects.
func (o *opening) openDirectory() (*State, error) {
	if err := os.MkdirAll(o.dir, dirMode); err != nil {
		return nil, err
	}
	o.store = &store{}
	state, err := o.open()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("localnode: %w", err), o.store.close())
	}
	return state, nil
}

func (o *opening) open() (*State, error) {
	journals, err := journalNumbers(o.dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(o.dir, firstName)
	if err := o.create(path, len(journals) > 0); err != nil {
		return nil, err
	}
	first := newContents()
	if err := o.openFirst(path, first); err != nil {
		return nil, err
	}
	second, lost := o.readSecond(journals)
	if lost != nil {
		if err := o.setAside(journals, lost, first.longestTTL); err != nil {
			return nil, err
		}
	}
	o.store.longestTTL, o.store.ceiling = first.longestTTL, first.ceiling
	state := o.build(first, second)
	state.blobs = openBlobs(filepath.Join(o.dir, blobsName))
	if err := o.makeSecond(state, journals); err != nil {
		return nil, fmt.Errorf("writing a journal: %w", err)
	}
	return state, nil
}

// create makes the first file if there is none. It gets its name only when it is whole, so that one that is found is
// one that was in use.
func (o *opening) create(path string, journal bool) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if journal {
		return o.firstDamaged(path, errors.New("it is missing, while a journal of leases is there"))
	}
	o.fresh = true
	fresh := path + freshEnd
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := bolt.Open(fresh, fileMode, firstOptions())
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("%s %w", o.dir, ErrInUse)
	} else if err != nil {
		return err
	}
	f := &sealed{db: db}
	err = f.update(func(w *sealedTx) error {
		b, err := w.bucket(bucketNode)
		if err != nil {
			return err
		}
		id := rand.Text()
		return errors.Join(b.putInt(keyFormat, storeFormat), b.put(keyRunID, func(to []byte) []byte { return append(to, id...) }))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return syncDirectory(o.dir)
}

// syncDirectory makes the names in a directory outlive a power cut.
func syncDirectory(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // directories can not be flushed there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// openFirst opens the first file, which takes the directory for this process, and reads it.
func (o *opening) openFirst(path string, to *contents) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return o.firstDamaged(path, errors.New("it is empty")) // bbolt would start anew
	}
	f := &sealed{}
	err = guard(func() (err error) {
		f.db, err = bolt.Open(path, fileMode, firstOptions())
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%s %w", o.dir, ErrInUse)
	case errors.Is(err, fs.ErrPermission):
		return err
	case err != nil:
		return o.firstDamaged(path, err)
	}
	o.store.first = f
	if err := readAll(f, path, to); err != nil {
		return o.firstDamaged(path, err)
	}
	if to.format > storeFormat {
		return fmt.Errorf("%s has format %d, this version knows %d at most: use a later permitd", path, to.format, storeFormat)
	}
	return nil
}

// firstDamaged is the error that tells how to go on.
func (o *opening) firstDamaged(path string, why error) error {
	return fmt.Errorf("%s %w: %w. It holds what must not be lost: the definitions and the leases without an end. "+
		"Put back a copy of the directory; or, to start with nothing, wait until no lease can be held any more, move %s away and start again",
		path, ErrDamaged, why, o.dir)
}

// readAll verifies a file and reads all of it.
func readAll(f *sealed, path string, to *contents) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return guard(func() error {
		if err := verify(file, info.Size(), f.db.Info().PageSize); err != nil {
			return err
		}
		return f.read(to.add)
	})
}

// readSecond reads the second file. lost says why what is in it must not be used; nil where nothing is lost.
func (o *opening) readSecond(journals []int) (to *contents, lost error) {
	to = newContents()
	if len(journals) == 0 {
		if o.fresh {
			return to, nil
		}
		return nil, errors.New("it is missing")
	}
	head, entries, err := readJournal(o.dir, journals[len(journals)-1])
	switch {
	case err != nil:
		return nil, fmt.Errorf("it %w: %w", ErrDamaged, err)
	case head.format > storeFormat:
		return nil, fmt.Errorf("it has format %d, this version knows %d at most", head.format, storeFormat)
	case head.bootID != o.bootID:
		return nil, errors.New("the machine was started anew, and the file may lack what was written last")
	}
	for _, entry := range entries {
		if err := to.addEntry(entry); err != nil {
			return nil, fmt.Errorf("it %w: %w", ErrDamaged, err)
		}
	}
	return to, nil
}

// setAside moves the second file out of the way, and tells so.
func (o *opening) setAside(journals []int, why error, longestTTL int64) error {
	aside := filepath.Join(o.dir, asideName)
	if len(journals) > 0 {
		if err := errors.Join(os.RemoveAll(aside), os.MkdirAll(aside, dirMode)); err != nil {
			return fmt.Errorf("setting the leases aside: %w", err)
		}
	}
	for _, number := range journals { // the last one last: until then it is set aside again after a kill
		name := journalName(number)
		if err := os.Rename(filepath.Join(o.dir, name), filepath.Join(aside, name)); err != nil {
			return fmt.Errorf("setting %s aside: %w", name, err)
		}
	}
	o.log.Warn("the leases that were kept can not be used; no semaphore grants anything until the longest lease has ended",
		"files", filepath.Join(o.dir, journalBegin+"*"+journalEnd), "why", why, "set_aside_in", aside, "wait", micros(longestTTL))
	return nil
}

// makeSecond writes the second file anew from the state, puts what the first lacks into that, and removes what was there before.
func (o *opening) makeSecond(state *State, journals []int) error {
	number := 1
	if len(journals) > 0 {
		number += journals[len(journals)-1]
	}
	before := &journal{
		dir: o.dir, head: journalHead{format: storeFormat, bootID: o.bootID}, turn: o.turn,
		sync: o.bootID == "", // where a power cut is not noticed, nothing may be lost by one
	}
	j, err := before.create(number, false)
	if err != nil {
		return err
	}
	o.store.second = j
	if err := o.store.write(state.changes, o.wall-o.now); err != nil {
		return err
	}
	j.wholeNow()
	if err := j.name(); err != nil {
		o.store.second = nil // it is closed
		return err
	}
	for _, old := range journals {
		if err := os.Remove(filepath.Join(o.dir, journalName(old))); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err // it may have been set aside
		}
	}
	return syncDirectory(o.dir)
}
