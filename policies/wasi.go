package policies

import (
	"context"
	"fmt"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// wasiLengthMax is the longest buffer or list that a function of WASI is given. The runtime works off 16 MiB in one go, for
// longer than a policy may take.
const wasiLengthMax = 64 << 10

// wasiLengths says which parameter of a function of WASI is a length, of those that do work by it.
var wasiLengths = map[string]int{
	"random_get": 1, "fd_write": 2, "fd_read": 2, "fd_pwrite": 2, "fd_pread": 2, "fd_readdir": 2, "poll_oneoff": 2,
}

// serveWASI serves WASI as the runtime has it: without files, environment, arguments, a real clock or real randomness. Each call
// looks at the deadline first, as the host's own functions do: 20,000 calls in a row fit in a function that has no loop.
func serveWASI(ctx context.Context, r wazero.Runtime) error {
	ctx = experimental.WithFunctionListenerFactory(ctx, experimental.FunctionListenerFactoryFunc(
		func(d api.FunctionDefinition) experimental.FunctionListener {
			name := d.ExportNames()[0]
			length, has := wasiLengths[name]
			return experimental.FunctionListenerFunc(
				func(ctx context.Context, _ api.Module, _ api.FunctionDefinition, params []uint64, _ experimental.StackIterator) {
					c := callOf(ctx)
					c.look()
					if has && uint32(params[length]) > wasiLengthMax {
						c.end(FaultBadCall, fmt.Sprintf("%s with a length of %d, at most %d", name, uint32(params[length]), wasiLengthMax))
					}
				})
		}))
	_, err := wasi_snapshot_preview1.Instantiate(ctx, r)
	return err
}
