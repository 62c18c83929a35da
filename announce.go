package main

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
)

// announce says that the server listens, and how to try it.
func (f *serveFlags) announce(w io.Writer, addr net.Addr, nodes []engine.Node) {
	url := "http://" + reachable(addr)
	fmt.Fprintf(w, `permitd %s on http://%s, %s, %s

Try it in another terminal:

  S=%s/v1/semaphores/backup
  lease=$(curl -fsS -H 'Accept: text/plain' -d create=1 -d wait=25s -d ttl=1h $S/acquire)
  curl -fsS $S
  curl -fsS -H 'Accept: text/plain' -d lease=$lease $S/release

`, version, addr, f.store(nodes), f.openTo(), url)
}

// store says where permits live.
func (f *serveFlags) store(nodes []engine.Node) string {
	switch {
	case len(f.redis) > 0:
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name()
		}
		return fmt.Sprintf("%d Redis nodes (%s)", len(names), strings.Join(names, ", "))
	case f.data == localnode.Memory:
		return "embedded store in memory"
	default:
		return "embedded store in " + f.data
	}
}

func (f *serveFlags) openTo() string {
	if f.insecure {
		return "open to everyone who reaches it"
	}
	return "open to this machine only"
}

// reachable is an address that a client on this machine can use.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}
