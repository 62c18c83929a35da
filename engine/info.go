package engine

import (
	"encoding/json"
	"fmt"
	"time"
)

// info is what replicas tell each other of a lease by its Info, which nodes keep as it is.
type info struct {
	Holder    string        `json:"h,omitempty"`
	Principal string        `json:"p,omitempty"`
	Address   string        `json:"a,omitempty"`
	Via       string        `json:"v,omitempty"`
	Requested int           `json:"r,omitempty"` // permits, before a policy weighed them
	TTL       time.Duration `json:"t,omitempty"` // as asked for: what is left at the nodes does not tell it
	Params    uint32        `json:"k,omitempty"` // of a request with a key or a ticket: semaphore.params
	Asked     int64         `json:"q,omitempty"` // likewise: Request.asked

	Policy     string `json:"n,omitempty"`
	Generation int64  `json:"g,omitempty"`
}

// info is the Info of the lease that the request will get. The semaphore remembers the last: most leases have the same, and share
// it. mu is held.
func (r *Request) info() string {
	h := r.ask.Holder
	i := info{Holder: h.Holder, Principal: h.Principal, Address: h.Address, Via: h.Via, Requested: r.ask.Permits, TTL: r.ttl}
	i.Policy, i.Generation = r.word.Policy.Name, r.word.Policy.Generation
	if r.keyed() {
		i.Params, i.Asked = r.params, r.asked
	}
	last := &r.s.lastInfo
	if last.text == "" || last.of != i {
		data, err := json.Marshal(i)
		if err != nil {
			panic(fmt.Sprintf("engine: an info can not be encoded: %v", err)) // it has only strings and numbers
		}
		last.of, last.text = i, string(data)
	}
	return last.text
}

// decodeInfo reads an Info; one that is not ours is shown as the holder.
func decodeInfo(text string) info {
	var i info
	if json.Unmarshal([]byte(text), &i) != nil {
		return info{Holder: text}
	}
	return i
}

// people is what of it is for people.
func (i info) people() HolderInfo { return HolderInfo{i.Holder, i.Principal, i.Address, i.Via} }

// policy is the one that weighed it.
func (i info) policy() PolicyVersion { return PolicyVersion{i.Policy, i.Generation} }
