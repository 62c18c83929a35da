// Package client speaks to a permitd server: REST for what an operator and a script do, and the lease channel
// for holders that should lose their permits when they die, and hear at once when they have lost them.
//
//	c, err := client.New(client.Config{URL: "http://127.0.0.1:7707"})
//	channel, err := c.Dial(ctx)
//	hold, err := channel.Acquire(ctx, "db", client.Ask{Create: &client.Definition{Limit: 3}})
//	defer hold.Release(context.WithoutCancel(ctx))
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// answerMax bounds what is read of an answer: a page of 1,000 semaphores fits.
const answerMax = 16 << 20

// Config is what a Client needs. Zero fields take the default their comment names.
type Config struct {
	URL   string       // required: http://127.0.0.1:7707, or with a prefix
	Token string       // none: where the server asks for none
	HTTP  *http.Client // one of its own, without a time-out: a wait may be long
}

// Client asks one server. Safe for concurrent use.
type Client struct {
	base  *url.URL
	token string
	http  *http.Client
}

// New makes a client. It fails on a URL that is none of http or https; an address alone (127.0.0.1:7707) means http.
func New(cfg Config) (*Client, error) {
	if _, _, err := net.SplitHostPort(cfg.URL); err == nil && !strings.Contains(cfg.URL, "/") {
		cfg.URL = "http://" + cfg.URL
	}
	base, err := url.Parse(strings.TrimRight(cfg.URL, "/"))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, fmt.Errorf("client: %q is not an http or https URL", cfg.URL)
	}
	if cfg.HTTP == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone()
		transport.MaxIdleConnsPerHost = transport.MaxIdleConns
		cfg.HTTP = &http.Client{Transport: transport}
	}
	return &Client{base: base, token: cfg.Token, http: cfg.HTTP}, nil
}

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Acquire asks for permits and waits as long as ask.Wait says. An error of the server is a *Problem; of
// kind no_permit when there was none in time. When ctx ends first the server gives back what it granted.
func (c *Client) Acquire(ctx context.Context, semaphore string, ask Ask) (Lease, error) {
	var l leaseJSON
	var header http.Header
	body := ask.json()
	if body.Key != "" { // in the header it also lets net/http repeat the request where a connection breaks
		header, body.Key = http.Header{"Idempotency-Key": {body.Key}}, ""
	}
	err := c.do(ctx, http.MethodPost, path(semaphore, "acquire"), header, body, &l)
	return l.lease(), err
}

// Release gives a lease back, or all but the weight keep. It may be repeated.
func (c *Client) Release(ctx context.Context, semaphore, capability string, keep int) (Released, error) {
	var r releasedJSON
	body := releaseJSON{Lease: capability, Keep: keep}
	err := c.do(ctx, http.MethodPost, path(semaphore, "release"), nil, body, &r)
	return r.released(), err
}

// Renew lengthens a lease to ttl from now on; 0: as before.
func (c *Client) Renew(ctx context.Context, semaphore, capability string, ttl time.Duration) (Lease, error) {
	var l leaseJSON
	err := c.do(ctx, http.MethodPost, path(semaphore, "renew"), nil, renewJSON{Lease: capability, TTL: ttlText(ttl)}, &l)
	return l.lease(), err
}

// Put declares a semaphore, or changes it to exactly def. ifRev > 0: only this revision.
func (c *Client) Put(ctx context.Context, semaphore string, def Definition, ifRev int64) (Semaphore, error) {
	var s Semaphore
	err := c.do(ctx, http.MethodPut, path(semaphore, ""), ifMatch(ifRev), def, &s)
	return s, err
}

// Semaphore reads a semaphore.
func (c *Client) Semaphore(ctx context.Context, semaphore string) (Semaphore, error) {
	var s Semaphore
	err := c.do(ctx, http.MethodGet, path(semaphore, ""), nil, nil, &s)
	return s, err
}

