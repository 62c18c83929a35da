package redisnode

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/permitd/permitd/engine"
)

// command is the calls that one script executes, as go-redis knows them. It is used again for other calls.
type command struct {
	*redis.Cmd
	calls     []*engine.Call
	arguments arguments
}

// Args is how go-redis asks what to write.
func (c *command) Args() []any { return c.arguments.list }

// command returns the i-th command of a batch, fit for new calls.
func (l *lane) command(i int) *command {
	if i == len(l.commands) {
		l.commands = append(l.commands, &command{Cmd: redis.NewCmd(context.Background(), "evalsha")})
	}
	c := l.commands[i]
	c.SetErr(nil)
	c.SetVal(nil)
	clear(c.calls)
	c.calls = c.calls[:0]
	return c
}
