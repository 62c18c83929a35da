package server

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"go.yaml.in/yaml/v3"

	"github.com/permitd/permitd/engine"
)

// Limits of a file of tokens.
const (
	tokensMax      = 1000 // each request is compared with all
	tokenGlobsMax  = 100  // of one
	principalMax   = 128  // bytes of a name
	tokenBytesMax  = 1024 // of what a client presents
	TokensBytesMax = 1 << 20
)

// Tokens are who may ask, and for what. A file of them is a YAML list:
//
//   - name: ci
//     sha256: 64-HEXADECIMAL-DIGITS  # of the token
//     scopes: [lease, read]          # and operate
//     semaphores: ["ci/*", backup]   # * is any text, ? any character
//     priority_max: 10               # 100
//
// A name may have several, so that tokens can be changed one after the other. Safe for concurrent use.
type Tokens struct {
	list atomic.Pointer[[]*principal]

	mu      sync.Mutex // guards what follows
	changed chan struct{}
}

// NewTokens reads the text of a file. The error names all that is wrong with it, and no token.
func NewTokens(text []byte) (*Tokens, error) {
	t := &Tokens{changed: make(chan struct{})}
	return t, t.Replace(text)
}

// Replace makes these the tokens from now on. Connections of those that are gone are ended. With an error nothing changes.
func (t *Tokens) Replace(text []byte) error {
	list, err := readTokens(text)
	if err != nil {
		return err
	}
	t.list.Store(&list)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.changed)
	t.changed = make(chan struct{})
	return nil
}

// Count returns how many tokens there are.
func (t *Tokens) Count() int { return len(*t.list.Load()) }

// changes returns a channel that is closed when the tokens are next replaced.
func (t *Tokens) changes() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// of returns whose token this is; nil: nobody's. It takes as long whichever it is.
func (t *Tokens) of(token string) *principal {
	if token == "" || len(token) > tokenBytesMax {
		return nil
	}
	return t.withHash(sha256.Sum256([]byte(token)))
}

func (t *Tokens) withHash(hash [sha256.Size]byte) (found *principal) {
	for _, p := range *t.list.Load() {
		if subtle.ConstantTimeCompare(p.hash[:], hash[:]) == 1 {
			found = p
		}
	}
	return found
}

// tokenYAML is an entry of the file.
type tokenYAML struct {
	Name        string
	SHA256      string
	Scopes      []string
	Semaphores  []string
	PriorityMax *int `yaml:"priority_max"`
}

func readTokens(text []byte) ([]*principal, error) {
	if len(text) > TokensBytesMax {
		return nil, fmt.Errorf("the file has more than %d bytes", TokensBytesMax)
	}
	var entries []tokenYAML
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	switch err := decoder.Decode(&entries); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("the file is empty; [] means that nobody may come in")
	case err != nil:
		return nil, err
	case len(entries) > tokensMax:
		return nil, fmt.Errorf("there are %d; at most %d can be", len(entries), tokensMax)
	}
	var wrong error
	list := make([]*principal, 0, len(entries))
	for i, entry := range entries {
		p, err := entry.principal()
		if err == nil && slices.ContainsFunc(list, func(q *principal) bool { return q.hash == p.hash }) {
			err = errors.New("its sha256 is that of another")
		}
		if err != nil {
			wrong = errors.Join(wrong, fmt.Errorf("entry %d: %w", i+1, err))
			continue
		}
		list = append(list, p)
	}
	return list, wrong
}

// principal checks an entry.
func (e *tokenYAML) principal() (*principal, error) {
	p := &principal{name: e.Name, globs: e.Semaphores, priorityMax: engine.PriorityMax}
	hash, err := hex.DecodeString(e.SHA256)
	copy(p.hash[:], hash)
	for _, scope := range everyScope { // in this order
		if slices.Contains(e.Scopes, scope) {
			p.scopes = append(p.scopes, scope)
		}
	}
	if e.PriorityMax != nil {
		p.priorityMax = *e.PriorityMax
	}
	switch {
	case e.Name == "" || len(e.Name) > principalMax || !plainText(e.Name):
		err = fmt.Errorf("its name must be a line of 1 to %d bytes", principalMax)
	case e.Name == anonymous:
		err = fmt.Errorf("%q is who brings no token", anonymous)
	case err != nil || len(hash) != sha256.Size:
		err = errors.New("its sha256 must be 64 hexadecimal digits")
	case len(p.scopes) == 0 || len(p.scopes) != len(e.Scopes):
		err = errors.New("its scopes must be one or more of lease, operate, read, each once")
	case len(p.globs) == 0 || len(p.globs) > tokenGlobsMax:
		err = fmt.Errorf(`it must name 1 to %d semaphores; "*" stands for all`, tokenGlobsMax)
	case p.priorityMax < -engine.PriorityMax || p.priorityMax > engine.PriorityMax:
		err = fmt.Errorf("its priority_max must be %d to %d", -engine.PriorityMax, engine.PriorityMax)
	}
	return p, err
}
