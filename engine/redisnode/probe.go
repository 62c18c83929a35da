package redisnode

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/permitd/permitd/engine"
)

// probe is a look at the server and the node record in one round trip. Reading takes the server about 0.1 ms.
func (l *link) probe(ctx context.Context) (engine.Probe, error) {
	pipe := l.conn.Pipeline()
	// INFO takes several sections at once since Redis 7.0. Older servers have to be told apart, not to answer with an error.
	sections := []*redis.StringCmd{
		pipe.Info(ctx, "server"), pipe.Info(ctx, "replication"), pipe.Info(ctx, "memory"), pipe.Info(ctx, "persistence"),
	}
	clock := pipe.Time(ctx)
	record := pipe.HGetAll(ctx, l.node.cfg.Prefix+":node")

	p := engine.Probe{Sent: l.node.now()}
	if _, err := pipe.Exec(ctx); err != nil {
		return engine.Probe{}, err
	}
	p.Received = l.node.now()

	p.Time = clock.Val().UnixMicro()
	var err error
	if p.Record, err = recordOf(record.Val()); err != nil {
		return engine.Probe{}, fmt.Errorf("%w: %w", engine.ErrBroken, err)
	}
	info := map[string]string{}
	for _, section := range sections {
		readInfo(info, section.Val())
	}
	judge(&p, info)
	return p, nil
}

// readInfo adds the lines "key:value" of an answer to INFO.
func readInfo(info map[string]string, text string) {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			info[key] = value
		}
	}
}

// judge fills in what INFO says of the server, and whether the node counts.
func judge(p *engine.Probe, info map[string]string) {
	p.RunID, p.Replid = info["run_id"], info["master_replid"]
	p.Version = "Redis " + info["redis_version"]
	if valkey := info["valkey_version"]; valkey != "" {
		p.Version = "Valkey " + valkey
	}
	p.Full = full(info)
	if p.Durable = info["aof_enabled"] == "1"; !p.Durable {
		p.Advice = "appendonly yes" // if it takes snapshots INFO does not tell, and the last minutes are lost with them, too
	}
	if p.Refusal = mistake(p, info); p.Refusal != nil {
		p.Fatal = true
		return
	}
	if r := p.Record; r != nil && r.RunID == p.RunID && hadNoMaster(info) {
		p.Replid = r.Replid
	}
	p.Refusal = mismatch(p)
}

// full reports whether a server is at its maxmemory; 0 is none.
func full(info map[string]string) bool {
	most, err1 := strconv.ParseInt(info["maxmemory"], 10, 64)
	used, err2 := strconv.ParseInt(info["used_memory"], 10, 64)
	return err1 == nil && err2 == nil && most > 0 && used >= most
}

// hadNoMaster reports whether a server has not followed another since it took the master_replid that it has. It takes a new one also when a
// replica attaches where there was none (a backup by redis-cli --rdb is one), and an hour (repl-backlog-ttl) after the last has gone: its
// memory is its own. One that has followed keeps the id of then beside. (A server that followed another unseen, longer than that hour ago,
// has the record of the other, with its run_id, unless that had followed it before.)
func hadNoMaster(info map[string]string) bool {
	before := info["master_replid2"]
	return before != "" && strings.Trim(before, "0") == ""
}

// versionMin is the oldest Redis whose scripts say in their first line what they are for.
const versionMin = 7

// mistake says what is wrong with the configuration of the server, so that waiting does not help.
func mistake(p *engine.Probe, info map[string]string) error {
	major, _, _ := strings.Cut(info["redis_version"], ".") // Valkey has this too: 7.2.4
	if n, err := strconv.Atoi(major); err != nil || n < versionMin {
		return fmt.Errorf("it is %s; permitd needs Redis 7.0 or newer, or Valkey", p.Version)
	}
	if policy := info["maxmemory_policy"]; policy != "noeviction" {
		return fmt.Errorf("its maxmemory-policy is %q, so it may forget leases; set it to noeviction", policy)
	}
	if role := info["role"]; role != "master" {
		return fmt.Errorf("it is a %s; every node has to be a master of its own", replicaNames[role])
	}
	if r := p.Record; r != nil && r.Format > engine.FormatNow {
		return fmt.Errorf("its record has format %d, this version of permitd knows %d at most", r.Format, engine.FormatNow)
	}
	return nil
}

// replicaNames has how people call what is no master.
var replicaNames = map[string]string{"slave": "replica", "sentinel": "sentinel"}

// mismatch says why a node's record shows that its memory is not whole; nil: it is, or the node is blank and says so
// itself.
func mismatch(p *engine.Probe) error {
	r := p.Record
	switch {
	case r == nil:
		return nil
	case r.RunID != p.RunID:
		return errors.New("it was restarted: it may have lost what it acknowledged last")
	case r.Replid != p.Replid:
		return errors.New("it was another server's replica meanwhile: its memory is not its own")
	case r.State != engine.StateOK && r.Reason != "":
		return fmt.Errorf("its record is %s: %s", r.State, r.Reason)
	case r.State != engine.StateOK:
		return fmt.Errorf("its record is %s", r.State)
	}
	return nil
}

// probePause is how often the server is looked at.
const probePause = time.Second
