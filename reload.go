package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/permitd/permitd/server"
)

const (
	reloadEvery  = 2 * time.Second // how often files are looked at
	fileBytesMax = server.TokensBytesMax
)

// watchedFiles are files that are taken together, and read again when one of them changes. Their content is compared: the times
// of files behind links, as Kubernetes mounts them, tell nothing.
type watchedFiles struct {
	paths []string
	what  string // for the log
	take  func(texts [][]byte) error

	texts [][]byte
}

// read reads the files and takes them, for the first time.
func (w *watchedFiles) read() (err error) {
	if w.texts, err = w.content(); err != nil {
		return err
	}
	return w.take(w.texts)
}

func (w *watchedFiles) content() ([][]byte, error) {
	texts := make([][]byte, len(w.paths))
	for i, path := range w.paths {
		text, err := readFile(path)
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}

func readFile(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err = io.ReadAll(io.LimitReader(f, fileBytesMax+1))
	if err == nil && len(text) > fileBytesMax {
		err = fmt.Errorf("%s has more than %d bytes", path, fileBytesMax)
	}
	return text, err
}

// follow takes the files anew whenever they have changed, until ctx ends. What cannot be taken leaves in force what was.
func (w *watchedFiles) follow(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(reloadEvery)
	defer tick.Stop()
	complained := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		changed, err := w.again()
		switch {
		case err != nil && err.Error() != complained:
			complained = err.Error()
			log.Error(w.what+" can not be read; what was read before stays in force", "error", err)
		case err == nil && changed:
			complained = ""
			log.Info(w.what + " read again")
		}
	}
}

func (w *watchedFiles) again() (changed bool, err error) {
	texts, err := w.content()
	if err != nil {
		return false, err
	}
	same := true
	for i := range texts {
		same = same && bytes.Equal(texts[i], w.texts[i])
	}
	if same {
		return false, nil
	}
	if err := w.take(texts); err != nil {
		return false, err
	}
	w.texts = texts
	return true, nil
}

// readTokens returns who may ask, and the file to follow; nil if there is none.
func (f *doorFlags) readTokens() (*server.Tokens, *watchedFiles, error) {
	if f.tokens == "" {
		return nil, nil, nil
	}
	var tokens *server.Tokens
	w := &watchedFiles{paths: []string{f.tokens}, what: "--tokens", take: func(texts [][]byte) (err error) {
		if tokens == nil {
			tokens, err = server.NewTokens(texts[0])
			return err
		}
		return tokens.Replace(texts[0])
	}}
	if err := w.read(); err != nil {
		return nil, nil, misconfigured("--tokens: %w", err)
	}
	return tokens, w, nil
}

// readTLS returns how TLS is spoken, and the files to follow; nil without a certificate.
func (f *doorFlags) readTLS() (*tls.Config, *watchedFiles, error) {
	if f.tlsCert == "" {
		return nil, nil, nil
	}
	var current atomic.Pointer[tls.Certificate]
	w := &watchedFiles{paths: []string{f.tlsCert, f.tlsKey}, what: "--tls-cert and --tls-key", take: func(texts [][]byte) error {
		certificate, err := tls.X509KeyPair(texts[0], texts[1])
		if err == nil {
			current.Store(&certificate)
		}
		return err
	}}
	if err := w.read(); err != nil {
		return nil, nil, misconfigured("--tls-cert, --tls-key: %w", err)
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"http/1.1"}, // see server.Config.TLS
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil },
	}, w, nil
}
