// Package server is the face of an engine: REST, and the lease channel over WebSocket.
//
// A request goes one way, from here to the engine to the nodes. The files are named by what they
// serve: semaphores.go, acquire.go, release.go, leases.go, nodes.go, health.go; channel_*.go is the
// lease channel; problem.go maps every error to what a client sees of it.
//
// Rules that hold for every endpoint:
//
//   - decode.go reads what a client sent, for REST and the channel alike. What it does not know it
//     refuses: Echo's Bind is not used, since it takes JSON under curl's form type for nothing at all.
//   - name.go takes names from the escaped path and decodes them exactly once, so that team:db and
//     team%3Adb are one semaphore, and team%2Fdb is not a path.
//   - A 2xx of an acquire means that the lease is held. Whoever leaves before the answer was
//     written has nothing: the request is cancelled and the grant given back.
//   - Errors are RFC 9457 problems with a stable kind.
//
// Of a connection of the channel, one goroutine reads, a second writes while something is queued, and
// events of the engine only put frames into the queue. Lock order: engine, then channel.mu; nothing
// calls the engine with channel.mu held.
package server
