package main

import (
	"log/slog"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
)

// nodes opens what permits live on.
func (f *serveFlags) nodes(log *slog.Logger) ([]engine.Node, error) {
	node, err := localnode.Open(localnode.Config{Dir: f.data, Log: log})
	if err != nil {
		return nil, misconfigured("%w", err)
	}
	return []engine.Node{node}, nil
}
