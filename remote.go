package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/permitd/permitd/server/client"
)

// askTimeMax is how long a command that asks a server waits for its answer.
const askTimeMax = 30 * time.Second

// exitForbidden is for who may not do what was asked, of sysexits.h.
const exitForbidden = 77

// remote is what all commands have that ask a server.
type remote struct {
	url, token, tokenFile string
	json                  bool
}

// add adds the flags. Call it after those of the command.
func (r *remote) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&r.url, "url", urlUsual, "of the server")
	flags.StringVar(&r.token, "token", "", "for a server that asks for one")
	flags.StringVar(&r.tokenFile, "token-file", "", "file that has the token")
	flags.BoolVar(&r.json, "json", false, "print what the server said, as JSON")
	describeEnvironment(flags)
}

// ask lets do ask the server.
func (r *remote) ask(cmd *cobra.Command, do func(context.Context, *client.Client) error) error {
	if err := readEnvironment(cmd); err != nil {
		return err
	}
	token := r.token
	if r.tokenFile != "" {
		text, err := os.ReadFile(r.tokenFile)
		if err != nil {
			return misconfigured("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(text))
	}
	c, err := client.New(client.Config{URL: r.url, Token: token})
	if err != nil {
		return misconfigured("--url: %w", err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), askTimeMax)
	defer cancel()
	return remoteError(do(ctx, c))
}

// remoteError gives what a server refused its exit code.
func remoteError(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e
	}
	p, ok := errors.AsType[*client.Problem](err)
	switch {
	case !ok, p.Status == http.StatusServiceUnavailable:
		return &exitError{exitUnavailable, err}
	case p.Status == http.StatusUnauthorized, p.Status == http.StatusForbidden:
		return &exitError{exitForbidden, err}
	case p.Status >= http.StatusInternalServerError:
		return internal(err)
	}
	return err
}

// printJSON prints what the server said.
func printJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// printTable prints rows: with a header and in columns on a terminal, else with tabs between.
func printTable(w io.Writer, header []string, rows [][]string) error {
	if !isTerminal(w) {
		for _, row := range rows {
			if _, err := fmt.Fprintln(w, strings.Join(row, "\t")); err != nil {
				return err
			}
		}
		return nil
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		if _, err := fmt.Fprintln(t, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return t.Flush()
}

// isTerminal reports whether somebody reads what is written to w, or types what is read from it.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
