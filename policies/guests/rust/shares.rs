//! Fair share per tenant. The configuration is a table of shares in percent, and what happens beyond them:
//!
//!   attribute tenant
//!   acme 50
//!   * 10
//!   over deny
//!
//! A tenant that asks for more than its share of what is available is denied, or with `over priority -20` goes later. `*` is for all
//! other tenants, and for requests of none; without such a line those have no limit. Lines that begin with # are for people.
#![no_std]

mod permitd;
mod table;

// An instance serves one request at a time.
static mut TEXT: table::Text = table::Text::new();
static mut PRIORITY: i32 = 0; // 0: deny

/// Reads over deny, or over priority -20.
fn over(line: &[u8]) -> Result<bool, ()> {
    let (words, count) = table::split::<3>(line);
    match (words, count) {
        ([b"over", b"deny", _], 2) => Ok(true),
        ([b"over", b"priority", [b'-', by @ ..]], 3) => match table::number(by) {
            Some(n @ 1..=100) => {
                unsafe { PRIORITY = -(n as i32) };
                Ok(true)
            }
            _ => Err(()),
        },
        ([b"over", ..], _) => Err(()),
        _ => Ok(false),
    }
}

#[no_mangle]
pub extern "C" fn configure() -> i32 {
    let text = unsafe { &mut *core::ptr::addr_of_mut!(TEXT) };
    text.load();
    table::check(text.get(), over)
}

#[no_mangle]
pub extern "C" fn evaluate(requested: i64, _limit: i64, available: i64, _waiting: i64) -> i64 {
    let share = match table::find(unsafe { &*core::ptr::addr_of!(TEXT) }.get()) {
        Some(share) => share,
        None => return permitd::NO_OPINION,
    };
    if 100 * requested <= share * available {
        return permitd::NO_OPINION;
    }
    let priority = unsafe { PRIORITY };
    if priority == 0 {
        return permitd::deny("more than its share of what is available");
    }
    permitd::set_priority(priority);
    permitd::NO_OPINION
}
