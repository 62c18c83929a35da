package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

const (
	channelProtocol = "permitd.v1"
	silenceMax      = 40 * time.Second       // the server says something every 15 s
	writeTimeMax    = 10 * time.Second       // for the connection to take a frame
	closeTimeMax    = 2 * time.Second        // for the server to answer a close
	validityTick    = 100 * time.Millisecond // how often validities are looked at
)

// ErrClosed says that the channel has ended: nothing that was held over it is held any more, unless it ended with a
// restart of the server.
var ErrClosed = errors.New("the lease channel is closed")

// Channel is a connection that holds leases: when it ends, they end. The server renews them meanwhile. Safe for
// concurrent use.
//
// Two goroutines serve it, one that reads and one that watches validities; Close ends them and waits.
type Channel struct {
	conn    *websocket.Conn
	welcome Welcome
	done    chan struct{} // closed when the reader has ended
	work    sync.WaitGroup

	writing sync.Mutex // guards writes to conn

	mu    sync.Mutex // guards what follows
	last  uint64     // ref
	asked map[string]chan answer
	holds map[string]*Hold // by lease id
	ended error            // why the channel ended
}

// Welcome is what the server says first.
type Welcome struct {
	Version   string   `json:"version"`
	Replica   string   `json:"replica"`
	Principal string   `json:"principal"`
	Scopes    []string `json:"scopes"`
}

// serverFrame is what the server may say.
type serverFrame struct {
	Type   string `json:"type"`
	Ref    string `json:"ref"`
	Reason string `json:"reason"`
	Leases []struct {
		ID         string `json:"id"`
		ValidityMS int64  `json:"validity_ms"`
	} `json:"leases"`
	leaseJSON
}

// answer is what the server said to a frame.
type answer struct {
	hold    *Hold
	problem *Problem
}

// Dial opens a lease channel. A *Problem tells why the server refused.
func (c *Client) Dial(ctx context.Context) (*Channel, error) {
	target := *c.base
	target.Scheme = map[string]string{"http": "ws", "https": "wss"}[target.Scheme]
	dialer := websocket.Dialer{Subprotocols: []string{channelProtocol}, Proxy: http.ProxyFromEnvironment}
	if t, ok := c.http.Transport.(*http.Transport); ok {
		dialer.NetDialContext, dialer.TLSClientConfig = t.DialContext, t.TLSClientConfig
	}
	header := http.Header{}
	c.authorize(header)
	conn, response, err := dialer.DialContext(ctx, target.String()+"/v1/ws", header)
	if err != nil {
		return nil, dialError(response, err)
	}
	ch := &Channel{conn: conn, done: make(chan struct{}), asked: map[string]chan answer{}, holds: map[string]*Hold{}}
	if err := ch.readWelcome(); err != nil {
		return nil, errors.Join(fmt.Errorf("client: %w", err), conn.Close())
	}
	ch.work.Go(ch.read)
	ch.work.Go(ch.watch)
	return ch, nil
}

func dialError(response *http.Response, err error) error {
	if response == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		return fmt.Errorf("client: %w", err)
	}
	text := make([]byte, 1024) // what gorilla keeps of the body
	n, _ := response.Body.Read(text)
	return problemOf(response, text[:n])
}

func (ch *Channel) readWelcome() error {
	ch.conn.SetPingHandler(func(text string) error {
		_ = ch.conn.WriteControl(websocket.PongMessage, []byte(text), time.Now().Add(writeTimeMax)) // the reader notices a broken connection
		return ch.conn.SetReadDeadline(time.Now().Add(silenceMax))
	})
	if err := ch.conn.SetReadDeadline(time.Now().Add(silenceMax)); err != nil {
		return err
	}
	return ch.conn.ReadJSON(&ch.welcome)
}

// Welcome returns what the server said first.
func (ch *Channel) Welcome() Welcome { return ch.welcome }

// Done is closed when the channel has ended; Err then tells why.
func (ch *Channel) Done() <-chan struct{} { return ch.done }

// Err returns why the channel ended; nil while it has not.
func (ch *Channel) Err() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.ended
}

