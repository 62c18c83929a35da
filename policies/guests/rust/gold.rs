//! Gold clients go first at face value. Others are denied when less than a quarter is free, else weigh double and get 5 s.
#![no_std]

mod permitd;

#[no_mangle]
pub extern "C" fn evaluate(requested: i64, limit: i64, available: i64, _waiting: i64) -> i64 {
    let mut buf = [0u8; 16];
    if permitd::attribute("tier", &mut buf) == Some(b"gold") {
        permitd::set_priority(10);
        return requested;
    }
    if 4 * available < limit {
        return permitd::deny("less than a quarter is free");
    }
    permitd::set_ttl_ms(5000);
    2 * requested
}
