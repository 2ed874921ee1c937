//! Keys, values, and times.

use std::time::Instant;

use crate::Outcome;
use crate::clock::on_processor;

/// Bytes of a key, and of a value.
pub const KEY: usize = 16;
pub const VALUE: usize = 32;

/// Spreads a number over 64 bits; no two numbers give the same.
pub fn mix(number: u64) -> u64 {
    let mut word = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

/// Stored key `index`.
pub fn stored(index: u64) -> [u8; KEY] {
    (u128::from(mix(index)) << 64 | u128::from(index)).to_be_bytes()
}

/// Key `index` of those that nobody stores.
pub fn missing(index: u64) -> [u8; KEY] {
    stored(index | 1 << 48)
}

pub fn value(index: u64) -> [u8; VALUE] {
    [index as u8; VALUE]
}

/// Nanoseconds of this thread's processor time for each of `count` operations, on
/// average: who else is on the machine does not count.
pub fn processor(count: u64, mut operation: impl FnMut(u64) -> Outcome) -> Outcome<f64> {
    let now = || on_processor().ok_or("this system does not count a thread's processor time");
    let start = now()?;
    for index in 0..count {
        operation(index)?;
    }
    Ok((now()? - start) as f64 / count as f64)
}

/// Nanoseconds that half of `count` operations stay below.
pub fn median(count: u64, mut operation: impl FnMut(u64) -> Outcome) -> Outcome<f64> {
    let mut times = Vec::new();
    for index in 0..count {
        let start = Instant::now();
        operation(index)?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    Ok(middle(times))
}

/// The middle one.
pub fn middle(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
