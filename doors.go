package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"github.com/permitd/permitd/server"
)

const requestsUsual = 1000

// doorFlags are the flags that say who may come in.
type doorFlags struct {
	tokens         string
	insecure       bool
	tlsCert        string
	tlsKey         string
	allowOrigins   []string
	allowHosts     []string
	trustedProxies []string
	maxRequests    int
}

func (f *doorFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.tokens, "tokens", "", "file of tokens that let in, and to what; read again when it changes")
	flags.BoolVar(&f.insecure, "insecure", false, "serve on any address, to everyone who reaches it")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "file of the certificate, and those it is signed by; read again when it changes")
	flags.StringVar(&f.tlsKey, "tls-key", "", "file of its key")
	flags.StringSliceVar(&f.allowOrigins, "allow-origin", nil, "scheme://host[:port] of pages that may ask, besides those from here")
	flags.StringSliceVar(&f.allowHosts, "allow-host", nil, "Host names to serve besides those of this machine, and no others")
	flags.StringSliceVar(&f.trustedProxies, "trusted-proxies", nil, "addresses or CIDRs whose X-Forwarded-For is believed")
	flags.IntVar(&f.maxRequests, "max-requests", requestsUsual, "requests of one principal under way, beyond which others are refused")
}

func (f *doorFlags) validate() error {
	var wrong error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = errors.Join(wrong, misconfigured(format, args...))
		}
	}
	check(!f.insecure || f.tokens == "", "--insecure and --tokens exclude each other: everybody may come in, or who has a token")
	check((f.tlsCert == "") == (f.tlsKey == ""), "--tls-cert and --tls-key go together")
	check(f.maxRequests >= 1, "--max-requests must be at least 1")
	for _, origin := range f.allowOrigins {
		err := http.NewCrossOriginProtection().AddTrustedOrigin(origin)
		check(err == nil, "--allow-origin: %w", err)
	}
	for _, host := range f.allowHosts {
		check(host != "" && !strings.ContainsAny(host, "/*: "), "--allow-host %q is not a name; ports are left out", host)
	}
	if _, err := f.proxies(); err != nil {
		check(false, "--trusted-proxies: %w", err)
	}
	return wrong
}

// proxies reads addresses and CIDRs.
func (f *doorFlags) proxies() (list []netip.Prefix, err error) {
	for _, text := range f.trustedProxies {
		prefix, wrong := netip.ParsePrefix(text)
		if address, alone := netip.ParseAddr(text); alone == nil {
			prefix, wrong = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%q is neither an address nor a CIDR", text))
		}
		list = append(list, prefix.Masked())
	}
	return list, err
}

// open says whether everybody who reaches the server may come in.
func (f *doorFlags) open() bool { return f.tokens == "" }

// apply reads the files of the flags and fills in what the server needs. follow reads them again, until its context ends.
func (f *doorFlags) apply(cfg *server.Config) (follow func(context.Context, *slog.Logger), err error) {
	tokens, tokensFile, err := f.readTokens()
	if err != nil {
		return nil, err
	}
	tlsConfig, tlsFiles, err := f.readTLS()
	if err != nil {
		return nil, err
	}
	cfg.Tokens, cfg.TLS = tokens, tlsConfig
	cfg.LocalOnly = !f.insecure && f.open()
	cfg.AllowHosts, cfg.AllowOrigins, cfg.MaxRequests = f.allowHosts, f.allowOrigins, f.maxRequests
	if cfg.TrustedProxies, err = f.proxies(); err != nil {
		return nil, err
	}
	return func(ctx context.Context, log *slog.Logger) {
		var followed sync.WaitGroup
		for _, w := range []*watchedFiles{tokensFile, tlsFiles} {
			if w != nil {
				followed.Go(func() { w.follow(ctx, log) })
			}
		}
		followed.Wait()
	}, nil
}
