package main

import (
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
)

// announcement is what the start says on the standard output.
type announcement struct {
	flags *serveFlags
	to    io.Writer
	addr  net.Addr
	nodes []engine.Node
}

func (a *announcement) scheme() string {
	if a.flags.tlsCert != "" {
		return "https"
	}
	return "http"
}

// listens says where the server is and what it stands on.
func (a *announcement) listens() {
	fmt.Fprintf(a.to, "permitd %s on %s://%s, %s, %s\n", version, a.scheme(), a.addr, a.flags.store(a.nodes), a.flags.openTo(a.addr))
}

// waits says that nothing can be asked for yet.
func (a *announcement) waits() {
	fmt.Fprintln(a.to, "Waiting for a quorum of the nodes; permitd nodes, and the log, tell what is missing.")
}

// ready says how to try it.
func (a *announcement) ready() {
	token := ""
	if !a.flags.open() {
		token = ` -H "Authorization: Bearer $TOKEN"`
	}
	fmt.Fprintf(a.to, `
Try it in another terminal:

  S=%s://%s/v1/semaphores/backup
  lease=$(curl -sS --fail-with-body%s -H 'Accept: text/plain' -d create=1 -d wait=25s -d ttl=1h $S/acquire) || echo "$lease"
  curl -fsS%s $S
  curl -fsS -H 'Accept: text/plain' -d lease=$lease $S/release

`, a.scheme(), reachable(a.addr), token, token)
}

// store says where permits live.
func (f *serveFlags) store(nodes []engine.Node) string {
	switch {
	case len(f.redis) > 0:
		names := make([]string, len(nodes))
		for i, n := range nodes {
			names[i] = n.Name()
		}
		if len(names) == 1 {
			return "one Redis node (" + names[0] + ")"
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
