package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Binding ties a semaphore to a policy. Zero fields take the server's defaults.
type Binding struct {
	Name      string `json:"name,omitempty"`
	Config    string `json:"config,omitempty"`
	OnFault   string `json:"on_fault,omitempty"` // deny, allow_requested or unavailable
	Timeout   string `json:"timeout,omitempty"`
	Isolation string `json:"isolation,omitempty"` // pooled or fresh
	Mode      string `json:"mode,omitempty"`      // enforce or shadow
}

// LeasePolicy is the policy that weighed a lease; zero: none did.
type LeasePolicy struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
}

// Policy is a policy, and what it is on the replica that was asked.
type Policy struct {
	Name        string           `json:"name"`
	Rev         int64            `json:"rev"`
	SHA256      string           `json:"sha256"`
	ABI         int              `json:"abi"`
	Report      PolicyReport     `json:"report"`
	Versions    []PolicyVersion  `json:"versions"`       // the one in force first
	UsedBy      []string         `json:"used_by"`        // semaphores
	Here        string           `json:"here,omitempty"` // ready, compiling or failed
	HereRev     int64            `json:"here_rev"`       // of the version at work there; 0: none is
	Reason      string           `json:"reason,omitempty"`
	Differences []map[string]any `json:"differences,omitempty"` // of a policy in shadow, the last 20
}

// PolicyReport is what an upload told of a module.
type PolicyReport struct {
	SHA256        string   `json:"sha256"`
	ABI           int      `json:"abi"`
	Size          int      `json:"size"`   // bytes
	Memory        int      `json:"memory"` // bytes
	CompileMS     int64    `json:"compile_ms"`
	InstantiateUS int64    `json:"instantiate_us"`
	EvaluateNS    int64    `json:"evaluate_ns"`
	Warnings      []string `json:"warnings,omitempty"`
}

// PolicyVersion is a stored module.
type PolicyVersion struct {
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
	By     string    `json:"by,omitempty"`
}

// Evaluate is a request that a policy is asked about, for a try. Zero fields take the server's defaults.
type Evaluate struct {
	Requested  int               `json:"requested,omitempty"`
	Limit      int               `json:"limit,omitempty"`
	Available  *int              `json:"available,omitempty"`
	Waiting    int               `json:"waiting,omitempty"`
	Attributes map[string]string `json:"attributes,omitempty"`
	Config     string            `json:"config,omitempty"`
}

// PutPolicy uploads a module and puts it to work; a dry run only checks it. ifRev > 0: only this revision.
func (c *Client) PutPolicy(ctx context.Context, name string, module io.Reader, ifRev int64, dry bool) (Policy, error) {
	var p Policy
	err := c.send(ctx, http.MethodPut, policyPath(name, "", url.Values{"dry_run": {strconv.FormatBool(dry)}}), ifMatch(ifRev), module, &p)
	return p, err
}

// RevertPolicy puts a stored version to work again.
func (c *Client) RevertPolicy(ctx context.Context, name, sha256 string) (Policy, error) {
	var p Policy
	err := c.do(ctx, http.MethodPut, policyPath(name, "", nil), nil, map[string]string{"sha256": sha256}, &p)
	return p, err
}

// Policy reads a policy.
func (c *Client) Policy(ctx context.Context, name string) (Policy, error) {
	var p Policy
	err := c.do(ctx, http.MethodGet, policyPath(name, "", nil), nil, nil, &p)
	return p, err
}

// Policies reads all policies.
func (c *Client) Policies(ctx context.Context) ([]Policy, error) {
	var page struct{ Items []Policy }
	err := c.do(ctx, http.MethodGet, "/v1/policies?count=1000", nil, nil, &page)
	return page.Items, err
}

// DeletePolicy removes a policy that no semaphore is bound to.
func (c *Client) DeletePolicy(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, policyPath(name, "", nil), nil, nil, nil)
}

// EvaluatePolicy asks a policy for a try; the answer is as the server says it.
func (c *Client) EvaluatePolicy(ctx context.Context, name string, e Evaluate) (json.RawMessage, error) {
	var answer json.RawMessage
	err := c.do(ctx, http.MethodPost, policyPath(name, "/evaluate", nil), nil, e, &answer)
	return answer, err
}

// Bind ties a semaphore to a policy, and leaves what b does not say as it is, but for the configuration of another policy; nil ends
// the binding.
func (c *Client) Bind(ctx context.Context, semaphore string, b *Binding) (Semaphore, error) {
	var s Semaphore
	patch := map[string]any{"policy": b}
	if b != nil && b.Name != "" && b.Config == "" {
		now, err := c.Semaphore(ctx, semaphore)
		if err != nil {
			return s, err
		}
		if p := now.Definition.Policy; p != nil && p.Name != b.Name {
			patch["policy"] = anewBinding{Binding: *b}
		}
	}
	err := c.do(ctx, http.MethodPatch, path(semaphore, ""), nil, patch, &s)
	return s, err
}

// anewBinding is a binding that drops the configuration there was.
type anewBinding struct {
	Binding
	Config *string `json:"config"` // null
}

func policyPath(name, verb string, query url.Values) string {
	segment := url.PathEscape(name)
	if dotted(name) {
		if query == nil {
			query = url.Values{}
		}
		query.Set("name", name)
		segment = "-"
	}
	path := "/v1/policies/" + segment + verb
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}
