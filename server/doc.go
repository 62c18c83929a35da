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
//
// The lines that begin with @ are the source of the OpenAPI document: make openapi writes it.
//
//	@title						permitd
//	@version					1
//	@description				Parameters come from the query, a form or a JSON object, whatever the content type; what is not known is refused.
//	@description				Durations need a unit (25s), a bare 0 aside. Times are UTC. Errors are problems (RFC 9457) with a stable kind, listed in /problems.
//	@description				A body has up to 64 KiB and is not compressed (415 unsupported_encoding).
//	@description				With Accept: text/plain acquire prints the lease alone, lists print columns, errors print "kind: detail".
//	@description				Names are any UTF-8 of up to 200 bytes, escaped in the path; for . and .. and where a proxy rewrites %2F, - in the path and ?name=.
//	@description				Every verb may be repeated. HEAD works like GET.
//	@license.name				Apache 2.0
//	@license.url				https://www.apache.org/licenses/LICENSE-2.0
//	@BasePath					/
//	@securityDefinitions.apikey	Bearer
//	@in							header
//	@name						Authorization
package server
