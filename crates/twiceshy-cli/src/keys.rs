//! Keys from a file or standard input, many at a time and none copied.
//!
//! ```text
//! lines   key \n key \n key [\n]             a key is a line's bytes, whatever they are
//! lp32    length (u32, little-endian) key    also for keys with newlines
//!
//! buffer  | answered | whole keys: the batch | a key that goes on | not read yet |
//!                    start                   next                 end
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use twiceshy::{Digest, KeyHasher};

/// How keys follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// A key a line: its bytes without the newline, of any encoding
    Lines,
    /// Each key behind its length in bytes, 32 bits, little-endian
    Lp32,
}

/// Bytes asked for at a time.
const CHUNK: usize = 1 << 20;

/// Bytes of a length in [`Format::Lp32`].
const PREFIX: usize = size_of::<u32>();

/// The name of standard input.
const STDIN: &str = "-";

/// Whether keys come from standard input.
pub fn is_stdin(path: Option<&Path>) -> bool {
    path.is_none_or(|path| path.as_os_str() == STDIN)
}

/// A source of keys.
pub struct Keys {
    source: Box<dyn Read>,
    /// For messages.
    name: String,
    format: Format,
    /// Its bytes, if it is a regular file.
    size: Option<u64>,
    buffer: Vec<u8>,
    /// The first byte that belongs to no key given out yet.
    next: usize,
    /// Behind the last byte that was read.
    end: usize,
    /// Up to where the buffer was searched for newlines.
    searched: usize,
    /// The keys of the last batch.
    ranges: Vec<Range<usize>>,
}

impl Keys {
    /// The keys in a file, or on standard input for `None` and "-".
    ///
    /// # Errors
    /// A file that cannot be opened.
    pub fn open(path: Option<&Path>, format: Format) -> Result<Self, Box<dyn Error>> {
        let Some(path) = path.filter(|_| !is_stdin(path)) else {
            return Ok(Self::new(Box::new(io::stdin()), "standard input".into(), None, format));
        };
        let name = PathBuf::from(path).display().to_string();
        let opened = File::open(path).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, metadata))
        });
        let (file, metadata) = opened.map_err(|error| format!("cannot read {name}: {error}"))?;
        let size = metadata.is_file().then_some(metadata.len());
        Ok(Self::new(Box::new(file), name, size, format))
    }

    fn new(source: Box<dyn Read>, name: String, size: Option<u64>, format: Format) -> Self {
        let [next, end, searched] = [0; 3];
        Keys { source, name, format, size, buffer: vec![], next, end, searched, ranges: vec![] }
    }

    /// Its bytes, if that is known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next keys, at least one; `None` after the last. What has arrived is
    /// given out at once, so that a pipe that goes on and on is answered.
    ///
    /// # Errors
    /// A failed read, or a last key that is cut short.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, Box<dyn Error>> {
        let start = self.next;
        self.buffer.copy_within(start..self.end, 0);
        self.next = 0;
        self.end -= start;
        self.searched -= start;
        self.ranges.clear();
        while self.ranges.is_empty() {
            let ended = self.read_more()? == 0;
            match self.format {
                Format::Lines => self.cut_lines(ended),
                Format::Lp32 => self.cut_prefixed(),
            }
            if ended {
                break;
            }
        }
        if self.ranges.is_empty() {
            return self.check_end().map(|()| None);
        }
        Ok(Some(Batch { buffer: &self.buffer, ranges: &self.ranges, bytes: self.next }))
    }

    /// Every key's digest.
    ///
    /// # Errors
    /// Those of [`Keys::next_batch`].
    pub fn digests(
        mut self,
        hasher: &KeyHasher,
        mut progress: impl FnMut(usize),
    ) -> Result<Vec<Digest>, Box<dyn Error>> {
        let mut digests = Vec::new();
        while let Some(batch) = self.next_batch()? {
            digests.extend(batch.keys().map(|key| hasher.digest(key)));
            progress(batch.bytes);
        }
        Ok(digests)
    }

    /// Reads what is there; 0 at the end. The buffer grows with what has been
    /// read, never with what a length announces.
    fn read_more(&mut self) -> Result<usize, Box<dyn Error>> {
        if self.buffer.len() - self.end < CHUNK / 2 {
            let larger = (2 * self.buffer.len()).max(CHUNK);
            self.buffer.resize(larger, 0);
        }
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("cannot read {}: {error}", self.name).into()),
            }
        }
    }

    /// Cuts whole lines; at the end also one without a newline.
    fn cut_lines(&mut self, ended: bool) {
        for at in memchr::memchr_iter(b'\n', &self.buffer[self.searched..self.end]) {
            let newline = self.searched + at;
            self.ranges.push(self.next..newline);
            self.next = newline + 1;
        }
        self.searched = self.end;
        if ended && self.next < self.end {
            self.ranges.push(self.next..self.end);
            self.next = self.end;
        }
    }

    /// Cuts whole keys behind their lengths.
    fn cut_prefixed(&mut self) {
        while let Some((length, rest)) = self.announced() {
            if rest < length {
                break;
            }
            let key = self.next + PREFIX..self.next + PREFIX + length;
            self.next = key.end;
            self.ranges.push(key);
        }
        self.searched = self.end;
    }

    /// The length of the next key, and how many bytes have come behind it.
    fn announced(&self) -> Option<(usize, usize)> {
        let (prefix, rest) = self.buffer[self.next..self.end].split_first_chunk::<PREFIX>()?;
        let length = u32::from_le_bytes(*prefix);
        Some((usize::try_from(length).expect("32 bits are a size"), rest.len()))
    }

    /// An error if a key was begun and not ended.
    fn check_end(&self) -> Result<(), Box<dyn Error>> {
        let name = &self.name;
        match self.announced() {
            _ if self.next == self.end => Ok(()),
            Some((length, rest)) => Err(format!(
                "{name} ends within a key: its length says {length} bytes and {rest} are left; \
                 is it really --format lp32?"
            )
            .into()),
            None => {
                Err(format!("{name} ends within a key's length; is it really --format lp32?")
                    .into())
            }
        }
    }
}

