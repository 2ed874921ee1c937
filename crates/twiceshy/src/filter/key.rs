//! Keys as bytes.

/// A key: bytes, text, an integer, or a tuple of keys.
///
/// A filter sees only the bytes of a key's *encoding*, which is the same on every platform
/// and in every version:
///
/// | key | encoding |
/// | --- | --- |
/// | `[u8]`, `[u8; N]`, `Vec<u8>` | its bytes |
/// | `str`, `String` | its UTF-8 bytes: `"a"` and `b"a"` are the same key |
/// | an integer from 0 to 2^64 - 1 | 8 bytes, little-endian |
/// | any other that an `i128` can hold | 16 bytes, two's complement, little-endian |
/// | a `u128` from 2^127 on | 16 bytes, little-endian, and a zero |
/// | a tuple | for each part the length of its encoding (8 bytes, little-endian) and the encoding |
///
/// Two different keys of one type never have the same encoding, and a number is the same key in
/// every integer type: `1u8`, `1i32` and `1u64` are one key, and `-1i64` differs from
/// `u64::MAX`. Keys of different *kinds* may have the same encoding: `1` is the same key as
/// `b"\x01\0\0\0\0\0\0\0"`. If a filter holds several kinds, distinguish them with a tuple such
/// as `("user", 17)`.
///
/// Bytes, text and integers are encoded without an allocation.
///
/// ```
/// let mut filter = twiceshy::Filter::new(1000)?;
/// filter.insert(7u8);
/// assert!(filter.contains(7i64));
/// filter.insert(("user", 17));
/// assert!(filter.contains((String::from("user"), 17u64)));
/// # Ok::<(), twiceshy::Error>(())
/// ```
///
/// Implement it for your own type with the keys that it consists of:
///
/// ```
/// struct Session { user: u64, token: [u8; 16] }
///
/// impl twiceshy::Key for Session {
///     fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
///         (self.user, self.token).encode(take)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key of a filter",
    note = "keys are bytes, text, integers and tuples of them; implement `twiceshy::Key` for others"
)]
pub trait Key {
    /// Calls `take` with the encoding.
    fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T;
}

impl<K: Key + ?Sized> Key for &K {
    #[inline]
    fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        (**self).encode(take)
    }
}

impl Key for [u8] {
    #[inline]
    fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        take(self)
    }
}

impl<const N: usize> Key for [u8; N] {
    #[inline]
    fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        take(self)
    }
}

impl Key for Vec<u8> {
    #[inline]
    fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        take(self)
    }
}

impl Key for str {
    #[inline]
    fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        take(self.as_bytes())
    }
}

impl Key for String {
    #[inline]
    fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
        take(self.as_bytes())
    }
}

/// Integers of any type: what a number encodes to depends on its value only.
macro_rules! integers {
    ($($integer:ty)*) => { $(
        impl Key for $integer {
            #[inline]
            #[allow(irrefutable_let_patterns, reason = "of the shorter types")]
            fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
                if let Ok(small) = u64::try_from(*self) {
                    take(&small.to_le_bytes())
                } else if let Ok(signed) = i128::try_from(*self) {
                    take(&signed.to_le_bytes())
                } else {
                    // Only an `u128` is left, and the bytes of a negative number are as long.
                    let mut bytes = [0; 17];
                    bytes[..16].copy_from_slice(&(*self as u128).to_le_bytes());
                    take(&bytes)
                }
            }
        }
    )* };
}

integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// Appends a part of a tuple: its length and its encoding.
fn push(bytes: &mut Vec<u8>, part: &impl Key) {
    part.encode(|part| {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
        bytes.extend_from_slice(part);
    });
}

macro_rules! tuples {
    ($($(($key:ident, $part:tt))+;)*) => { $(
        impl<$($key: Key),+> Key for ($($key,)+) {
            fn encode<T>(&self, take: impl FnOnce(&[u8]) -> T) -> T {
                let mut bytes = Vec::new();
                $( push(&mut bytes, &self.$part); )+
                take(&bytes)
            }
        }
    )* };
}

