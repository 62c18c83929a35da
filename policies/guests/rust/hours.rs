//! Office hours. The configuration says when it is open, and what happens outside:
//!
//!   utc +60
//!   open 1-5 08:00-18:00
//!   open 6 09:00-12:00
//!   outside deny
//!
//! Days are 1, Monday, to 7; `utc` is how many minutes local time is ahead. Outside, requests are denied, or with `outside times 3`
//! weigh three times what they ask for. Lines that begin with # are for people.
#![no_std]

mod permitd;
mod table;

use table::{number, split};

const MINUTES_OF_DAY: i64 = 1440;
const OPEN_MAX: usize = 32;

#[derive(Clone, Copy)]
struct Window {
    days: (i64, i64),
    minutes: (i64, i64), // the second is not open any more
}

struct Hours {
    windows: [Window; OPEN_MAX],
    count: usize,
    utc: i64,
    times: i64, // 0: deny
}

// An instance serves one request at a time.
static mut TEXT: table::Text = table::Text::new();
static mut HOURS: Hours = Hours { windows: [Window { days: (0, 0), minutes: (0, 0) }; OPEN_MAX], count: 0, utc: 0, times: 0 };

/// Both sides of a character; the second is nothing if it is not there.
fn cut(word: &[u8], at: u8) -> (&[u8], &[u8]) {
    match word.iter().position(|c| *c == at) {
        Some(i) => (&word[..i], &word[i + 1..]),
        None => (word, b""),
    }
}

/// The minute of the day of 08:00.
fn minute(word: &[u8]) -> Option<i64> {
    let (hours, minutes) = cut(word, b':');
    let (h, m) = (number(hours)?, number(minutes)?);
    if minutes.len() != 2 || m > 59 || 60 * h + m > MINUTES_OF_DAY {
        return None;
    }
    Some(60 * h + m)
}

impl Hours {
    fn read(&mut self, line: &[u8]) -> Option<()> {
        match split::<3>(line) {
            ([b"open", days, hours], 3) => self.open(days, hours),
            ([b"utc", by, _], 2) => self.utc(by),
            ([b"outside", b"deny", _], 2) => Some(()),
            ([b"outside", b"times", by], 3) => {
                self.times = number(by).filter(|n| *n > 0)?;
                Some(())
            }
            _ => None,
        }
    }

    fn open(&mut self, days: &[u8], hours: &[u8]) -> Option<()> {
        let (first, second) = cut(days, b'-');
        let from_day = number(first)?;
        let to_day = if second.is_empty() { from_day } else { number(second)? };
        let (first, second) = cut(hours, b'-');
        let (from, to) = (minute(first)?, minute(second)?);
        if from_day < 1 || to_day > 7 || to_day < from_day || to <= from || self.count == OPEN_MAX {
            return None;
        }
        self.windows[self.count] = Window { days: (from_day, to_day), minutes: (from, to) };
        self.count += 1;
        Some(())
    }

    fn utc(&mut self, by: &[u8]) -> Option<()> {
        let (sign, digits) = match by {
            [b'-', rest @ ..] => (-1, rest),
            [b'+', rest @ ..] => (1, rest),
            _ => (1, by),
        };
        self.utc = sign * number(digits).filter(|n| *n <= MINUTES_OF_DAY)?;
        Some(())
    }

    fn is_open(&self) -> bool {
        let minutes = permitd::now_ms() / 60000 + self.utc;
        let day = (minutes / MINUTES_OF_DAY + 3) % 7 + 1; // the epoch was a Thursday
        let now = minutes % MINUTES_OF_DAY;
        self.windows[..self.count]
            .iter()
            .any(|w| day >= w.days.0 && day <= w.days.1 && now >= w.minutes.0 && now < w.minutes.1)
    }
}

#[no_mangle]
pub extern "C" fn configure() -> i32 {
    let (text, hours) = unsafe { (&mut *core::ptr::addr_of_mut!(TEXT), &mut *core::ptr::addr_of_mut!(HOURS)) };
    text.load();
    for line in table::lines(text.get()) {
        if hours.read(line).is_none() {
            return table::wrong(line);
        }
    }
    if hours.count == 0 {
        return table::wrong(b"the configuration needs a line: open DAYS HOURS");
    }
    0
}

#[no_mangle]
pub extern "C" fn evaluate(requested: i64, _limit: i64, _available: i64, _waiting: i64) -> i64 {
    let hours = unsafe { &*core::ptr::addr_of!(HOURS) };
    if hours.is_open() {
        return permitd::NO_OPINION;
    }
    if hours.times == 0 {
        return permitd::deny("outside office hours");
    }
    hours.times * requested
}
