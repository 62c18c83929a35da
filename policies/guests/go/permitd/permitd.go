//go:build wasip1

package permitd

import (
	"time"
	"unsafe"
)

// NoOpinion lets the request weigh what it asks for.
const NoOpinion = 0

// Levels of a line of the log.
const (
	Debug int32 = iota
	Info
	Warn
	Error
)

//go:wasmimport permitd_v1 attr_get
func attrGet(key string, buffer unsafe.Pointer, capacity uint32) int32

//go:wasmimport permitd_v1 attrs_all
func attrsAll(buffer unsafe.Pointer, capacity uint32) int32

//go:wasmimport permitd_v1 config_get
func configGet(buffer unsafe.Pointer, capacity uint32) int32

//go:wasmimport permitd_v1 set_reason
func setReason(text string)

//go:wasmimport permitd_v1 set_priority
func setPriority(priority int32)

//go:wasmimport permitd_v1 set_ttl_ms
func setTTL(ms int64)

//go:wasmimport permitd_v1 log
func writeLog(level int32, text string)

//go:wasmimport permitd_v1 now_ms
func nowMS() int64

// The mark of the ABI.
//
//go:wasmexport permitd_abi_v1
func mark() {}

// buffer is where texts arrive; an instance serves one request at a time. It grows to what is asked for.
var buffer = make([]byte, 1<<10)

// fetch returns a copy of a text. get tells its length, and copies it if it fits; a negative length is absence.
func fetch(get func(buffer unsafe.Pointer, capacity uint32) int32) (string, bool) {
	for {
		length := int(get(unsafe.Pointer(&buffer[0]), uint32(len(buffer))))
		if length < 0 {
			return "", false
		}
		if length <= len(buffer) {
			return string(buffer[:length]), true
		}
		buffer = make([]byte, length)
	}
}

// Attribute returns an attribute of the request. The server answers for permitd.semaphore, permitd.client, permitd.holder
// and permitd.request_id.
func Attribute(key string) (value string, there bool) {
	return fetch(func(b unsafe.Pointer, capacity uint32) int32 { return attrGet(key, b, capacity) })
}

// Attributes returns all attributes.
func Attributes() map[string]string {
	encoded, _ := fetch(attrsAll)
	all := map[string]string{}
	for len(encoded) >= 4 {
		key, value := int(encoded[0])|int(encoded[1])<<8, int(encoded[2])|int(encoded[3])<<8
		encoded = encoded[4:]
		all[encoded[:key]] = encoded[key : key+value]
		encoded = encoded[key+value:]
	}
	return all
}

// Config returns the binding's configuration.
func Config() string {
	config, _ := fetch(configGet)
	return config
}

// Deny is the answer that denies the request, for a reason of up to 256 bytes.
func Deny(reason string) int64 {
	setReason(reason)
	return -1
}

// SetReason says why, for the audit log; up to 256 bytes.
func SetReason(reason string) { setReason(reason) }

// SetPriority overrides the request's priority, -100 to 100.
func SetPriority(priority int) { setPriority(int32(min(max(priority, -100), 100))) }

// SetTTL overrides the request's TTL within what the semaphore allows; 0 is its default.
func SetTTL(ttl time.Duration) { setTTL(ttl.Milliseconds()) }

// Log writes a line of up to 512 bytes, 8 lines a call.
func Log(level int32, text string) { writeLog(level, text) }

// Now is when the evaluation began; time.Now is not the real time.
func Now() time.Time { return time.UnixMilli(nowMS()) }