// Semaphores reads a page of the semaphores whose names start with prefix and follow after; next is the after of the next
// page, "" at the end.
func (c *Client) Semaphores(ctx context.Context, prefix, after string, count int) (list []Semaphore, next string, err error) {
	var page struct {
		Items []Semaphore
		Next  string
	}
	query := url.Values{"prefix": {prefix}, "after": {after}, "count": {strconv.Itoa(count)}}
	err = c.do(ctx, http.MethodGet, "/v1/semaphores?"+query.Encode(), nil, nil, &page)
	return page.Items, page.Next, err
}

// Delete removes a semaphore. ifRev > 0: only this revision.
func (c *Client) Delete(ctx context.Context, semaphore string, ifRev int64) error {
	return c.do(ctx, http.MethodDelete, path(semaphore, ""), ifMatch(ifRev), nil, nil)
}

// Leases reads the first leases of a semaphore, at most 1,000.
func (c *Client) Leases(ctx context.Context, semaphore string) ([]LeaseInfo, error) {
	var page struct{ Items []LeaseInfo }
	err := c.do(ctx, http.MethodGet, path(semaphore, "leases")+with(semaphore)+"count=1000", nil, nil, &page)
	return page.Items, err
}

// Nodes reads the nodes as the server sees them.
func (c *Client) Nodes(ctx context.Context) (Nodes, error) {
	var n Nodes
	err := c.do(ctx, http.MethodGet, "/v1/nodes", nil, nil, &n)
	return n, err
}

// Recover goes on without nodes that are lost, given by their names or indexes; dry: it only tells what that gives up.
func (c *Client) Recover(ctx context.Context, without []string, reason string, dry bool) (Decided, error) {
	var d Decided
	body := decisionJSON{Without: without, Reason: reason, DryRun: dry}
	err := c.do(ctx, http.MethodPost, "/v1/nodes/recover", nil, body, &d)
	return d, err
}

// Readmit takes back a node that was replaced, given by its name or index; dry: it only tells what that gives up.
func (c *Client) Readmit(ctx context.Context, node, reason string, dry bool) (Decided, error) {
	var d Decided
	err := c.do(ctx, http.MethodPost, "/v1/nodes/"+url.PathEscape(node)+"/readmit", nil, decisionJSON{Reason: reason, DryRun: dry}, &d)
	return d, err
}

// Ready returns nil if the server is ready, else a *Problem that names what is missing.
func (c *Client) Ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/readyz", nil, nil, nil)
}

// path is that of a semaphore. Dots would be resolved on the way, whatever their escape.
func path(semaphore, verb string) string {
	segment, query := url.PathEscape(semaphore), ""
	if dotted(semaphore) {
		segment, query = "-", "?name="+url.QueryEscape(semaphore)
	}
	if verb != "" {
		segment += "/" + verb
	}
	return "/v1/semaphores/" + segment + query
}

func dotted(semaphore string) bool { return semaphore == "." || semaphore == ".." || semaphore == "-" }

// with is what comes before a further parameter of a semaphore's path.
func with(semaphore string) string {
	if dotted(semaphore) {
		return "&"
	}
	return "?"
}

func ifMatch(rev int64) http.Header {
	if rev == 0 {
		return nil
	}
	return http.Header{"If-Match": {`"` + strconv.FormatInt(rev, 10) + `"`}}
}

// do sends body as JSON if there is one, and reads the answer into result if there is one.
func (c *Client) do(ctx context.Context, method, path string, header http.Header, body, result any) error {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("client: %w", err)
		}
		content = bytes.NewReader(text)
		if header == nil {
			header = http.Header{}
		}
		header.Set("Content-Type", "application/json")
	}
	return c.send(ctx, method, path, header, content, result)
}

// send sends content if there is any, and reads the answer into result if there is one.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, content io.Reader, result any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.base.String()+path, content)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	if header != nil {
		request.Header = header
	}
	c.authorize(request.Header)
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, answerMax))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("client: reading the answer: %w", err)
	}
	return understand(response, text, result)
}

// authorize says who asks.
func (c *Client) authorize(h http.Header) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
}

func understand(response *http.Response, text []byte, result any) error {
	if response.StatusCode >= http.StatusBadRequest {
		return problemOf(response, text)
	}
	if result == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, result); err != nil {
		return fmt.Errorf("client: the answer is not what permitd says: %w", err)
	}
	return nil
}
