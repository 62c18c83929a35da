// Package redisnode is a node of the engine on one Redis server (7.0 or newer, or Valkey): an engine.Node whose memory is that
// server's and whose rules are Lua scripts, each of which the server executes as a whole.
//
// # What is kept
//
// Keys are <prefix>:<kind>:<name>. The kind stands before the user's bytes and the prefix has no colon, so no name can be
// taken for another key. The scripts say at their heads what their keys hold:
//
//	<prefix>:node                what the node keeps of itself (scripts/prelude/record.lua)
//	<prefix>:sem:<name>          a semaphore: definition, leases, line (scripts/prelude/semaphore.lua)
//	<prefix>:used:<name>         the bitmap of its slots that are in use or cool
//	<prefix>:ends:<name>         its leases by when they end
//	<prefix>:cool:<name>         what cools by when that is over
//	<prefix>:names               the semaphores that have a definition which is not deleted
//	<prefix>:deleted             those whose definition is deleted and that were not dropped yet
//	<prefix>:reg:<name>          a register of the cluster
//	<prefix>:gone:<kind>:<0, 1>  tombstones, in generations (scripts/prelude/tombstones.lua)
//	<prefix>:wake:<replica>      a channel: what wakes a replica
//	<prefix>:wake:*              a channel, literally: what all replicas hear (no replica's word is a *)
//
// # How it is reached
//
// One goroutine, the lane, owns one connection. It takes what was sent meanwhile from a queue, writes it as one pipeline and reads the
// answers; so calls reach the server in the order in which they were sent, and load makes batches. Claims, releases and lines that follow
// one another on one semaphore are executed by one script, in turn (scripts/turn.lua): a release and the claim that it makes room for
// cost little more than one of them. Nothing is ever sent
// twice. After any failure the connection is thrown away, with whatever is still in its buffers, and made
// anew; meanwhile calls fail at once. Before anything is sent over a new connection, every second, and after an answer that
// hints at a restart or a failover, the lane looks at the server (probe): a Redis that was restarted, or promoted, may
// have lost what it acknowledged, and is not asked until its memory was made good.
//
// A second goroutine listens on the wake channels over a connection of its own. A lost message costs little (see engine).
//
// # Locks
//
// queue.mu guards what waits for the lane. Node.telling is held while the engine's NodeEvents are called, one at a time.
// socket.mu guards which connection Close cuts. None is taken while another is held.
package redisnode
