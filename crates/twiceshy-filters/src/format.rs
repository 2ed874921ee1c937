//! The file format: the only code that knows the bytes on disk.
//!
//! ```text
//! 0    8   magic "twiceshy"
//! 8    4   version: 1, or that of a kind whose body has changed
//! 12   4   length of the kind
//! 16   ..  kind: what the body is ("cyclic:f=7,s=1,...", "mirror", ...)
//! ..   ..  body: numbers and byte blocks, in the order of their kind
//! ..   8   XXH3-64 of everything before
//! ```
//!
//! Numbers are little-endian; a block is its length (8 bytes) and its bytes. `docs/format.md`
//! lists the bodies. A reader never allocates more than its input justifies.

use alloc::format;
use alloc::vec::Vec;
use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, Result};

const MAGIC: &[u8; 8] = b"twiceshy";
/// The version of kinds whose body never changed, and the oldest of the others.
pub(crate) const FIRST_VERSION: u32 = 1;
/// Kinds whose body has changed, by how they begin, and the version of those written now.
const CHANGED: [(&str, u32); 1] = [("cyclic:", 2)];
const NEWEST_VERSION: u32 = 2;
const CHECKSUM_BYTES: usize = 8;

/// The newest version of a kind.
fn newest(kind: &str) -> u32 {
    let changed = CHANGED.iter().find(|(start, _)| kind.starts_with(start));
    changed.map_or(FIRST_VERSION, |&(_, version)| version)
}

/// Writes one file.
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn new(kind: &str) -> Self {
        Self::of_version(kind, FIRST_VERSION)
    }

    /// A file of a kind whose body depends on the version.
    pub(crate) fn of_version(kind: &str, version: u32) -> Self {
        debug_assert!(version <= newest(kind), "{kind} has no version {version}");
        let mut writer = Writer { bytes: MAGIC.to_vec() };
        writer.u32(version);
        writer.u32(u32::try_from(kind.len()).expect("a kind is a short text"));
        writer.bytes.extend_from_slice(kind.as_bytes());
        writer
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub fn block(&mut self, bytes: &[u8]) {
        self.u64(bytes.len() as u64);
        self.bytes.extend_from_slice(bytes);
    }

    pub fn finish(mut self) -> Vec<u8> {
        let checksum = xxh3_64(&self.bytes);
        self.u64(checksum);
        self.bytes
    }
}

/// Reads one file; every error says what is wrong with it.
pub struct Reader<'a> {
    kind: &'a str,
    version: u32,
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Verifies magic, version and checksum.
    pub fn open(bytes: &'a [u8]) -> Result<Self> {
        let Some(after_magic) = bytes.strip_prefix(MAGIC) else {
            return Err(Error::format("it does not start with \"twiceshy\""));
        };
        let mut reader = Reader { kind: "", version: 0, rest: after_magic };
        reader.version = reader.u32("the version")?;
        reader.expect_version(NEWEST_VERSION)?;
        let Some(body) = reader.rest.len().checked_sub(CHECKSUM_BYTES) else {
            return Err(cut_short("the checksum"));
        };
        let (rest, checksum) = reader.rest.split_at(body);
        reader.rest = rest;
        let expected = xxh3_64(&bytes[..bytes.len() - CHECKSUM_BYTES]);
        if checksum != expected.to_le_bytes() {
            return Err(Error::format(
                "its checksum is wrong: it was cut short or damaged; restore it or build the \
                 filter again from its remote",
            ));
        }
        let kind_len = reader.u32("the kind's length")? as usize;
        reader.kind = core::str::from_utf8(reader.take(kind_len, "the kind")?)
            .map_err(|_| Error::format("its kind is not UTF-8"))?;
        reader.expect_version(newest(reader.kind))?;
        Ok(reader)
    }

    fn expect_version(&self, newest: u32) -> Result<()> {
        let version = self.version;
        if (FIRST_VERSION..=newest).contains(&version) {
            return Ok(());
        }
        Err(Error::format(format!(
            "it has format version {version}, this library reads versions up to {newest}; \
             use a library that is as new as the file"
        )))
    }

    /// The version of its body.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// What the file holds.
    pub fn kind(&self) -> &'a str {
        self.kind
    }

    pub fn expect_kind(&self, kind: &str) -> Result<()> {
        if self.kind == kind {
            return Ok(());
        }
        Err(Error::format(format!("it holds \"{}\" where \"{kind}\" is expected", self.kind)))
    }

    pub fn u32(&mut self, what: &str) -> Result<u32> {
        let four = self.take(4, what)?;
        Ok(u32::from_le_bytes(four.try_into().expect("four bytes")))
    }

    pub fn u64(&mut self, what: &str) -> Result<u64> {
        let eight = self.take(8, what)?;
        Ok(u64::from_le_bytes(eight.try_into().expect("eight bytes")))
    }

    /// A number that fits a `usize`.
    pub fn size(&mut self, what: &str) -> Result<usize> {
        let value = self.u64(what)?;
        usize::try_from(value)
            .map_err(|_| Error::format(format!("{what} ({value}) is too large for this machine")))
    }

    /// A counter of events, below 2^56: a larger one could overflow.
    pub fn counter(&mut self, what: &str) -> Result<u64> {
        let count = self.u64(what)?;
        if count >> 56 != 0 {
            return Err(Error::format(format!("{what} are {count}, more than can have happened")));
        }
        Ok(count)
    }

    /// The number of items that follow, each of at least `bytes_each` bytes: never more than the
    /// rest of the file can hold.
    pub fn count(&mut self, what: &str, bytes_each: usize) -> Result<usize> {
        let count = self.size(what)?;
        let room = self.rest.len() / bytes_each;
        if count > room {
            return Err(Error::format(format!(
                "it announces {count} {what} and has room for {room}"
            )));
        }
        Ok(count)
    }

    pub fn block(&mut self, what: &str) -> Result<&'a [u8]> {
        let len = self.size(what)?;
        self.take(len, what)
    }

    /// Verifies that nothing is left.
    pub fn finish(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Error::format(format!("{} bytes too many at its end", self.rest.len())))
    }

    fn take(&mut self, len: usize, what: &str) -> Result<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(|| cut_short(what))?;
        self.rest = rest;
        Ok(taken)
    }
}