tuples! {
    (A, 0) (B, 1);
    (A, 0) (B, 1) (C, 2);
    (A, 0) (B, 1) (C, 2) (D, 3);
    (A, 0) (B, 1) (C, 2) (D, 3) (E, 4);
    (A, 0) (B, 1) (C, 2) (D, 3) (E, 4) (F, 5);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn encoded(key: impl Key) -> Vec<u8> {
        key.encode(<[u8]>::to_vec)
    }

    /// Written by hand: files depend on these bytes.
    #[test]
    fn golden_encodings() {
        assert_eq!(encoded("añ"), b"a\xc3\xb1");
        assert_eq!(encoded(String::from("a")), b"a");
        assert_eq!(encoded(b"a\0"), b"a\0");
        assert_eq!(encoded(vec![7, 8]), [7, 8]);
        assert_eq!(encoded(&[1u8, 2][..]), [1, 2]);
        assert_eq!(encoded(0x0102_0304u32), [4, 3, 2, 1, 0, 0, 0, 0]);
        assert_eq!(encoded(u64::MAX), [255; 8]);
        assert_eq!(encoded(-1i8), [255; 16]);
        assert_eq!(encoded(i64::MIN), [&[0; 7][..], &[128], &[255; 8]].concat());
        assert_eq!(encoded(1u128 << 64), [&[0; 8][..], &[1], &[0; 7]].concat());
        assert_eq!(encoded(i128::MIN), [&[0; 15][..], &[128]].concat());
        assert_eq!(encoded(u128::MAX), [&[255; 16][..], &[0]].concat());
        let pair = b"\x02\0\0\0\0\0\0\0ab\x08\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0";
        assert_eq!(encoded(("ab", 5)), pair);
    }

    #[test]
    fn a_number_is_one_key_whatever_its_type() {
        let seven = encoded(7u8);
        let others = [encoded(7u16), encoded(7u32), encoded(7u64), encoded(7u128), encoded(7usize)];
        assert!(others.iter().all(|other| *other == seven));
        let signed = [encoded(7i8), encoded(7i16), encoded(7i32), encoded(7i64), encoded(7isize)];
        assert!(signed.iter().all(|other| *other == seven) && encoded(7i128) == seven);
        assert_eq!(encoded(-7i8), encoded(-7i128));
        assert_eq!(encoded(u64::MAX), encoded(u128::from(u64::MAX)));
    }

    /// Numbers around every border, each in the widest types that can hold it.
    #[test]
    fn different_numbers_never_encode_alike() {
        let borders = (0..128).map(|bit| 1u128 << bit);
        let unsigned: HashSet<u128> = borders
            .flat_map(|border| [border - 1, border, border + 1, border.wrapping_neg()])
            .collect();
        let negative: HashSet<i128> = (0..127)
            .map(|bit| -1i128 << bit)
            .flat_map(|border| [border, border + 1, border.saturating_sub(1)])
            .filter(|number| *number < 0)
            .chain([i128::MIN])
            .collect();
        let encodings: HashSet<Vec<u8>> =
            unsigned.iter().map(encoded).chain(negative.iter().map(encoded)).collect();
        assert_eq!(encodings.len(), unsigned.len() + negative.len());
    }

    #[test]
    fn different_tuples_never_encode_alike() {
        let words = ["", "a", "b", "ab", "\0", "\u{1}\0\0\0\0\0\0\0"];
        let pairs = words.iter().flat_map(|a| words.map(|b| (*a, b)));
        let triples = words.iter().flat_map(|a| words.map(|b| (*a, b, "a")));
        let nested = words.iter().flat_map(|a| words.map(|b| ((*a, b), "a")));
        let encodings: HashSet<Vec<u8>> =
            pairs.map(encoded).chain(triples.map(encoded)).chain(nested.map(encoded)).collect();
        assert_eq!(encodings.len(), 3 * 36);
    }
}