/// Some keys.
pub struct Batch<'a> {
    buffer: &'a [u8],
    ranges: &'a [Range<usize>],
    /// Bytes of input that they came in.
    bytes: usize,
}

impl<'a> Batch<'a> {
    /// They themselves.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> + Clone + use<'a> {
        let buffer = self.buffer;
        self.ranges.iter().map(move |range| &buffer[range.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time, as a pipe may.
    struct Drops {
        bytes: Vec<u8>,
        at: usize,
        most: usize,
    }

    impl Read for Drops {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.most.min(self.bytes.len() - self.at).min(buffer.len());
            buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
            self.at += count;
            Ok(count)
        }
    }

    fn read(bytes: &[u8], most: usize, format: Format) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
        let drops = Drops { bytes: bytes.to_vec(), at: 0, most };
        let mut keys = Keys::new(Box::new(drops), "test".into(), None, format);
        let (mut all, mut consumed) = (Vec::new(), 0);
        while let Some(batch) = keys.next_batch()? {
            all.extend(batch.keys().map(<[u8]>::to_vec));
            consumed += batch.bytes;
        }
        assert_eq!(consumed, bytes.len());
        Ok(all)
    }

    #[test]
    fn lines_are_cut_at_newlines_wherever_reads_end() {
        let long = vec![b'x'; 3000];
        let text = [b"a\n\nb\r\n\xff\0\n", &long[..], b"\nlast"].concat();
        let expected: Vec<&[u8]> = vec![b"a", b"", b"b\r", b"\xff\0", &long, b"last"];
        for most in [1, 2, 3, 7, 1000, usize::MAX] {
            assert_eq!(read(&text, most, Format::Lines).expect("lines"), expected, "{most}");
            let closed = [&text[..], b"\n"].concat();
            assert_eq!(read(&closed, most, Format::Lines).expect("lines"), expected, "{most}");
        }
        assert!(read(b"", 1, Format::Lines).expect("nothing").is_empty());
        assert_eq!(read(b"\n", 1, Format::Lines).expect("one empty key"), [b""]);
    }

    #[test]
    fn prefixed_keys_may_hold_anything() {
        let text = b"\x02\0\0\0a\n\0\0\0\0\x01\0\0\0\xff";
        for most in [1, 2, 3, 7, usize::MAX] {
            let expected: [&[u8]; 3] = [b"a\n", b"", b"\xff"];
            assert_eq!(read(text, most, Format::Lp32).expect("keys"), expected, "{most}");
        }
        assert!(read(b"", 1, Format::Lp32).expect("nothing").is_empty());
    }

    #[test]
    fn keys_larger_than_the_buffer_are_whole() {
        let long = vec![7; 3 * CHUNK + 5];
        let length = u32::try_from(long.len()).expect("short").to_le_bytes();
        let prefixed = [&length[..], &long, &[1, 0, 0, 0, 9]].concat();
        let lines = [&long[..], b"\n\x09"].concat();
        for (bytes, format) in [(prefixed, Format::Lp32), (lines, Format::Lines)] {
            let keys = read(&bytes, 1 << 16, format).expect("keys");
            assert_eq!(keys, [&long[..], &[9]], "{format:?}");
        }
    }

    #[test]
    fn what_a_length_announces_is_not_allocated() {
        let drops = Drops { bytes: vec![0xff; 100], at: 0, most: 10 };
        let mut keys = Keys::new(Box::new(drops), "test".into(), None, Format::Lp32);
        let error = keys.next_batch().err().expect("a key of 4 GiB in 96 bytes").to_string();
        assert!(error.contains("4294967295") && error.contains("96 are left"), "{error}");
        assert_eq!(keys.buffer.capacity(), CHUNK);
    }

    #[test]
    fn keys_cut_short_are_errors() {
        for bytes in [&b"\x01\0\0"[..], b"\x01\0\0\0", b"\x01\0\0\0a\x02\0\0\0b"] {
            let error = read(bytes, 3, Format::Lp32).expect_err("cut short").to_string();
            assert!(error.contains("ends within a key") && error.contains("lp32"), "{error}");
        }
    }
}
