package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/permitd/permitd/policies"
)

// Limits of what a client may send.
const (
	bodyMax    = 64 << 10                    // bytes of a request's body
	paramsMax  = policies.AttributesMax + 16 // parameters of a request or a frame; in a form each attribute is one
	integerMax = 1<<53 - 1                   // what every JSON reader keeps exactly
)

// params are the parameters of a request, from its query, form or JSON body, or of a frame. A
// handler takes what it knows, and then asks end, which refuses what is left over. The first
// mistake is kept, so that a handler checks once.
type params struct {
	list   []param
	room   [4]param // for list, as most requests have so many
	prefix string   // before names in errors: "create." of the object create
	nulls  bool     // null may be given: in a merge patch, where it stands for the default
	err    error
}

// param is one parameter as it was sent.
type param struct {
	name  string
	text  string // the value: of a JSON object the JSON text, else the text itself
	json  bool
	taken bool
}

// readParams collects the parameters of a request. The body is read to its end: until then the HTTP
// server does not notice that a client leaves.
func readParams(r *http.Request) (*params, error) {
	p := &params{}
	return p, p.read(r)
}

func (p *params) read(r *http.Request) error {
	p.addForm(r.URL.RawQuery)
	if r.ContentLength == 0 {
		return nil
	}
	body, err := readBody(r)
	if err == nil {
		p.addBody(string(body), r.Header.Get("Content-Type"))
	}
	return err
}

// readBody reads a body within the time that the server gives to a request.
func readBody(r *http.Request) (body []byte, err error) {
	encoding := r.Header.Get("Content-Encoding")
	switch {
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return nil, newProblem(kindUnsupportedEncoding, "a body is sent as it is, without Content-Encoding")
	case r.ContentLength > bodyMax:
		return nil, newProblem(kindTooLarge, "a body has up to %d bytes", bodyMax)
	case r.ContentLength > 0:
		body = make([]byte, r.ContentLength)
		_, err = io.ReadFull(r.Body, body)
	default: // in chunks
		body, err = io.ReadAll(io.LimitReader(r.Body, bodyMax+1))
	}
	switch {
	case err != nil:
		return nil, badRequest("", "the body did not arrive whole")
	case len(body) > bodyMax:
		return nil, newProblem(kindTooLarge, "a body has up to %d bytes", bodyMax)
	}
	return body, nil
}

// addBody takes a body for JSON if it starts like an object, whatever its type says: curl -d sends
// everything as a form.
func (p *params) addBody(body, contentType string) {
	body = strings.Trim(body, " \t\r\n")
	if strings.HasPrefix(body, "{") {
		if !p.addJSON(body) {
			p.refuse("", "the body is not valid JSON")
		}
		return
	}
	if strings.HasPrefix(body, "[") || !strings.Contains(body, "=") && json.Valid([]byte(body)) {
		p.refuse("", "a JSON body is an object")
		return
	}
	if media, _, _ := strings.Cut(contentType, ";"); strings.EqualFold(strings.TrimSpace(media), "multipart/form-data") {
		p.refuse("", "multipart forms are not read; send a plain form (curl -d) or JSON")
		return
	}
	p.addForm(body)
}

// addForm adds the pairs of a query or a form.
func (p *params) addForm(form string) {
	for form != "" {
		var pair string
		if pair, form, _ = strings.Cut(form, "&"); pair == "" {
			continue
		}
		name, text, _ := strings.Cut(pair, "=")
		name, err1 := url.QueryUnescape(name)
		text, err2 := url.QueryUnescape(text)
		switch {
		case err1 != nil || err2 != nil:
			p.refuse("", "a percent escape in the parameters is damaged")
		case !utf8.ValidString(name) || !utf8.ValidString(text):
			p.refuse("", "the parameters are not valid UTF-8")
		default:
			p.add(param{name: name, text: text})
		}
	}
}

// addJSON adds the members of a JSON object. It returns false, and adds nothing, if the text is none.
func (p *params) addJSON(text string) bool {
	if !utf8.ValidString(text) || !json.Valid([]byte(text)) {
		return false
	}
	i := skipSpace(text, 0)
	if text[i] != '{' {
		return false
	}
	for i = skipSpace(text, i+1); text[i] != '}'; {
		end := skipValue(text, i)
		name, ok := unquote(text[i:end])
		i = skipSpace(text, skipSpace(text, end)+1) // behind the colon
		end = skipValue(text, i)
		if ok {
			p.add(param{name: name, text: text[i:end], json: true})
		} else {
			p.refuse("", "a name in the JSON object has half a surrogate pair")
		}
		if i = skipSpace(text, end); text[i] == ',' {
			i = skipSpace(text, i+1)
		}
	}
	return true
}

