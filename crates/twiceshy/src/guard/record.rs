//! What a store has for a key: the key, so that an answer is exact, and its value.
//!
//! ```text
//! | length of the key | key | value |
//!   1 byte below 128: 7 bits a byte, the lowest first, and the highest bit set in
//!   all but the last
//! ```
//!
//! A byte counts: the smaller the records, the more of them a store's cache has.

/// Which layout this is. In layout 0 the length had four bytes.
pub(super) const LAYOUT: u64 = 1;

/// Bits of the length in a byte.
const BITS: u32 = 7;
/// That another byte of the length follows.
const MORE: u8 = 1 << BITS;

pub(super) fn encode(key: &[u8], value: &[u8]) -> Vec<u8> {
    let digits = key.len().checked_ilog2().map_or(1, |bits| 1 + (bits / BITS) as usize);
    let mut record = Vec::with_capacity(digits + key.len() + value.len());
    let mut length = key.len();
    while length >= usize::from(MORE) {
        record.push(length as u8 | MORE);
        length >>= BITS;
    }
    record.push(length as u8);
    record.extend_from_slice(key);
    record.extend_from_slice(value);
    record
}

/// The length of a record's key, and what follows it; `None` for a damaged one.
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

/// The key of a record; `None` for a damaged one.
pub(super) fn key(record: &[u8]) -> Option<&[u8]> {
    let (length, rest) = length(record)?;
    rest.get(..length)
}

/// The value of a record, if it is this key's.
///
/// Where the value is follows from the key that was asked for, not from what the
/// record says: a processor then waits once for memory, not first for the length and
/// then for the value.
#[inline]
pub(super) fn value<'a>(record: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let (length, rest) = length(record)?;
    if length == key.len() { rest.strip_prefix(key) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_these_bytes() {
        assert_eq!(encode(b"", b""), [0]);
        assert_eq!(encode(b"key", b"value"), b"\x03keyvalue");
        assert_eq!(encode(&[b'k'; 127], b"v"), [&[0x7f][..], &[b'k'; 127], b"v"].concat());
        assert_eq!(encode(&[b'k'; 128], b"v"), [&[0x80, 1][..], &[b'k'; 128], b"v"].concat());
        let long = [b'k'; 0x1_2345];
        assert_eq!(encode(&long, b"v"), [&[0xc5, 0xc6, 4][..], &long, b"v"].concat());
    }

    #[test]
    fn a_record_gives_its_key_and_to_nobody_else_its_value() {
        for length in [0, 1, 2, 126, 127, 128, 129, 300, (1 << 14) - 1, 1 << 14, 1 << 21] {
            let own: Vec<u8> = (0..length).map(|at| at as u8).collect();
            for stored in [&b""[..], b"v", &[7; 1000]] {
                let record = encode(&own, stored);
                assert_eq!(key(&record), Some(&own[..]));
                assert_eq!(value(&record, &own), Some(stored));
                // Keys that the record's bytes would be right for, were it not for the
                // length: the value's first byte more, the key's last byte less.
                let longer = [&own[..], &stored[..stored.len().min(1)]].concat();
                assert_eq!(value(&record, &longer).is_some(), longer == own);
                if let Some((last, shorter)) = own.split_last() {
                    assert_eq!(value(&record, shorter), None);
                    let other = [shorter, &[!last]].concat();
                    assert_eq!(value(&record, &other), None);
                }
            }
        }
    }

    #[test]
    fn damaged_records_are_nobodys() {
        let too_long = [&[0xff; 10][..], b"\x7fkey"].concat();
        for record in [&b""[..], b"\x04key", b"\x80", b"\xff\xff", &too_long] {
            assert_eq!(key(record), None, "{record:?}");
            assert_eq!(value(record, b"key"), None, "{record:?}");
        }
    }
}
