package policies

import "time"

// Limits of a module. They hold before anything of it is compiled.
const (
	ModuleMax     = 8 << 20  // bytes
	memoryMax     = 16 << 20 // bytes
	pageSize      = 64 << 10 // bytes of a page of memory
	pagesMax      = memoryMax / pageSize
	functionsMax  = 20_000
	bodyMax       = 64 << 10 // bytes of a function's body
	localsMax     = 2_000    // of a function
	typesMax      = 20_000
	arityMax      = 1_000 // parameters or results of a type
	globalsMax    = 10_000
	tablesMax     = 1
	tableMax      = 65_536 // elements, at the start
	elementsMax   = 65_536 // in all element segments
	importsMax    = 64
	exportsMax    = 256
	dataMax       = 65_536        // segments
	bulkBytesMax  = 512           // bytes 0xFC in a function's body
	rewrittenMax  = 2 * ModuleMax // of code
	descriptorMax = 128           // bytes of a module's own words in a refusal
)

// Limits of what goes in and out of a module.
const (
	AttributesMax      = 64       // of a request
	AttributeKeyMax    = 128      // bytes
	AttributeValueMax  = 1 << 10  // bytes
	AttributesBytesMax = 16 << 10 // bytes, of all keys and values of a request
	ConfigMax          = 16 << 10 // bytes of a binding's configuration
	ReasonMax          = 256      // bytes
	LogLineMax         = 512      // bytes
	LogLinesMax        = 8        // of a call
	PriorityMax        = 100      // and -PriorityMax
	detailMax          = 256      // bytes of a fault's words
	reservedPrefix     = "permitd."
)

// Limits of time.
const (
	TimeoutUsual   = 50 * time.Millisecond // of one evaluation
	TimeoutMin     = 20 * time.Millisecond // less kills healthy instances on a busy machine
	TimeoutMax     = 500 * time.Millisecond
	slotWaitMax    = 20 * time.Millisecond // for a slot; then a call is overloaded
	compileWorkMax = 5 * time.Second       // of the child, on all cores together
	compileTimeMax = 20 * time.Second      // of the child, by the wall: it is the least of all that wants a core
	loadAgain      = 30 * time.Second      // after a version could not be loaded
	ttlMinUsual    = time.Second
	ttlMaxUsual    = time.Hour
)

// Limits of instances.
const (
	instanceUsesMax  = 100_000
	instanceAgeMax   = 10 * time.Minute
	instanceBytesMax = memoryMax / 2    // of memory that has grown; beyond it an instance is not used again
	idleBytesMax     = 64 << 20         // of memory of a version's idle instances
	stackKept        = time.Millisecond // of an evaluation, after which an instance keeps its stack
	idleMax          = 64               // idle instances of a version
)

// Limits of the registry.
const (
	NameMax      = 200 // bytes of a policy's name
	PoliciesMax  = 256 // names
	versionsKept = 5   // of a policy, to go back to
)

// startTimeMax bounds the start function, _initialize and configure together. A variable for tests under the race detector alone, which
// stretches it.
var startTimeMax = 500 * time.Millisecond