func (p *params) add(v param) {
	switch {
	case len(p.list) == paramsMax:
		p.refuse("", "there are more than %d parameters", paramsMax)
	case p.given(v.name):
		p.refuse(v.name, "%q is given twice", p.prefix+v.name)
	case v.null() && !p.nulls:
		p.refuse(v.name, "%q is null; leave it out instead", p.prefix+v.name)
	default:
		if p.list == nil {
			p.list = p.room[:0]
		}
		p.list = append(p.list, v)
	}
}

// refuse keeps the first mistake; name is the parameter's, or empty.
func (p *params) refuse(name, format string, args ...any) {
	if p.err != nil {
		return
	}
	if name != "" {
		name = p.prefix + name
	}
	p.err = badRequest(name, format, args...)
}

func (p *params) find(name string) *param {
	for i := range p.list {
		if p.list[i].name == name {
			return &p.list[i]
		}
	}
	return nil
}

// take returns a parameter and marks it as known; nil if it was not given.
func (p *params) take(name string) *param {
	v := p.find(name)
	if v != nil {
		v.taken = true
	}
	return v
}

// given reports whether a parameter was sent, without taking it.
func (p *params) given(name string) bool { return p.find(name) != nil }

// fail refuses a value. The detail starts with the parameter's name.
func (p *params) fail(name, format string, args ...any) {
	p.refuse(name, "%s %s", p.prefix+name, fmt.Sprintf(format, args...))
}

// end returns the first mistake, or that a parameter is left which nobody took.
func (p *params) end() error {
	if p.err != nil {
		return p.err
	}
	for _, v := range p.list {
		if !v.taken {
			return badRequest(p.prefix+v.name, "%q is not known here", p.prefix+v.name)
		}
	}
	return nil
}

// integer takes a whole number from low to high; otherwise, if it was not given.
func (p *params) integer(name string, otherwise, low, high int) int {
	v := p.take(name)
	if v == nil {
		return otherwise
	}
	if v.null() {
		return 0
	}
	n, ok := parseInteger(v.text)
	if !ok || n < int64(low) || n > int64(high) {
		p.fail(name, "must be an integer from %d to %d", low, high)
	}
	return int(n)
}

// count takes a whole number of which the engine checks the range, 1 to high.
func (p *params) count(name string, otherwise, high int) int {
	v := p.take(name)
	if v == nil {
		return otherwise
	}
	if v.null() {
		return 0
	}
	n, ok := parseInteger(v.text)
	if !ok {
		p.fail(name, "must be an integer from 1 to %d", high)
	}
	return int(n)
}

// duration takes a time with its unit, from low to high; a bare 0 needs none.
func (p *params) duration(name string, otherwise, low, high time.Duration) time.Duration {
	v := p.take(name)
	if v == nil {
		return otherwise
	}
	if v.null() {
		return 0
	}
	d, ok := v.duration()
	switch {
	case !ok:
		p.fail(name, `must be a time with its unit, such as "25s" or "1h"`)
	case d < low || d > high:
		p.fail(name, "must be from %s to %s", formatDuration(low), formatDuration(high))
	}
	return d
}

// text takes a string of up to most bytes.
func (p *params) text(name string, most int) string {
	v := p.take(name)
	if v == nil {
		return ""
	}
	if v.null() {
		return ""
	}
	text, ok := v.string()
	switch {
	case !ok:
		p.fail(name, "must be a string")
	case len(text) > most:
		p.fail(name, "must have up to %d bytes", most)
	}
	return text
}

// flag takes true or false; otherwise, if it was not given.
func (p *params) flag(name string, otherwise bool) bool {
	v := p.take(name)
	if v == nil {
		return otherwise
	}
	if v.null() {
		return false
	}
	if v.text != "true" && v.text != "false" {
		p.fail(name, "must be true or false")
	}
	return v.text == "true"
}

// object takes a JSON object. In a form, or where a plain number stands for it, ok is false and nothing is taken.
func (p *params) object(name string) (o *params, ok bool) {
	v := p.find(name)
	if v == nil || !v.json || v.text[0] != '{' {
		return nil, false
	}
	v.taken = true
	o = &params{prefix: p.prefix + name + "."}
	o.addJSON(v.text)
	return o, true
}

// null reports whether null was given, which only a merge patch may.
func (v *param) null() bool { return v.json && v.text == "null" }

func (v *param) duration() (time.Duration, bool) {
	text, ok := v.string()
	if !ok {
		return 0, v.text == "0"
	}
	d, err := time.ParseDuration(text)
	return d, err == nil
}

// string returns the text of a parameter that is not of another JSON type.
func (v *param) string() (string, bool) {
	if !v.json {
		return v.text, true
	}
	return unquote(v.text)
}

// parseInteger reads a number as JSON writes whole ones: no plus, no leading zero, no exponent.
func parseInteger(text string) (int64, bool) {
	digits := strings.TrimPrefix(text, "-")
	if digits == "" || len(digits) > 1 && digits[0] == '0' || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil && n <= integerMax && n >= -integerMax
}

// formatDuration writes a duration as a person would: 1h, where time.Duration says 1h0m0s.
func formatDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
