package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// hostName is a Host header without its port.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.Trim(host, "[]"), ".")
}

// localHost reports whether a name is this machine's. A page whose name was rebound to 127.0.0.1 still sends its own name.
func localHost(name string) bool {
	name = strings.ToLower(name)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.IsLoopback()
}

// clientAddress returns the address that a request came from, without the port. Of what X-Forwarded-For tells, only that is
// believed which a trusted proxy has added: whoever writes the header can begin it as they like.
func (s *Server) clientAddress(r *http.Request) string {
	address, ok := parseAddress(r.RemoteAddr)
	if !ok {
		return r.RemoteAddr
	}
	if len(s.cfg.TrustedProxies) == 0 {
		return address.String()
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && s.trusts(address); i-- {
		before, ok := parseAddress(strings.TrimSpace(hops[i]))
		if !ok {
			break
		}
		address = before
	}
	return address.String()
}

func (s *Server) trusts(address netip.Addr) bool {
	for _, prefix := range s.cfg.TrustedProxies {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// parseAddress reads an address with or without a port.
func parseAddress(text string) (netip.Addr, bool) {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap(), true
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return address.Unmap(), err == nil
}
