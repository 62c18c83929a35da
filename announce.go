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
	scheme, token := "http", ""
	if f.tlsCert != "" {
		scheme = "https"
	}
	if !f.open() {
		token = ` -H "Authorization: Bearer $TOKEN"`
	}
	fmt.Fprintf(w, `permitd %s on %s://%s, %s, %s

Try it in another terminal:

  S=%s://%s/v1/semaphores/backup
  lease=$(curl -sS --fail-with-body%s -H 'Accept: text/plain' -d create=1 -d wait=25s -d ttl=1h $S/acquire) || echo "$lease"
  curl -fsS%s $S
  curl -fsS -H 'Accept: text/plain' -d lease=$lease $S/release

`, version, scheme, addr, f.store(nodes), f.openTo(addr), scheme, reachable(addr), token, token)
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

func (f *serveFlags) openTo(addr net.Addr) string {
	switch {
	case !f.open():
		return "open to who has a token"
	case f.insecure && beyondLoopback(addr):
		return "open to everyone who reaches it"
	case f.insecure:
		return "open to this machine only, under any Host name (--insecure)"
	}
	return "open to this machine only"
}

func beyondLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || !tcp.IP.IsLoopback()
}

// reachable is an address that a client on this machine can use.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(tcp.Port))
}
