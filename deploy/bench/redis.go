package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// calls is how many scripts the nodes have run so far, all together.
func calls(s *stand, nodes string) int {
	sum := 0
	for addr := range strings.SplitSeq(nodes, ",") {
		c := redis.NewClient(&redis.Options{Addr: addr})
		info, err := c.Info(context.Background(), "commandstats").Result()
		_ = c.Close()
		if err != nil {
			s.Fatalf("%v", err)
		}
		for line := range strings.Lines(info) {
			if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
				n, _, _ := strings.Cut(rest, ",")
				k, _ := strconv.Atoi(n)
				sum += k
			}
		}
	}
	return sum
}
