// Package policies runs WebAssembly modules that say what requests for permits weigh. Whoever may operate permitd may upload
// one; the host treats every module as hostile.
//
// # The ABI, version 1
//
// A module exports its memory as "memory", and
//
//	permitd_abi_v1 : () -> ()                                the mark of the version, never called
//	evaluate       : (requested, limit, available, waiting i64) -> i64
//	configure      : () -> i32                               optional; once an instance, 0 says that the configuration is fine
//	_initialize    : () -> ()                                optional; once an instance, before anything else
//
// evaluate answers the weight, from 1 on; 0 for no opinion, which weighs what was requested; -1 to deny. Anything else is a fault. A
// weight above the limit is an ordinary refusal. A module with _start is a command and is refused.
//
// It may import from "permitd_v1":
//
//	attr_get     : (key, key_len, buf, cap i32) -> i32   length of the value, -1 if absent; copied only if it fits
//	attrs_all    : (buf, cap i32) -> i32                 all, sorted by key: u16 key length, u16 value length, key, value, …
//	config_get   : (buf, cap i32) -> i32                 the binding's configuration; also legal in configure
//	set_reason   : (ptr, len i32) -> ()                  up to 256 bytes, for a denial and for the audit log
//	set_priority : (i32) -> ()                           clamped to -100 … 100; overrides the request's
//	set_ttl_ms   : (i64) -> ()                           0 is the default; clamped to what the semaphore allows
//	log          : (level, ptr, len i32) -> ()           512 bytes, 8 lines a call; also legal in configure
//	now_ms       : () -> i64                             fixed when the call begins
//
// besides env.abort, which AssemblyScript calls, and wasi_snapshot_preview1, which has neither files nor environment nor arguments
// nor a real clock nor real randomness. Pointers and lengths are unsigned; texts are UTF-8. A buffer must lie in the module's memory even
// where nothing is copied. The host answers for the attributes permitd.semaphore, permitd.client, permitd.holder and
// permitd.request_id; clients may send no key with that prefix. What is added to the ABI are optional imports; what would break it will
// be permitd_v2, served beside. guests/ has the examples and what authors include.
//
// # The way of a module
//
//	Put ─▶ scan ─▶ imports, exports ─▶ rewrite ─▶ compile, in a child ─▶ load ─▶ trial ─▶ warm ─▶ store ─▶ index ─▶ swap
//
// from cheap to dear; each step refuses with a Refusal that tells the stage, what it got, what it wanted, and a hint. The scan reads the
// sections, so that nothing is allocated by a count that a module declares. The rewriting leaves out custom sections and puts looks at
// the deadline where code without loops could run on. The trial asks two instances the same dozen requests, forth and back.
//
// # The way of a request
//
//	Evaluate ─▶ policy ─▶ version ─▶ breaker ─▶ slot ─▶ instance ─▶ run ─▶ Decision
//
// A version has a runtime of its own and lives as long as somebody refers to it: its policy while it is the current one, and each
// call. A swap is one store of a pointer; the last call of the old version closes its runtime. An instance serves one call at a time, and
// is thrown away after any error, after 100,000 calls or ten minutes, or when its memory has grown to half of what it may have. It belongs to
// one configuration, since configure has read it.
//
// # Faults
//
// bad_pointer, bad_call, trap, exit, timeout and bad_result are the module's; five in ten seconds open the breaker of its version.
// overloaded and breaker_open are the host's. Either way what the module set is dropped, and the binding says what happens: deny,
// allow_requested or unavailable. Evaluate returns an error only for what is not the module's doing: the replica does not have the
// policy, the client's attributes break the limits, or the request is over.
//
// # Replicas
//
// A Store keeps modules by their SHA-256, and one index of what is in force: OnNodes on the engine's nodes, where the index is a register
// and each module lies on a majority. Sync brings a replica to what the index says; until a version is warm here, the one before it
// goes on. Revisions of the index grow across deletions, and a version's revision is the generation that decisions name.
//
// Bindings are part of the definitions of semaphores, which are not ours: Config.Bindings reads them. A deletion reads them before and
// after it takes the policy out of the index, so that a binding made meanwhile brings it back.
//
// # Programs that use this package
//
// call CompileIfAsked first of all in main: compiling happens in a child process, which is the same program.
//
// Lock order: policy.mu (while a version is loaded), workshop.bench, Host.mu, pool.mu and policy.look.
// Host.reading is taken while none of them is held.
package policies
