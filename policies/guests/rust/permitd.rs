//! Write a permitd policy in Rust, without the standard library:
//!
//!   rustc --target wasm32-unknown-unknown -O -C panic=abort -C link-arg=-zstack-size=16384 --crate-type cdylib policy.rs
//!
//! Export evaluate, and configure if the policy has a configuration. What is kept in statics is shared by all requests that the
//! same instance serves, unless the binding says isolation: fresh.
#![allow(dead_code)]

/// The weight is what was requested.
pub const NO_OPINION: i64 = 0;

mod host {
    #[link(wasm_import_module = "permitd_v1")]
    extern "C" {
        pub fn attr_get(key: *const u8, key_len: usize, buf: *mut u8, cap: usize) -> i32;
        pub fn attrs_all(buf: *mut u8, cap: usize) -> i32;
        pub fn config_get(buf: *mut u8, cap: usize) -> i32;
        pub fn set_reason(text: *const u8, len: usize);
        pub fn set_priority(priority: i32);
        pub fn set_ttl_ms(ms: i64);
        pub fn log(level: i32, text: *const u8, len: usize);
        pub fn now_ms() -> i64;
    }
}

/// The mark of the ABI.
#[no_mangle]
pub extern "C" fn permitd_abi_v1() {}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

/// What of a buffer the host has filled; nothing if the text is absent or does not fit.
fn filled(buf: &[u8], len: i32) -> Option<&[u8]> {
    if len < 0 {
        return None;
    }
    buf.get(..len as usize)
}

/// An attribute of the request, if it is there and fits.
pub fn attribute<'a>(key: &str, buf: &'a mut [u8]) -> Option<&'a [u8]> {
    attribute_bytes(key.as_bytes(), buf)
}

/// The same, where the key is no literal.
pub fn attribute_bytes<'a>(key: &[u8], buf: &'a mut [u8]) -> Option<&'a [u8]> {
    let len = unsafe { host::attr_get(key.as_ptr(), key.len(), buf.as_mut_ptr(), buf.len()) };
    filled(buf, len)
}

/// All attributes, sorted by key: u16 key length, u16 value length, key, value, repeated.
pub fn attributes(buf: &mut [u8]) -> Option<&[u8]> {
    let len = unsafe { host::attrs_all(buf.as_mut_ptr(), buf.len()) };
    filled(buf, len)
}

/// The binding's configuration, up to 16 KiB; also legal in configure, as is log.
pub fn config(buf: &mut [u8]) -> Option<&[u8]> {
    let len = unsafe { host::config_get(buf.as_mut_ptr(), buf.len()) };
    filled(buf, len)
}

/// The answer that denies the request, for a reason of up to 256 bytes.
pub fn deny(reason: &str) -> i64 {
    set_reason(reason);
    -1
}

pub fn set_reason(reason: &str) {
    unsafe { host::set_reason(reason.as_ptr(), reason.len()) }
}

pub fn set_priority(priority: i32) {
    unsafe { host::set_priority(priority) }
}

pub fn set_ttl_ms(ms: i64) {
    unsafe { host::set_ttl_ms(ms) }
}

pub fn log(level: i32, text: &str) {
    log_bytes(level, text.as_bytes())
}

/// The same, where the text is no literal.
pub fn log_bytes(level: i32, text: &[u8]) {
    unsafe { host::log(level, text.as_ptr(), text.len()) }
}

pub fn now_ms() -> i64 {
    unsafe { host::now_ms() }
}
