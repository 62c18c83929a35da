//! A configuration that is lines of words, and one that is a table: the name of an attribute, and a number for each of its
//! values.
#![allow(dead_code)]

use crate::permitd;

pub const CONFIG_MAX: usize = 16384;
const VALUE_MAX: usize = 1024;
const NUMBER_DIGITS_MAX: usize = 6;

/// The words of a line.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|c| matches!(c, b' ' | b'\t' | b'\r')).filter(|word| !word.is_empty())
}

/// The lines that are not empty and not for people.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|c| *c == b'\n').filter(|line| words(line).next().map_or(false, |first| first[0] != b'#'))
}

/// A number of up to six digits.
pub fn number(word: &[u8]) -> Option<i64> {
    if word.is_empty() || word.len() > NUMBER_DIGITS_MAX || !word.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(word.iter().fold(0, |n, c| 10 * n + i64::from(c - b'0')))
}

/// Up to N words of a line, and how many there are.
pub fn split<const N: usize>(line: &[u8]) -> ([&[u8]; N], usize) {
    let mut first: [&[u8]; N] = [b""; N];
    let mut count = 0;
    for word in words(line) {
        if count < N {
            first[count] = word;
        }
        count += 1;
    }
    (first, count)
}

/// Refuses a configuration for a line.
pub fn wrong(line: &[u8]) -> i32 {
    permitd::log_bytes(3, line);
    1
}

/// The configuration of this instance.
pub struct Text {
    bytes: [u8; CONFIG_MAX],
    len: usize,
}

impl Text {
    pub const fn new() -> Text {
        Text { bytes: [0; CONFIG_MAX], len: 0 }
    }

    pub fn load(&mut self) {
        self.len = permitd::config(&mut self.bytes).map_or(0, <[u8]>::len);
    }

    pub fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Checks a table; the answer is configure's. `other` is asked about each line below the first: whether it takes it, or that it is
/// wrong.
pub fn check(text: &[u8], mut other: impl FnMut(&[u8]) -> Result<bool, ()>) -> i32 {
    let mut rows = lines(text);
    let first = match rows.next() {
        Some(line) => line,
        None => return wrong(b"the configuration begins with: attribute NAME"),
    };
    if !matches!(split::<2>(first), ([b"attribute", _], 2)) {
        return wrong(first);
    }
    for line in rows {
        match other(line) {
            Err(()) => return wrong(line),
            Ok(true) => continue,
            Ok(false) => {}
        }
        let (row, count) = split::<2>(line);
        if count != 2 || number(row[1]).is_none() {
            return wrong(line);
        }
    }
    0
}

/// The number beside the request's value, or beside *.
pub fn find(text: &[u8]) -> Option<i64> {
    let mut rows = lines(text);
    let name = split::<2>(rows.next()?).0[1];
    let mut buf = [0u8; VALUE_MAX];
    let value = permitd::attribute_bytes(name, &mut buf).unwrap_or(b"");
    let mut others = None;
    for line in rows {
        let (row, _) = split::<2>(line);
        let n = match number(row[1]) {
            Some(n) => n,
            None => continue, // not a row
        };
        if row[0] == value {
            return Some(n);
        }
        if row[0] == b"*" && others.is_none() {
            others = Some(n);
        }
    }
    others
}
