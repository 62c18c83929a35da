package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/permitd/permitd/engine/enginetest/redistest"
	"github.com/permitd/permitd/server/client"
)

// readyTimeMax is how long a replica may take until it serves.
const readyTimeMax = 30 * time.Second

// replica is a permitd process, over its deaths.
type replica struct {
	t      redistest.TB
	name   string
	binary string
	args   []string
	url    string
	log    string // file
	cmd    *exec.Cmd
	client *client.Client
}

// newReplica starts a replica on the nodes at these addresses. It ends with the test.
func newReplica(t redistest.TB, name, binary string, nodes []string, dir string) *replica {
	// An address of loopback of its own: while the replica is dead nobody else gets its port.
	l, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		t.Fatalf("%v", err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	r := &replica{
		t: t, name: name, binary: binary, url: "http://" + addr, log: filepath.Join(dir, name+".log"),
		args: []string{"serve", "--listen", addr, "--redis", strings.Join(nodes, ","), "--durable-nodes"},
	}
	r.client, err = client.New(client.Config{URL: r.url})
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		r.kill()
		r.client.Close()
	})
	r.start()
	return r
}

func (r *replica) start() {
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatalf("%v", err)
	}
	defer func() { _ = log.Close() }()
	r.cmd = exec.Command(r.binary, r.args...)
	r.cmd.Stdout, r.cmd.Stderr = log, log
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.cmd.Start(); err != nil {
		r.t.Fatalf("%v", err)
	}
}

// kill is kill -9.
func (r *replica) kill() {
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
}

func (r *replica) signal(s syscall.Signal) {
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatalf("%s: %v", r.name, err)
	}
}

// ready waits until the replica serves and all nodes vote.
func (r *replica) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeMax)
	defer cancel()
	for told := ""; ; {
		nodes, err := r.client.Nodes(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			told = "; " + err.Error()
		case err == nil:
			told = ""
			for _, n := range nodes.Items {
				if n.State != "up" {
					told += fmt.Sprintf("; %s is %s: %s", n.Node, n.State, n.Reason)
				}
			}
			if told == "" {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not all nodes vote after %v: %w%s", r.name, readyTimeMax, ctx.Err(), told)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
