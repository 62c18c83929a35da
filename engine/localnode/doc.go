// Package localnode is a node in this process: the rules of a node as a plain value (State), and an engine.Node that keeps
// one durably in a directory (Node).
//
// # The rules
//
// State.Apply executes one operation of engine/node.go at a time that is a parameter. It does no I/O, starts no goroutine
// and reads no clock, so simulations are made of it, and a differential test holds the scripts of redisnode to it. One file has
// one operation; semaphore.go is what a node keeps, prelude.go what comes before every operation.
//
// # The directory
//
//	registers.db      node record, registers, leases without an end, the longest TTL yet granted, a ceiling of all fences.
//	                  Flushed to the disk before anything is answered: it outlives a power cut
//	leases-N.log      all leases, what cools, tombstones. Never flushed: it outlives the process (kill -9), not the machine
//	leases-set-aside  leases that could not be used
//
// The first file is one of bbolt with checksums of our own (sealed.go); the second is a journal (journal.go), in one file or, while
// a new one is begun, in two. It names the boot of the machine that it was written under. Under another one, or damaged, it
// is set aside, and no semaphore grants anything until the longest TTL yet granted has passed: by then every lease that it may
// have held is over. A damaged registers.db can not be waited out: Open refuses.
//
// The first file is written before the second, once each for all calls of a batch, and only then are these
// answered. While the journal can be used it decides; what registers.db alone has was never acknowledged.
//
// # Failures
//
// A write that fails is told by engine.ErrBroken, and tried again with the next call; what was executed meanwhile is
// written with it. After a flush that failed nothing is acknowledged any more until the node is opened anew: the kernel may have
// thrown away what it could not write.
package localnode
