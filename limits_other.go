//go:build !linux && !darwin

package main

import "log/slog"

// connections is --max-connections: there is no limit of open files to regard.
func (f *serveFlags) connections(*slog.Logger) int { return f.maxConnections }
