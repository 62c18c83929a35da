package redisnode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Defaults of Config.
const (
	prefixDefault      = "permitd"
	nodeTimeoutDefault = 500 * time.Millisecond
	portDefault        = "6379"
)

// Config is what a Node needs. Zero fields take the default their comment names.
type Config struct {
	// Addr is where the server is: host:port, or a URL redis://[user[:password]@]host[:port][/database] or, for TLS, the same
	// with rediss://. Required. The default port is 6379.
	Addr string
	// Prefix of all keys, 1 to 64 of [A-Za-z0-9._-]. Nodes of different prefixes, or databases, share a server without
	// noticing each other. "permitd"
	Prefix string
	// NodeTimeout is how long a call may take from when it is written, and how long it may wait for that; 500 ms
	NodeTimeout time.Duration
	// Log hears of connections that come and go, and of errors that the server answers with. Discarded
	Log *slog.Logger
	// Dialer makes connections, for tests. TLS is put on top of it. A net.Dialer
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)
}

var prefixPattern = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// validated returns the configuration with its defaults, and what its Addr says. It reports all that is wrong at
// once, and never a password.
func (c Config) validated() (Config, server, error) {
	if c.Prefix == "" {
		c.Prefix = prefixDefault
	}
	if c.NodeTimeout == 0 {
		c.NodeTimeout = nodeTimeoutDefault
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Dialer == nil {
		c.Dialer = new(net.Dialer).DialContext
	}
	s, err := parseAddr(c.Addr)
	if err != nil {
		err = fmt.Errorf("address %q: %w", withoutCredentials(c.Addr), err)
	}
	if !prefixPattern.MatchString(c.Prefix) {
		err = errors.Join(err, fmt.Errorf("prefix %q: want 1 to 64 of A-Z a-z 0-9 . _ -", c.Prefix))
	}
	if c.NodeTimeout < 0 {
		err = errors.Join(err, fmt.Errorf("node timeout %v: want more than 0", c.NodeTimeout))
	}
	return c, s, err
}

// withoutCredentials leaves out of an address, which may be no valid one, all that may be a user or a password.
func withoutCredentials(addr string) string {
	at := strings.LastIndexByte(addr, '@')
	if at < 0 {
		return addr
	}
	if scheme, _, ok := strings.Cut(addr, "://"); ok {
		return scheme + "://" + addr[at+1:]
	}
	return addr[at+1:]
}

// server is what an address says.
type server struct {
	addr           string // host:port
	user, password string
	database       int
	tls            *tls.Config // nil: none
}

// name is how people see the server.
func (s server) name() string {
	if s.database == 0 {
		return s.addr
	}
	return s.addr + "/" + strconv.Itoa(s.database)
}

// parseAddr reads an address. Its errors do not quote it: it may hold a password.
func parseAddr(addr string) (server, error) {
	if !strings.Contains(addr, "://") {
		if strings.ContainsAny(addr, "@/?#") {
			return server{}, errors.New("want host:port, or a redis:// or rediss:// URL")
		}
		return server{}.at(addr)
	}
	u, err := url.Parse(addr)
	if err != nil {
		return server{}, errors.New("not a valid URL; are all special characters of the password escaped?")
	}
	if u.Scheme != "redis" && u.Scheme != "rediss" {
		return server{}, fmt.Errorf("scheme %q: want redis or rediss", u.Scheme)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return server{}, errors.New("a redis URL has no parameters here")
	}
	s, err := server{}.at(u.Host)
	if err != nil {
		return server{}, err
	}
	s.user = u.User.Username()
	s.password, _ = u.User.Password()
	if database := strings.TrimPrefix(u.Path, "/"); database != "" {
		if s.database, err = strconv.Atoi(database); err != nil || s.database < 0 {
			return server{}, fmt.Errorf("database %q: want a number", database)
		}
	}
	if u.Scheme == "rediss" {
		s.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	}
	return s, nil
}

// at returns the server at a host and, if it names one, a port.
func (s server) at(hostport string) (server, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil { // no port, or none that is one
		host, port = strings.Trim(hostport, "[]"), portDefault
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return s, errors.New("want host:port")
		}
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return s, fmt.Errorf("port %q: want 1 to 65535", port)
	}
	if host == "" {
		return s, errors.New("it names no host")
	}
	s.addr = net.JoinHostPort(host, port)
	return s, nil
}

// options are those of go-redis for one connection, which dial makes. Nothing is retried: a pipeline of claims must not be
// run twice.
func (s server) options(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *redis.Options {
	return &redis.Options{
		Addr: s.addr, Username: s.user, Password: s.password, DB: s.database, ClientName: "permitd",
		Dialer: dial, DialerRetries: 1, MaxRetries: -1,
		Protocol: 2, DisableIdentity: true,
		ContextTimeoutEnabled: true, ReadTimeout: -1, WriteTimeout: -1,
		PoolSize: 2, PipelinePoolSize: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
