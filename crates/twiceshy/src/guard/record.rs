//! A store's record: the key, so that answers are exact, and its value.
//!
//! ```text
//! | length of the key | key | value | checksum |
//!   1 byte below 128: 7 bits per byte, the lowest      4 bytes: the low half of the
//!   first, the highest bit set in all but the last     XXH3-64 of all that precedes it
//! ```
//!
//! Every byte counts: the smaller the records, the more of them fit in the store's cache. One
//! in 2^32 damaged records passes the checksum. The checksum does not cover the digest, which
//! follows from the key.

use xxhash_rust::xxh3::xxh3_64;

/// The number of this layout, which is part of a store's tag.
pub(super) const LAYOUT: u64 = 2;

/// Bytes of the checksum.
const CHECKSUM: usize = 4;

/// A record with a wrong checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// Bits of the length per byte.
const BITS: u32 = 7;
/// Set in a byte of the length when another follows.
const MORE: u8 = 1 << BITS;

/// The record that the store of a [`Guard`](super::Guard) has for a key and its value, for
/// filling a store before a guard is opened in front of it.
#[must_use]
pub fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    encode(key, value)
}

/// The key and the value of a [`record`]; `None` if the record is damaged.
#[must_use]
pub fn read_record(record: &[u8]) -> Option<(&[u8], &[u8])> {
    parts(record)
}

pub(super) fn encode(key: &[u8], value: &[u8]) -> Vec<u8> {
    let digits = key.len().checked_ilog2().map_or(1, |bits| 1 + (bits / BITS) as usize);
    let mut record = Vec::with_capacity(digits + key.len() + value.len() + CHECKSUM);
    let mut length = key.len();
    while length >= usize::from(MORE) {
        record.push(length as u8 | MORE);
        length >>= BITS;
    }
    record.push(length as u8);
    record.extend_from_slice(key);
    record.extend_from_slice(value);
    let checksum = checksum(&record);
    record.extend_from_slice(&checksum);
    record
}

#[inline]
fn checksum(body: &[u8]) -> [u8; CHECKSUM] {
    (xxh3_64(body) as u32).to_le_bytes()
}

/// A record without its checksum, after verifying it.
#[inline]
fn body(record: &[u8]) -> Result<&[u8], Damaged> {
    let (body, sum) = record.split_last_chunk::<CHECKSUM>().ok_or(Damaged)?;
    if checksum(body) == *sum { Ok(body) } else { Err(Damaged) }
}

/// The length of a record's key, and the bytes that follow; `None` for a damaged record.
#[inline]
fn length(record: &[u8]) -> Option<(usize, &[u8])> {
    match record.split_first()? {
        (&byte, rest) if byte < MORE => Some((byte.into(), rest)),
        _ => long_length(record),
    }
}

#[cold]
fn long_length(record: &[u8]) -> Option<(usize, &[u8])> {
    let bytes = 1 + record.iter().position(|&byte| byte < MORE)?;
    let (length, rest) = record.split_at(bytes);
    let mut sum = 0_usize;
    for &byte in length.iter().rev() {
        sum = sum.checked_mul(MORE.into())? | usize::from(byte & !MORE);
    }
    Some((sum, rest))
}

/// The key and the value of a record; `None` for a damaged record.
pub(super) fn parts(record: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = length(body(record).ok()?)?;
    rest.split_at_checked(length)
}

/// Whether a new record may replace a stored one: they have the same key, or the stored one is
/// damaged.
pub(super) fn gives_way(stored: &[u8], new: &[u8]) -> bool {
    match (parts(stored), parts(new)) {
        (Some((stored, _)), Some((new, _))) => stored == new,
        _ => true,
    }
}

/// The value of a record, if it is this key's.
///
/// The value's place follows from the key that is looked up, not from the record's length
/// field: the processor then waits for one load, not for two in a row.
#[inline]
pub(super) fn value<'a>(record: &'a [u8], key: &[u8]) -> Result<Option<&'a [u8]>, Damaged> {
    let (length, rest) = length(body(record)?).ok_or(Damaged)?;
    Ok(if length == key.len() { rest.strip_prefix(key) } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of these bytes: their checksum is appended.
    fn sealed(body: &[u8]) -> Vec<u8> {
        [body, &checksum(body)].concat()
    }

    #[test]
    fn records_are_these_bytes() {
        // XXH3-64 of "\0" and of "\x03keyvalue", by the reference implementation.
        assert_eq!(encode(b"", b""), b"\0\xdb\xec\x4e\x07");
        assert_eq!(encode(b"key", b"value"), b"\x03keyvalue\x9d\x4b\x14\x89");
        assert_eq!(encode(&[b'k'; 127], b"v"), sealed(&[&[0x7f][..], &[b'k'; 127], b"v"].concat()));
        let two = [&[0x80, 1][..], &[b'k'; 128], b"v"].concat();
        assert_eq!(encode(&[b'k'; 128], b"v"), sealed(&two));
        let long = [b'k'; 0x1_2345];
        assert_eq!(encode(&long, b"v"), sealed(&[&[0xc5, 0xc6, 4][..], &long, b"v"].concat()));
    }

    #[test]
    fn a_record_gives_its_key_and_to_nobody_else_its_value() {
        for length in [0, 1, 2, 126, 127, 128, 129, 300, (1 << 14) - 1, 1 << 14, 1 << 21] {
            let own: Vec<u8> = (0..length).map(|at| at as u8).collect();
            for stored in [&b""[..], b"v", &[7; 1000]] {
                let record = encode(&own, stored);
                assert_eq!(parts(&record), Some((&own[..], stored)));
                assert_eq!(value(&record, &own), Ok(Some(stored)));
                // Keys that the record's bytes would be right for, were it not for the
                // length: the value's first byte more, the key's last byte less.
                let longer = [&own[..], &stored[..stored.len().min(1)]].concat();
                assert_eq!(value(&record, &longer).map(|value| value.is_some()), Ok(longer == own));
                if let Some((last, shorter)) = own.split_last() {
                    assert_eq!(value(&record, shorter), Ok(None));
                    let other = [shorter, &[!last]].concat();
                    assert_eq!(value(&record, &other), Ok(None));
                    assert!(!gives_way(&record, &encode(&other, stored)));
                }
                assert!(gives_way(&record, &encode(&own, b"other")));
            }
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for (key, stored) in [(&b"k"[..], &b""[..]), (b"key", b"value"), (&[7; 130], &[8; 300])] {
            let record = encode(key, stored);
            for bit in 0..record.len() * 8 {
                let mut damaged = record.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(value(&damaged, key), Err(Damaged), "bit {bit}");
                assert_eq!(parts(&damaged), None, "bit {bit}");
                assert!(gives_way(&damaged, &record), "a damaged record can be replaced");
            }
            for length in 0..record.len() {
                assert_eq!(value(&record[..length], key), Err(Damaged), "{length} bytes");
            }
        }
    }

    #[test]
    fn records_that_were_never_right_are_nobodys() {
        let too_long = [&[0xff; 10][..], b"\x7fkey"].concat();
        for body in [&b""[..], b"\x80", b"\xff\xff", &too_long] {
            let record = sealed(body);
            assert_eq!(parts(&record), None, "{record:?}");
            assert_eq!(value(&record, b"key"), Err(Damaged), "{record:?}");
        }
        // The length says more than there is.
        let record = sealed(b"\x04key");
        assert_eq!((parts(&record), value(&record, b"key")), (None, Ok(None)));
    }
}
