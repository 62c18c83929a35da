package main

import (
	"errors"
	"log/slog"

	"github.com/permitd/permitd/engine"
	"github.com/permitd/permitd/engine/localnode"
	"github.com/permitd/permitd/engine/redisnode"
)

// nodes opens what permits live on: the embedded store, or Redis. Connections to Redis are made later.
func (f *serveFlags) nodes(log *slog.Logger) ([]engine.Node, error) {
	if len(f.redis) > 0 {
		return f.redisNodes(log)
	}
	node, err := localnode.Open(localnode.Config{Dir: f.data, Log: log})
	if err != nil {
		return nil, misconfigured("--data: %w", err)
	}
	return []engine.Node{node}, nil
}

func (f *serveFlags) redisNodes(log *slog.Logger) ([]engine.Node, error) {
	var nodes []engine.Node
	var wrong error
	for _, address := range f.redis {
		node, err := redisnode.New(redisnode.Config{Addr: address, Prefix: f.prefix, NodeTimeout: f.nodeTimeout, Log: log})
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		nodes = append(nodes, node)
	}
	if wrong != nil {
		return nil, misconfigured("--redis: %w", wrong)
	}
	return nodes, nil
}
