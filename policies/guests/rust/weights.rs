//! Weight by attribute. The configuration is a table:
//!
//!   attribute tier
//!   gold 1
//!   silver 2
//!   * 4
//!
//! A request weighs what it asks for times the number beside its value of the attribute; 0 denies. `*` is for all other values, and
//! for none; without such a line those are as if there were no policy. Lines that begin with # are for people.
#![no_std]

mod permitd;
mod table;

// An instance serves one request at a time.
static mut TEXT: table::Text = table::Text::new();

#[no_mangle]
pub extern "C" fn configure() -> i32 {
    let text = unsafe { &mut *core::ptr::addr_of_mut!(TEXT) };
    text.load();
    table::check(text.get(), |_| Ok(false))
}

#[no_mangle]
pub extern "C" fn evaluate(requested: i64, _limit: i64, _available: i64, _waiting: i64) -> i64 {
    match table::find(unsafe { &*core::ptr::addr_of!(TEXT) }.get()) {
        None => permitd::NO_OPINION,
        Some(0) => permitd::deny("not admitted"),
        Some(factor) => factor * requested,
    }
}
