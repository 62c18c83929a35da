package redisnode

import (
	"errors"
	"fmt"
	"time"

	"github.com/permitd/permitd/engine"
)

// since returns how long ago something was, not less than nothing; µs.
func since(now, then int64) time.Duration { return time.Duration(max(0, now-then)) * time.Microsecond }

// parseRecord reads the node record from the fields of its hash and their values, by turns; nil: there is none.
func parseRecord(flat []string) (*engine.NodeRecord, error) {
	if len(flat) == 0 {
		return nil, nil
	}
	if len(flat)%2 != 0 {
		return nil, fmt.Errorf("a record of %d fields and values", len(flat))
	}
	values := make(map[string]string, len(flat)/2)
	for i := 0; i < len(flat); i += 2 {
		values[flat[i]] = flat[i+1]
	}
	return recordOf(values)
}

// recordOf reads the node record as scripts/prelude/record.lua has it; nil: there is none.
func recordOf(values map[string]string) (*engine.NodeRecord, error) {
	if len(values) == 0 {
		return nil, nil
	}
	var err error
	read := func(name string) *fields { return &fields{rest: values[name]} }
	number := func(name string) int64 {
		f := read(name)
		n := f.number()
		if f.end() != nil {
			err = fmt.Errorf("node record: %s: %w", name, f.err)
		}
		return n
	}
	if format := int(number("format")); format > engine.FormatNow {
		return &engine.NodeRecord{Format: format}, err // what else it says is for others to read
	}
	r := &engine.NodeRecord{
		Format: int(number("format")), N: int(number("n")), Index: int(number("index")), FenceFloor: number("floor"),
		RunID: values["run_id"], Replid: values["replid"], State: values["state"], Reason: values["reason"],
		EverOK: values["ever_ok"] == "1", WaitEnd: number("wait"), Longest: time.Duration(number("longest")) * time.Microsecond,
	}
	cluster, known, instance, token := read("cluster"), read("known"), read("instance"), read("token")
	r.Cluster, r.Known, r.Instance, r.Token = cluster.text(), known.eras(), instance.text(), token.ballot()
	for _, f := range []*fields{cluster, known, instance, token} {
		if f.end() != nil {
			err = fmt.Errorf("node record: %w", f.err)
		}
	}
	if r.Index >= 0 && r.Index < len(r.Known) {
		r.Era = r.Known[r.Index]
	}
	if values["pending"] != "" {
		f := read("pending")
		r.Pending = &engine.Pending{
			Token: f.ballot(), N: f.int(), Index: f.int(), Known: f.eras(), Cluster: f.text(), WaitEnd: f.number(), Pages: f.int(), Complete: f.flag(),
		}
		if f.end() != nil {
			err = fmt.Errorf("node record: pending: %w", f.err)
		}
	}
	for i := range r.Known {
		if e := otherFields(r, i, values); e != nil {
			err = fmt.Errorf("node record: of node %d: %w", i, e)
		}
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// otherFields reads what the record has of another node, by its index.
func otherFields(r *engine.NodeRecord, i int, values map[string]string) error {
	var errs []error
	n := len(r.Known)
	if text := values[fmt.Sprintf("mark:%d", i)]; text != "" {
		if r.Marks == nil {
			r.Marks = make([]engine.Marked, n)
		}
		f := fields{rest: text}
		r.Marks[i] = engine.Marked{Era: f.number(), Token: f.ballot()}
		errs = append(errs, f.end())
	}
	if text := values[fmt.Sprintf("instance:%d", i)]; text != "" {
		if r.InUse == nil {
			r.InUse = make([]engine.Instance, n)
		}
		f := fields{rest: text}
		r.InUse[i] = engine.Instance{Era: f.number(), Nonce: f.text(), Address: f.text()}
		errs = append(errs, f.end())
	}
	if text := values[fmt.Sprintf("offset:%d", i)]; text != "" {
		if r.Offsets == nil {
			r.Offsets = make([]engine.Offset, n)
		}
		f := fields{rest: text}
		r.Offsets[i] = engine.Offset{Lo: f.number(), Hi: f.number(), At: f.number(), Era: f.number()}
		errs = append(errs, f.end())
	}
	return errors.Join(errs...)
}
