package redisnode

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/quorum"
)

// fields reads what a script wrote: words with one space between them. After a word that is not what it should be, err is
// set and all further ones are zero.
type fields struct {
	rest  string // what comes after the words that were read
	ended bool   // nothing does
	err   error
}

// next returns the next word as it stands.
func (f *fields) next() string {
	if f.ended && f.err == nil {
		f.err = errors.New("it ends too early")
	}
	word, rest, more := strings.Cut(f.rest, " ")
	f.rest, f.ended = rest, !more
	return word
}

// remainder returns what comes after the words, whatever it is.
func (f *fields) remainder() string {
	rest := f.rest
	f.rest, f.ended = "", true
	return rest
}

// end returns the error, which is set also if words are left.
func (f *fields) end() error {
	if !f.ended && f.err == nil {
		f.err = fmt.Errorf("%q is left", f.rest)
	}
	return f.err
}

func (f *fields) fail(what, word string) {
	if f.err == nil {
		f.err = fmt.Errorf("%q is no %s", word, what)
	}
	f.rest, f.ended = "", true
}

// number reads a number; an empty word is 0.
func (f *fields) number() int64 {
	word := f.next()
	if word == "" {
		return 0
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		f.fail("number", word)
	}
	return n
}

func (f *fields) int() int { return int(f.number()) }

func (f *fields) flag() bool { return f.next() == "1" }

// duration reads a length of time in µs; an empty word is 0.
func (f *fields) duration() time.Duration { return time.Duration(f.number()) * time.Microsecond }

// left reads when something is over, and returns how long that is from now on, not less than nothing.
func (f *fields) left(now int64) time.Duration {
	word := f.next()
	if word == "" {
		return 0
	} else if word == neverWord {
		return engine.Never
	}
	over, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		f.fail("time", word)
	}
	return time.Duration(max(0, over-now)) * time.Microsecond
}

// text reads an identifier.
func (f *fields) text() string {
	word := f.next()
	text, ok := unword(word)
	if !ok {
		f.fail("word", word)
	}
	return text
}

func (f *fields) slots() quorum.Slots {
	slots, err := quorum.ParseSlots(f.next())
	if err != nil && f.err == nil {
		f.err = err
	}
	return slots
}

func (f *fields) ballot() engine.Ballot {
	return engine.Ballot{Counter: f.number(), Replica: f.text()}
}

func (f *fields) owner() engine.Owner { return engine.Owner{Gen: f.number(), Nonce: f.text()} }

func (f *fields) order() engine.Order {
	o := engine.Order{Arrival: f.number(), Seq: f.number()}
	o.Replica = f.text()
	return o
}

// eras reads a vector of eras, by commas; an empty word is nil.
func (f *fields) eras() []int64 {
	word := f.next()
	if word == "" {
		return nil
	}
	var eras []int64
	for part := range strings.SplitSeq(word, ",") {
		era, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			f.fail("vector of eras", word)
			return nil
		}
		eras = append(eras, era)
	}
	return eras
}

// reply is what a script answered with: one string, or several.
type reply struct {
	head fields
	rest []string
}

var errReply = errors.New("its answer cannot be read")

// newReply reads what go-redis made of an answer.
func newReply(value any) (reply, error) {
	switch value := value.(type) {
	case string:
		return reply{head: fields{rest: value}}, nil
	case []any:
		texts := make([]string, len(value))
		for i, part := range value {
			text, ok := part.(string)
			if !ok {
				return reply{}, fmt.Errorf("%w: its part %d is a %T", errReply, i, part)
			}
			texts[i] = text
		}
		if len(texts) > 0 {
			return reply{head: fields{rest: texts[0]}, rest: texts[1:]}, nil
		}
	}
	return reply{}, fmt.Errorf("%w: it is a %T", errReply, value)
}

// take returns the next part after the head.
func (r *reply) take() string {
	if len(r.rest) == 0 {
		if r.head.err == nil {
			r.head.err = errors.New("it ends too early")
		}
		return ""
	}
	text := r.rest[0]
	r.rest = r.rest[1:]
	return text
}

// note keeps the error of a part.
func (r *reply) note(err error) {
	if r.head.err == nil {
		r.head.err = err
	}
}
