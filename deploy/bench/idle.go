package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const (
	idleHolders  = 9000
	idleOpening  = 20               // at once
	idleMin      = 25 * time.Second // two renewals of the usual TTL
	idleBar      = 20 << 10         // bytes each
	idleLosing   = time.Minute      // for the server to forget them
	idleRemnants = 5                // goroutines more than before
)

// idle opens the lease channels of holders that do nothing, and tells what each costs the server, its renewals included; and
// whether all is given back when they leave.
func idle(ctx context.Context, s *stand, length time.Duration) error {
	permitd := s.serve(s.build(), "--data", ":memory:")
	before, err := permitd.resident()
	if err != nil {
		return err
	}
	goroutines, err := permitd.metric(ctx, "go_goroutines")
	if err != nil {
		return err
	}
	h := &holders{url: "ws" + strings.TrimPrefix(permitd.url, "http") + "/v1/ws"}
	defer h.leave()
	if err := h.open(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(max(length, idleMin)):
	}
	after, err := permitd.resident()
	if err != nil {
		return err
	}
	if held, err := permitd.metric(ctx, `permitd_semaphore_in_use{semaphore="idle"}`); err != nil || held != idleHolders || h.ended.Load() > 0 {
		return fmt.Errorf("%v are held of %d, %d connections have ended: %w", held, idleHolders, h.ended.Load(), err)
	}
	each := (after - before) / idleHolders
	value("renewals told to each holder", float64(h.renewals.Load())/idleHolders, "")
	bar("memory of the server, each holder", each/1024, " KiB", each <= idleBar, fmt.Sprintf("<= %d KiB", idleBar>>10))
	h.leave()
	return permitd.returnsTo(ctx, goroutines)
}

// returnsTo waits until nothing is held any more, and tells how many goroutines are left over.
func (sv *server) returnsTo(ctx context.Context, goroutines float64) error {
	var now, held float64
	var err error
	for end := time.Now().Add(idleLosing); time.Now().Before(end); time.Sleep(time.Second) {
		if held, err = sv.metric(ctx, `permitd_semaphore_in_use{semaphore="idle"}`); err != nil {
			return err
		}
		if now, err = sv.metric(ctx, "go_goroutines"); err != nil {
			return err
		}
		if held == 0 && now <= goroutines+idleRemnants {
			break
		}
	}
	bar("permits in use when all have left", held, "", held == 0, "0")
	bar("goroutines more than before", now-goroutines, "", now <= goroutines+idleRemnants, fmt.Sprintf("<= %d", idleRemnants))
	return nil
}

// holders are many connections that each hold a permit.
type holders struct {
	url      string
	renewals atomic.Int64
	ended    atomic.Int64
	readers  sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns []*websocket.Conn
}

func (h *holders) open(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var opening sync.WaitGroup
	var opened atomic.Int64
	for range idleOpening {
		opening.Go(func() {
			for opened.Add(1) <= idleHolders && ctx.Err() == nil {
				if err := h.one(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	opening.Wait()
	return context.Cause(ctx)
}

// one opens a connection and waits for its grant.
func (h *holders) one(ctx context.Context) error {
	dialer := websocket.Dialer{ReadBufferSize: 512, WriteBufferSize: 512}
	conn, _, err := dialer.DialContext(ctx, h.url, nil)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.conns = append(h.conns, conn)
	h.mu.Unlock()
	const ask = `{"type":"acquire","ref":"1","semaphore":"idle","create":{"limit":100000}}`
	if err := conn.WriteMessage(websocket.TextMessage, []byte(ask)); err != nil {
		return err
	}
	for {
		_, text, err := conn.ReadMessage()
		if err != nil {
			return err
		}
		if bytes.Contains(text, []byte(`"granted"`)) {
			break
		}
	}
	h.readers.Go(func() {
		for {
			_, text, err := conn.ReadMessage() // which answers pings
			if err != nil {
				h.ended.Add(1)
				return
			}
			if bytes.Contains(text, []byte(`"renewed"`)) {
				h.renewals.Add(1)
			}
		}
	})
	return nil
}

// leave closes all connections. It may be called twice.
func (h *holders) leave() {
	h.mu.Lock()
	conns := h.conns
	h.conns = nil
	h.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // as clients that die
	}
	h.readers.Wait()
}

// resident is the memory of the process, in bytes.
func (sv *server) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", sv.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "VmRSS:"); found {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib * 1024, err
		}
	}
	return 0, fmt.Errorf("/proc tells no VmRSS")
}

// metric reads a sample of /metrics.
func (sv *server) metric(ctx context.Context, name string) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, sv.url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, name+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(rest), 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", name)
}
