package enginetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/permitd/permitd/engine"
)

// transcriptMax is how many of the last messages a failing test shows.
const transcriptMax = 400

// transcript remembers the last messages of a test, and logs them if it fails. Safe for concurrent use.
type transcript struct {
	start time.Time

	mu    sync.Mutex // guards what follows
	lines []transcriptLine
	next  int // where the next line goes, once lines is full
	ended bool
}

type transcriptLine struct {
	at      time.Duration
	node    string
	replica string
	what    string
	message *Message
	answer  *engine.Answer
}

func newTranscript(t testing.TB) *transcript {
	s := &transcript{start: time.Now()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the last messages:\n" + s.String())
		}
	})
	return s
}

func (s *transcript) add(line transcriptLine) {
	line.at = time.Since(s.start)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if len(s.lines) < transcriptMax {
		s.lines = append(s.lines, line)
		return
	}
	s.lines[s.next] = line
	s.next = (s.next + 1) % transcriptMax
}

// end lets the transcript stop here: what happened up to now is what matters.
func (s *transcript) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for i := range s.lines {
		line := s.lines[(s.next+i)%len(s.lines)]
		fmt.Fprintf(&b, "%14s  %s of %s: %s", line.at, line.node, line.replica, line.what)
		if m := line.message; m != nil && m.Wake != nil {
			fmt.Fprintf(&b, " %+v", *m.Wake)
		} else if m != nil {
			fmt.Fprintf(&b, " %s %+v", m.name, m.Op)
		}
		if line.answer != nil {
			fmt.Fprintf(&b, "\n%16s-> %s", "", summary(line.answer))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// summary writes the fields of an answer that people look for first.
func summary(a *engine.Answer) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	text := fmt.Sprintf("%s slots=%s fence=%d ver=%d left=%s free=%d", a.Says, a.Slots, a.Fence, a.Ver, a.Left, a.Free)
	if a.Says == engine.SaysOut {
		text += fmt.Sprintf(" state=%s reason=%q", a.State, a.Reason)
	}
	return text
}

func describe(name string, words []string) string {
	return strings.TrimSpace(name + " " + strings.Join(words, " "))
}
