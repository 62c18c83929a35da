// Write a permitd policy in AssemblyScript:
//
//   asc policy.ts --runtime incremental -O --noAssert -o policy.wasm
//
// Export evaluate, and configure if the policy has a configuration. The other runtimes of AssemblyScript never free memory. What
// is kept in variables is shared by all requests that the same instance serves, unless the binding says isolation: fresh.

@external("permitd_v1", "attr_get") declare function attr_get(key: usize, key_len: i32, buf: usize, cap: i32): i32;
@external("permitd_v1", "attrs_all") declare function attrs_all(buf: usize, cap: i32): i32;
@external("permitd_v1", "config_get") declare function config_get(buf: usize, cap: i32): i32;
@external("permitd_v1", "set_reason") declare function set_reason(text: usize, len: i32): void;
@external("permitd_v1", "set_priority") declare function set_priority(priority: i32): void;
@external("permitd_v1", "set_ttl_ms") declare function set_ttl_ms(ms: i64): void;
@external("permitd_v1", "log") declare function log_line(level: i32, text: usize, len: i32): void;
@external("permitd_v1", "now_ms") declare function now_ms(): i64;

// The weight is what was requested.
export const NO_OPINION: i64 = 0;

// An attribute of the request, or null.
export function attribute(key: string): string | null {
  const name = String.UTF8.encode(key);
  const length = attr_get(changetype<usize>(name), name.byteLength, 0, 0);
  if (length < 0) return null;
  const value = new ArrayBuffer(length);
  attr_get(changetype<usize>(name), name.byteLength, changetype<usize>(value), length);
  return String.UTF8.decode(value);
}

// The binding's configuration, up to 16 KiB; also legal in configure, as is log.
export function config(): string {
  const value = new ArrayBuffer(config_get(0, 0));
  config_get(changetype<usize>(value), value.byteLength);
  return String.UTF8.decode(value);
}

// The answer that denies the request, for a reason of up to 256 bytes.
export function deny(reason: string): i64 {
  setReason(reason);
  return -1;
}

export function setReason(reason: string): void {
  const text = String.UTF8.encode(reason);
  set_reason(changetype<usize>(text), text.byteLength);
}

export function setPriority(priority: i32): void {
  set_priority(priority);
}

export function setTTL(ms: i64): void {
  set_ttl_ms(ms);
}

export function log(level: i32, line: string): void {
  const text = String.UTF8.encode(line);
  log_line(level, changetype<usize>(text), text.byteLength);
}

export function now(): i64 {
  return now_ms();
}
