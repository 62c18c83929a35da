package redisnode

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// command is a call as go-redis knows it. It is used again for other calls.
type command struct {
	*redis.Cmd
	arguments arguments
}

// Args is how go-redis asks what to write.
func (c *command) Args() []any { return c.arguments.list }

// command returns the i-th command of a batch, fit for a new call.
func (l *lane) command(i int) *command {
	if i == len(l.commands) {
		l.commands = append(l.commands, &command{Cmd: redis.NewCmd(context.Background(), "evalsha")})
	}
	c := l.commands[i]
	c.SetErr(nil)
	c.SetVal(nil)
	return c
}
