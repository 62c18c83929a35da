package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/redis/go-redis/v9"
)

// bareEnv makes this program a bare server: "address redis,redis,redis permits".
const bareEnv = "PERMITD_BENCH_BARE"

// bare is the least that any server of this kind does: it reads a frame, sends one tiny script a node for the release and
// one for the next claim through a pipeline a node, and writes to the next in line when the second node has answered. It keeps
// nothing: no rules, no names, no leases, no failures. What it reaches is what the machine lets anybody reach.
type bare struct {
	mu    sync.Mutex
	free  int
	line  []func()
	lanes []chan *bareCall
}

// bareCall is what a lane is to send, and what to do with the answer.
type bareCall struct {
	release, claim bool
	answered       func()
}

const (
	bareClaim   = `return redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])`
	bareRelease = `return redis.call('HDEL', KEYS[1], ARGV[1])`
)

// serveBare serves until it is killed.
func serveBare(text string) error {
	var addr, nodes string
	b := &bare{}
	if _, err := fmt.Sscan(text, &addr, &nodes, &b.free); err != nil {
		return err
	}
	for node := range strings.SplitSeq(nodes, ",") {
		lane := make(chan *bareCall, 1000)
		b.lanes = append(b.lanes, lane)
		go b.work(redis.NewClient(&redis.Options{Addr: node, Protocol: 2}).Conn(), lane)
	}
	upgrader := websocket.Upgrader{}
	return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := upgrader.Upgrade(w, r, nil); err == nil {
			b.serve(conn)
		}
	}))
}

// work sends what is in a lane.
func (b *bare) work(conn *redis.Conn, lane chan *bareCall) {
	ctx := context.Background()
	claim, release := conn.ScriptLoad(ctx, bareClaim).Val(), conn.ScriptLoad(ctx, bareRelease).Val()
	for first := range lane {
		batch := []*bareCall{first}
		for len(lane) > 0 {
			batch = append(batch, <-lane)
		}
		pipe := conn.Pipeline()
		for _, c := range batch {
			if c.release {
				pipe.EvalSha(ctx, release, []string{"bare"}, "lease")
			}
			if c.claim {
				pipe.EvalSha(ctx, claim, []string{"bare"}, "lease", "holder")
			}
		}
		_, _ = pipe.Exec(ctx)
		for _, c := range batch {
			c.answered()
		}
	}
}

// serve reads the frames of a client.
func (b *bare) serve(conn *websocket.Conn) {
	var writing sync.Mutex
	write := func() {
		writing.Lock()
		defer writing.Unlock()
		_ = conn.WriteMessage(websocket.TextMessage, []byte("granted"))
	}
	for {
		_, text, err := conn.ReadMessage()
		if err != nil {
			return
		}
		b.mu.Lock()
		if string(text) == "release" {
			var next func()
			if len(b.line) > 0 {
				next, b.line = b.line[0], b.line[1:]
			} else {
				b.free++
			}
			b.send(true, next)
		} else if b.free > 0 {
			b.free--
			b.send(false, write)
		} else {
			b.line = append(b.line, write)
		}
		b.mu.Unlock()
	}
}

// send sends a release, a claim or both to all nodes; granted is called when the second has answered.
func (b *bare) send(release bool, granted func()) {
	var mu sync.Mutex
	answers := 0
	for _, lane := range b.lanes {
		lane <- &bareCall{release, granted != nil, func() {
			mu.Lock()
			defer mu.Unlock()
			if answers++; answers == 2 && granted != nil {
				granted()
			}
		}}
	}
}

// startBare runs this program as a bare server and returns its URL.
func startBare(s *stand, nodes string, permits int) string {
	addr := freeAddr(s)
	startSelf(s, addr, fmt.Sprint(bareEnv, "=", addr, " ", nodes, " ", permits))
	return "ws://" + addr
}

// overBare is a client of the bare server with a connection of its own.
func overBare(s *stand, url string) acquirer {
	conn, response, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		s.Fatalf("%v", err)
	}
	_ = response.Body.Close()
	s.Cleanup(func() { _ = conn.Close() })
	return func(ctx context.Context) (func(), error) {
		if err := conn.WriteMessage(websocket.TextMessage, []byte("acquire")); err != nil {
			return nil, err
		}
		if _, _, err := conn.ReadMessage(); err != nil {
			return nil, err
		}
		return func() { _ = conn.WriteMessage(websocket.TextMessage, []byte("release")) }, nil
	}
}