// Close ends the channel and everything that is held over it, and waits for the goroutines.
func (ch *Channel) Close() error {
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	if ch.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeTimeMax)) == nil {
		select {
		case <-ch.done: // the server has answered
		case <-time.After(closeTimeMax):
		}
	}
	err := ch.conn.Close()
	ch.work.Wait()
	return err
}

// read takes in frames until the connection ends.
func (ch *Channel) read() {
	for {
		_, text, err := ch.conn.ReadMessage()
		if err != nil {
			ch.end(err)
			return
		}
		if err := ch.conn.SetReadDeadline(time.Now().Add(silenceMax)); err != nil {
			ch.end(err)
			return
		}
		var f serverFrame
		if err := json.Unmarshal(text, &f); err != nil {
			ch.end(fmt.Errorf("a frame that is not JSON: %w", err))
			return
		}
		ch.heard(f, text)
	}
}

// end fails what is under way and loses what is held.
func (ch *Channel) end(why error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.ended = fmt.Errorf("%w: %w", ErrClosed, why)
	for _, h := range ch.holds {
		h.lose("the connection ended")
	}
	close(ch.done)
}

// heard acts on one frame. Unknown ones are ignored.
func (ch *Channel) heard(f serverFrame, text []byte) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	a, asked := answer{}, ch.asked[f.Ref]
	switch f.Type {
	case "granted":
		if asked == nil {
			return // nobody waits for it any more, and the server has been told
		}
		a.hold = newHold(ch, f.lease())
		ch.holds[f.ID] = a.hold
	case "refused", "error":
		a.problem = &Problem{}
		if json.Unmarshal(text, a.problem) != nil {
			return
		}
	case "renewed":
		ch.renewed(f)
	case "lost":
		if h := ch.holds[f.ID]; h != nil {
			h.lose(f.Reason)
		}
		return
	case "released", "cancelled", "pong":
	default:
		return
	}
	if asked != nil {
		delete(ch.asked, f.Ref)
		asked <- a // has room for it
	}
}

func (ch *Channel) renewed(f serverFrame) {
	now := time.Now()
	for _, l := range f.Leases {
		switch h := ch.holds[l.ID]; {
		case h == nil:
		case !now.Before(h.validUntil): // this was read too late, by a program that stood still: others may hold it by now
			h.lose("its validity ended")
		default:
			h.validUntil = now.Add(millis(l.ValidityMS))
		}
	}
}

// watch loses what has not been renewed in time, whatever the server says or does not say.
func (ch *Channel) watch() {
	tick := time.NewTicker(validityTick)
	defer tick.Stop()
	for {
		select {
		case <-ch.done:
			return
		case now := <-tick.C:
			ch.mu.Lock()
			for _, h := range ch.holds {
				if !now.Before(h.validUntil) {
					h.lose("its validity ended")
				}
			}
			ch.mu.Unlock()
		}
	}
}

// ask sends a frame with a new ref, and returns the ref and where its answer will come.
func (ch *Channel) ask(frame func(ref string) any) (ref string, _ chan answer, err error) {
	heard := make(chan answer, 1)
	ch.mu.Lock()
	if err := ch.ended; err != nil {
		ch.mu.Unlock()
		return "", nil, err
	}
	ch.last++
	ref = strconv.FormatUint(ch.last, 36)
	ch.asked[ref] = heard
	ch.mu.Unlock()
	if err := ch.write(frame(ref)); err != nil {
		ch.forget(ref)
		return "", nil, err
	}
	return ref, heard, nil
}

func (ch *Channel) forget(ref string) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	delete(ch.asked, ref)
}

func (ch *Channel) write(frame any) error {
	text, err := json.Marshal(frame)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	ch.writing.Lock()
	defer ch.writing.Unlock()
	if err := ch.conn.SetWriteDeadline(time.Now().Add(writeTimeMax)); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	if err := ch.conn.WriteMessage(websocket.TextMessage, text); err != nil {
		return fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return nil
}

// wait returns the answer to a frame, or why there will be none.
func (ch *Channel) wait(ctx context.Context, ref string, heard chan answer) (answer, error) {
	select {
	case a := <-heard:
		if a.problem != nil {
			return a, a.problem
		}
		return a, nil
	case <-ch.done:
		return answer{}, ch.Err()
	case <-ctx.Done():
		ch.forget(ref)
		return answer{}, ctx.Err()
	}
}
