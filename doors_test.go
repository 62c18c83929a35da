package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/permitd/permitd/server/client"
)

// tokenEntry is an entry of a file of tokens.
func tokenEntry(name, token string) string {
	return fmt.Sprintf("- {name: %s, sha256: %x, scopes: [lease, operate, read], semaphores: [\"*\"]}\n", name, sha256.Sum256([]byte(token)))
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTokensLetInAndAreReadAgainWhenTheyChange(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	write(t, file, tokenEntry("a", "first"))
	r := start(t, "--data", ":memory:", "--listen", "0.0.0.0:0", "--tokens", file)
	r.url = strings.Replace(r.url, "0.0.0.0", "127.0.0.1", 1)
	if !strings.Contains(r.output, "open to who has a token") || !strings.Contains(r.output, "$TOKEN") {
		t.Error(r.output)
	}
	as := func(token string) func() bool {
		c, err := client.New(client.Config{URL: r.url, Token: token})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return func() bool {
			_, err := c.Nodes(t.Context())
			if err != nil && !isKind(err, "unauthenticated") {
				t.Error(err)
			}
			return err == nil
		}
	}
	first, second := as("first"), as("second")
	if !first() || second() {
		t.Error("the first token should let in, and the second not")
	}
	write(t, file, "what is this")
	eventually(t, "the log says that the file cannot be read", func() bool { return strings.Contains(r.stderr.String(), "--tokens can not be read") })
	if !first() {
		t.Error("what was read before should stay in force")
	}
	write(t, file, tokenEntry("b", "second"))
	eventually(t, "the second token lets in", second)
	if first() {
		t.Error("the first token still lets in")
	}
}

// selfSigned writes a certificate for 127.0.0.1 and its key, and returns who trusts it.
func selfSigned(t *testing.T, serial int64, cert, key string) *x509.CertPool {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})))
	write(t, cert, string(text))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

func TestTLSIsSpokenAndItsCertificateReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	first := selfSigned(t, 1, cert, key)
	r := start(t, "--data", ":memory:", "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(r.url, "https://") {
		t.Fatal(r.output)
	}
	trusting := func(pool *x509.CertPool) *client.Client {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
		c, err := client.New(client.Config{URL: r.url, HTTP: &http.Client{Transport: transport}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	c := trusting(first)
	if _, err := c.Put(t.Context(), "db", client.Definition{Limit: 1}, 0); err != nil {
		t.Fatal(err)
	}
	ch, err := c.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hold, err := ch.Acquire(t.Context(), "db", client.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	second := selfSigned(t, 2, cert, key)
	eventually(t, "the second certificate is shown", func() bool { return trusting(second).Ready(t.Context()) == nil })
	if err := hold.Release(t.Context()); err != nil { // what was opened before goes on
		t.Error(err)
	}
	if err := ch.Close(); err != nil {
		t.Error(err)
	}
	plain, err := http.Get(strings.Replace(r.url, "https", "http", 1) + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	_ = plain.Body.Close()
	if plain.StatusCode != http.StatusBadRequest {
		t.Error(plain.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestDoorsThatCannotBeEndTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tokens, cert, key := filepath.Join(dir, "tokens"), filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	write(t, tokens, "- name: x\n")
	selfSigned(t, 1, cert, key)
	for _, test := range []struct {
		name string
		args []string
		says string
	}{
		{"no file of tokens", []string{"--tokens", filepath.Join(dir, "none")}, "no such file"},
		{"a file that is none of tokens", []string{"--tokens", tokens}, "entry 1"},
		{"tokens that nobody needs", []string{"--tokens", tokens, "--insecure"}, "exclude each other"},
		{"a certificate without its key", []string{"--tls-cert", cert}, "go together"},
		{"a key that is none", []string{"--tls-cert", cert, "--tls-key", cert}, "--tls-key"},
		{"an origin with a path", []string{"--allow-origin", "https://x/y"}, "--allow-origin"},
		{"an origin without a scheme", []string{"--allow-origin", "x.example"}, "--allow-origin"},
		{"a host with a port", []string{"--allow-host", "x:1"}, "--allow-host"},
		{"a proxy that is none", []string{"--trusted-proxies", "10.0.0.0/8,proxy"}, `"proxy" is neither`},
		{"no requests", []string{"--max-requests", "0"}, "--max-requests"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"--data", ":memory:", "--listen", "127.0.0.1:0"}, test.args...), &stdout, &stderr)
			if code != 78 || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("exit code %d: %s", code, stderr.String())
			}
		})
	}
}

func TestDoorsAreOpenedByFlags(t *testing.T) {
	t.Parallel()
	r := start(t, "--data", ":memory:", "--allow-host", "permitd.example", "--allow-origin", "https://console.example", "--trusted-proxies", "127.0.0.1")
	ask := func(header, value string) *http.Response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/semaphores/db/acquire?create=9", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set(header, value)
		if header == "Host" {
			request.Host = value
		}
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		return response
	}
	for _, test := range []struct {
		header, value string
		status        int
	}{
		{"Host", "permitd.example", 200},
		{"Host", "evil.example", 421},
		{"Origin", "https://console.example", 200},
		{"Origin", "https://evil.example", 403},
		{"X-Forwarded-For", "192.0.2.7", 200},
	} {
		if response := ask(test.header, test.value); response.StatusCode != test.status {
			t.Errorf("%+v: %s", test, response.Status)
		}
	}
	leases, err := r.client.Leases(t.Context(), "db")
	if err != nil || len(leases) != 3 || leases[2].Address != "192.0.2.7" {
		t.Errorf("%+v, %v", leases, err)
	}
}
