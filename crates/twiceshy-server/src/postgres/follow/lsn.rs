//! [`Lsn`]: a position in PostgreSQL's log.

use std::fmt;
use std::str::FromStr;

/// A position in the log, in bytes. Its text is PostgreSQL's: `16/B374D848`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lsn(pub(crate) u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xffff_ffff)
    }
}

impl FromStr for Lsn {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let half = |text: &str| {
            let digits =
                (1..=8).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_hexdigit());
            digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
        };
        let halves = text.split_once('/').and_then(|(high, low)| half(high).zip(half(low)));
        halves.map(|(high, low)| Lsn(high << 32 | low)).ok_or_else(|| {
            format!(
                "{text:?} is no position of PostgreSQL's log; it looks like 16/B374D848, as \
                 pg_current_wal_insert_lsn() returns it"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_written_as_postgresql_writes_them() {
        for (text, lsn) in [
            ("0/0", Lsn(0)),
            ("16/B374D848", Lsn(0x16_b374_d848)),
            ("FFFFFFFF/FFFFFFFF", Lsn(u64::MAX)),
        ] {
            assert_eq!(text.parse(), Ok(lsn));
            assert_eq!(lsn.to_string(), text);
        }
        assert_eq!("a/b".parse(), Ok(Lsn(0xa_0000_000b)));
        for text in ["", "/", "1", "1/", "/1", "1/2/3", "123456789/0", "+1/0", "0x1/0", "g/0"] {
            assert!(text.parse::<Lsn>().is_err(), "{text}");
        }
    }
}