fn cut_short(what: &str) -> Error {
    Error::format(format!("it ends within {what}"))
}

/// Replaces the checksum at the end of `bytes` by the correct one, so that fuzzers and tests
/// reach the code behind it.
#[doc(hidden)]
pub fn seal(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len().saturating_sub(CHECKSUM_BYTES));
    let checksum = xxh3_64(bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_file_written_by_hand() {
        let mut bytes =
            b"twiceshy\x01\0\0\0\x03\0\0\0abc\x07\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0hi".to_vec();
        bytes.extend_from_slice(&[0; 8]);
        seal(&mut bytes);
        let mut reader = Reader::open(&bytes).expect("a whole file");
        assert_eq!(reader.kind(), "abc");
        assert_eq!(reader.u64("seven").expect("a number"), 7);
        assert_eq!(reader.block("text").expect("a block"), b"hi");
        reader.finish().expect("nothing left");

        let mut writer = Writer::new("abc");
        writer.u64(7);
        writer.block(b"hi");
        assert_eq!(writer.finish(), bytes);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let mut writer = Writer::new("abc");
        writer.u64(7);
        writer.block(b"some bytes");
        let whole = writer.finish();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Reader::open(&flipped).is_err(), "bit {bit}");
        }
        for len in 0..whole.len() {
            assert!(Reader::open(&whole[..len]).is_err(), "cut to {len} bytes");
        }
    }

    #[test]
    fn a_newer_version_says_so() {
        for (kind, version) in [("abc", 0), ("abc", 2), ("abc", 3), ("cyclic:f=8", 3)] {
            let mut bytes = Writer::new(kind).finish();
            bytes[8] = version;
            seal(&mut bytes);
            let error = Reader::open(&bytes).err().expect("another version").to_string();
            assert!(error.contains(&format!("format version {version}")), "{error}");
        }
        for version in [1, 2] {
            let bytes = Writer::of_version("cyclic:f=8", version).finish();
            assert_eq!(Reader::open(&bytes).expect("a known version").version(), version);
        }
    }

    #[test]
    fn announced_sizes_are_checked_before_anything_is_allocated() {
        let mut writer = Writer::new("mirror");
        writer.u64(u64::MAX);
        let bytes = writer.finish();
        let mut reader = Reader::open(&bytes).expect("a whole file");
        assert!(reader.count("digests", 16).is_err());
        let mut reader = Reader::open(&bytes).expect("a whole file");
        assert!(reader.block("cells").is_err());
    }
}
