package redisnode

import (
	"maps"
	"strings"
	"testing"

	"github.com/permitd/permitd/engine"
)

func TestAProbeSaysWhyANodeDoesNotCount(t *testing.T) {
	t.Parallel()
	ok := engine.NodeRecord{Format: engine.FormatNow, State: engine.StateOK, RunID: "run", Replid: "repl"}
	with := func(change func(*engine.NodeRecord)) *engine.NodeRecord {
		r := ok
		change(&r)
		return &r
	}
	for name, test := range map[string]struct {
		info   map[string]string
		record *engine.NodeRecord
		want   string // of the refusal; "": none
		fatal  bool
	}{
		"as it should be":           {record: &ok},
		"blank":                     {},
		"too old":                   {info: map[string]string{"redis_version": "6.2.14"}, record: &ok, want: "Redis 6.2.14", fatal: true},
		"no version":                {info: map[string]string{"redis_version": ""}, want: "needs Redis 7.0", fatal: true},
		"Valkey":                    {info: map[string]string{"redis_version": "7.2.4", "valkey_version": "8.1.0"}, record: &ok},
		"Redis 10":                  {info: map[string]string{"redis_version": "10.0.0"}, record: &ok},
		"it evicts":                 {info: map[string]string{"maxmemory_policy": "allkeys-lru"}, record: &ok, want: "allkeys-lru", fatal: true},
		"a replica":                 {info: map[string]string{"role": "slave"}, record: &ok, want: "it is a replica", fatal: true},
		"a newer format":            {record: with(func(r *engine.NodeRecord) { r.Format = 2 }), want: "format 2, this version of permitd knows 1", fatal: true},
		"restarted":                 {record: with(func(r *engine.NodeRecord) { r.RunID = "old" }), want: "restarted"},
		"another's replica between": {record: with(func(r *engine.NodeRecord) { r.Replid = "old" }), want: "replica meanwhile"},
		"a replica attached": {
			record: with(func(r *engine.NodeRecord) { r.Replid = "old" }), info: map[string]string{"master_replid2": strings.Repeat("0", 40)},
		},
		"another's replica, as it keeps beside": {
			record: with(func(r *engine.NodeRecord) { r.Replid = "old" }), info: map[string]string{"master_replid2": "0123"}, want: "replica meanwhile",
		},
		"restarted, and a replica attached": {
			record: with(func(r *engine.NodeRecord) { r.RunID = "old" }), info: map[string]string{"master_replid2": "00"}, want: "restarted",
		},
		"frozen": {record: with(func(r *engine.NodeRecord) { r.State = engine.StateFrozen }), want: "frozen"},
		"suspended": {
			record: with(func(r *engine.NodeRecord) { r.State, r.Reason = engine.StateSuspended, "its clock jumped" }),
			want:   "suspended: its clock jumped",
		},
	} {
		info := map[string]string{
			"redis_version": "7.0.15", "run_id": "run", "master_replid": "repl", "role": "master", "maxmemory_policy": "noeviction",
			"aof_enabled": "1",
		}
		maps.Copy(info, test.info)
		p := engine.Probe{Record: test.record}
		judge(&p, info)
		got := ""
		if p.Refusal != nil {
			got = p.Refusal.Error()
		}
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) || p.Fatal != test.fatal {
			t.Errorf("%s: refused with %q, fatal %v; want %q, %v", name, got, p.Fatal, test.want, test.fatal)
		}
		replid := "repl"
		if name == "a replica attached" {
			replid = "old"
		}
		if p.RunID != "run" || p.Replid != replid || !p.Durable {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestWhatServersCallThemselvesIsForPeople(t *testing.T) {
	t.Parallel()
	for want, info := range map[string]map[string]string{
		"Redis 7.0.15": {"redis_version": "7.0.15"},
		"Valkey 8.1.0": {"redis_version": "7.2.4", "valkey_version": "8.1.0"},
	} {
		p := engine.Probe{}
		judge(&p, info)
		if p.Version != want {
			t.Errorf("got %q; want %q", p.Version, want)
		}
	}
}

func TestADamagedRecordIsAnErrorNotABlankNode(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"format": "1", "cluster": "c", "n": "3", "index": "1", "run_id": "r", "state": "ok", "ever_ok": "1", "known": "4,5,6", "token": "7 a!20b",
		"instance": "i", "floor": "9", "pending": "8 x 3 2 7,7,7 d 0 4 1",
	}
	r, err := recordOf(good)
	if err != nil || r.Era != 5 || r.Token != (engine.Ballot{Counter: 7, Replica: "a b"}) || r.Pending.Index != 2 || r.Pending.Cluster != "d" {
		t.Errorf("%+v, %v", r, err)
	}
	for field, value := range map[string]string{
		"format": "x", "n": "x", "known": "4,x", "token": "x", "pending": "8 x 3", "cluster": "a b!", "floor": "1e9",
	} {
		bad := maps.Clone(good)
		bad[field] = value
		if r, err := recordOf(bad); err == nil {
			t.Errorf("%s %q was read as %+v", field, value, r)
		}
	}
	if r, err := recordOf(map[string]string{"format": "2", "known": "in another way"}); err != nil || r.Format != 2 {
		t.Errorf("a newer format: %+v, %v", r, err)
	}
}
