//go:build linux || darwin

package main

import (
	"log/slog"
	"syscall"
)

// filesAside are open files that are no connections of clients.
const filesAside = 100

// connections is --max-connections, or what the limit of open files leaves.
func (f *serveFlags) connections(log *slog.Logger) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return f.maxConnections
	}
	files := int(min(limit.Cur, 1<<30)) - filesAside
	if files >= f.maxConnections {
		return f.maxConnections
	}
	files = max(files, 1)
	log.Debug("the limit of open files allows fewer connections than --max-connections", "connections", files)
	return files
}
