package redistest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// Mini is a miniredis that is reached over net.Pipe, so that it may live in a synctest bubble, and that answers INFO
// as a Redis would. Close it before the bubble or the test ends.
type Mini struct {
	*miniredis.Miniredis

	mu     sync.Mutex        // guards what follows
	info   map[string]string // what INFO answers
	errors map[string]string // what other commands answer instead of what they should
}

// NewMini returns a server that runs.
func NewMini() *Mini {
	m := &Mini{
		Miniredis: miniredis.NewMiniRedis(), errors: map[string]string{},
		info: map[string]string{
			"redis_version": "7.0.15",
			"run_id":        runID(), "role": "master", "master_replid": runID(),
			"maxmemory_policy": "noeviction", "loading": "0", "aof_enabled": "0",
		},
	}
	m.ClockTTL(true)
	// The first dial starts a server that has no listener; what it serves is the connection it returns.
	first, err := m.Dial()
	if err != nil {
		panic(err) // net.Pipe does not fail
	}
	_ = first.Close()
	m.Server().SetPreHook(m.answer)
	return m
}

// Dialer is for redisnode's Config: it connects to this server, whatever the address.
func (m *Mini) Dialer(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	m.Server().ServeConn(newPatient(server))
	return client, nil
}

// SetInfo changes a line of what INFO answers, such as "role". To give it a new "run_id" is half of a restart: see also
// SCRIPT FLUSH, and the connections.
func (m *Mini) SetInfo(key, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info[key] = value
}

// Fail lets a command, in capitals, be answered with an error, such as "READONLY You can't write against a read only
// replica."; an empty one ends that.
func (m *Mini) Fail(command, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.errors[command] = text
}

// answer answers INFO, whatever the section, also inside scripts, and what is to fail; all else is left to miniredis.
func (m *Mini) answer(peer *server.Peer, command string, _ ...string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch text := m.errors[command]; {
	case text != "":
		peer.WriteError(text)
		return true
	case command != "INFO":
		return false
	}
	var text strings.Builder
	for key, value := range m.info {
		fmt.Fprintf(&text, "%s:%s\r\n", key, value)
	}
	peer.WriteBulk(text.String())
	return true
}

// runID makes up a run_id: 40 characters, as Redis has them.
func runID() string { return strings.ToLower(rand.Text() + rand.Text())[:40] }
