package redisnode

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/permitd/permitd/engine"
)

// linkMax is how long it may take to make a connection, to log in, to look at the server and to load the scripts.
const linkMax = 5 * time.Second

// link is the lane's connection: made, used and closed by the lane's goroutine, connect aside, which has it before.
type link struct {
	node    *Node
	client  *redis.Client
	conn    *redis.Conn
	encoder *encoder // of the scripts that the server has; nil: none were loaded
	refusal error    // why the node does not count; nil: it does
	fatal   bool     // nothing at all is to be written
	suspect bool     // the server may not be what it was: look before anything is written
	bare    bool     // the server has bareScripts
}

// connect makes a link and looks at the server. Scripts are loaded afterwards: only a server that is what it was may have them.
func (n *Node) connect(ctx context.Context) (*link, engine.Probe, error) {
	ctx, cancel := context.WithTimeout(ctx, linkMax)
	defer cancel()
	client, err := n.lane.open(ctx, &n.cfg, n.server)
	if err != nil {
		return nil, engine.Probe{}, err
	}
	l := &link{node: n, client: client, conn: client.Conn()}
	p, err := l.look(ctx)
	if err != nil {
		l.close()
		return nil, engine.Probe{}, err
	}
	return l, p, nil
}

// look probes the server, and loads the scripts where it has none and may have them.
func (l *link) look(ctx context.Context) (engine.Probe, error) {
	p, err := l.probe(ctx)
	if err != nil {
		return p, named(err)
	}
	l.refusal, l.fatal, l.suspect = p.Refusal, p.Fatal, false
	if l.encoder == nil && !l.fatal {
		if err := l.load(ctx); err != nil {
			return p, named(err)
		}
	}
	return p, nil
}

// load loads the scripts.
func (l *link) load(ctx context.Context) error {
	set := scripts
	if l.bare {
		set = bareScripts
	}
	pipe := l.conn.Pipeline()
	for _, s := range set {
		pipe.ScriptLoad(ctx, s.text)
	}
	switch _, err := pipe.Exec(ctx); {
	case kindOf(err) == ErrOther && !l.bare:
		l.bare = true // it does not know their first line
		return l.load(ctx)
	case err != nil:
		return fmt.Errorf("loading scripts: %w", err)
	}
	l.encoder = newEncoder(l.node.cfg.Prefix, set)
	return nil
}

// close throws the connection away.
func (l *link) close() {
	l.node.lane.cut()
	_ = l.conn.Close()
	_ = l.client.Close()
}
