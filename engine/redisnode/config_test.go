package redisnode

import (
	"strings"
	"testing"
	"time"
)

func TestAddressesAreReadAndNamedWithoutCredentials(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]struct {
		name, user, password string
		database             int
		tls                  bool
	}{
		"127.0.0.1:6380":            {name: "127.0.0.1:6380"},
		"redis.example.org":         {name: "redis.example.org:6379"},
		"[::1]:6380":                {name: "[::1]:6380"},
		"::1":                       {name: "[::1]:6379"},
		"redis://r1":                {name: "r1:6379"},
		"redis://r1:7000/":          {name: "r1:7000"},
		"redis://r1/3":              {name: "r1:6379/3", database: 3},
		"redis://:secret@r1:7000/2": {name: "r1:7000/2", password: "secret", database: 2},
		"redis://anna:s%40cret@r1":  {name: "r1:6379", user: "anna", password: "s@cret"},
		"rediss://anna:secret@r1.example.org:7/1": {name: "r1.example.org:7/1", user: "anna", password: "secret", database: 1, tls: true},
		"redis://[::1]": {name: "[::1]:6379"},
	} {
		node, err := New(Config{Addr: addr})
		if err != nil {
			t.Errorf("%s: %v", addr, err)
			continue
		}
		s := node.server
		if node.Name() != want.name || s.user != want.user || s.password != want.password || s.database != want.database {
			t.Errorf("%s: name %q, server %+v", addr, node.Name(), s)
		}
		if (s.tls != nil) != want.tls || want.tls && s.tls.ServerName != "r1.example.org" {
			t.Errorf("%s: TLS %+v", addr, s.tls)
		}
	}
}

func TestAMistakeInTheConfigurationIsToldWithoutThePassword(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"":                                   "names no host",
		":6379":                              "names no host",
		"r1:port":                            "port",
		"r1:0":                               "port",
		"r1:70000":                           "port",
		"anna:hunter2@r1:6379":               "want host:port",
		"r1:6379/0":                          "want host:port",
		"1:2:3":                              "want host:port",
		"http://anna:hunter2@r1":             "scheme",
		"redis://anna:hunter2@r1/zero":       "database",
		"redis://anna:hunter2@r1/-1":         "database",
		"redis://anna:hunter2@r1?timeout=1s": "parameters",
		"redis://anna:hunter2@r1:no/":        "not a valid URL",
		"redis://anna:hunter2/@r1":           "not a valid URL",
		"redis://anna:hun%ter2@r1":           "not a valid URL",
		"redis://anna:hunter2@":              "names no host",
	} {
		_, err := New(Config{Addr: addr})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "ter2") {
			t.Errorf("%s: got %v; want it to say %q", addr, err, want)
		}
	}
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Prefix: "a:b", NodeTimeout: -time.Second})
	for _, want := range []string{"names no host", `prefix "a:b"`, "node timeout -1s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; want it to say %q", err, want)
		}
	}
}
