//! Keys from a file or standard input, many at a time and none copied.
//!
//! ```text
//! lines   key \n key \r\n key [\n]           text of any encoding; blank lines are counted
//! lp32    length (u32, little-endian) key    keys of any bytes, the empty key too
//!
//! buffer  | answered | whole keys: the batch | a key that goes on | not read yet |
//!                    start                   next                 end
//! ```
//!
//! What is compressed with gzip or zstd is decompressed. Lines need not be UTF-8, but a NUL
//! byte is refused: it shows that the input is not text, such as another kind of archive,
//! whose pieces between newlines would pass for keys.

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};

use twiceshy_filters::{Digest, KeyHasher};
use twiceshy_lab::compression::Compression;

use crate::table::count;

/// How keys follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// One key per line, ended by LF or CRLF: text of any encoding. Blank lines are no keys,
    /// and NUL bytes are refused
    Lines,
    /// Each key behind its length in bytes, 32 bits, little-endian: for keys of any bytes
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

/// How blank lines are told of, behind another count: nothing if there are none.
pub fn blank(lines: u64) -> String {
    match lines {
        0 => String::new(),
        1 => " and 1 blank line".into(),
        lines => format!(" and {} blank lines", count(lines)),
    }
}

/// A source of keys.
pub struct Keys {
    source: Box<dyn Read>,
    /// For messages.
    name: String,
    format: Format,
    /// Its bytes, if it is a regular file that is not compressed.
    size: Option<u64>,
    /// Lines that were cut, and those of them that were blank.
    lines: u64,
    blank: u64,
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
    /// A file that cannot be opened, or is compressed in a way that we cannot read.
    pub fn open(path: Option<&Path>, format: Format) -> Result<Self, Box<dyn Error>> {
        let Some(path) = path.filter(|_| !is_stdin(path)) else {
            return Self::sniffed(io::stdin(), "standard input".into(), None, format);
        };
        let name = PathBuf::from(path).display().to_string();
        let opened = File::open(path).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, metadata))
        });
        let (file, metadata) = opened.map_err(|error| format!("cannot read {name}: {error}"))?;
        match Compression::of_name(path) {
            Compression::None => {
                let size = metadata.is_file().then_some(metadata.len());
                Self::sniffed(file, name, size, format)
            }
            compression => Ok(Self::new(compression.decompressed(file), name, None, format)),
        }
    }

    /// The keys of a source whose name does not say whether it is compressed.
    fn sniffed(
        source: impl Read + Send + 'static,
        name: String,
        size: Option<u64>,
        format: Format,
    ) -> Result<Self, Box<dyn Error>> {
        let told = Compression::of_content(source);
        let (compression, source) = told.map_err(|error| format!("cannot read {name}: {error}"))?;
        let size = size.filter(|_| compression == Compression::None);
        Ok(Self::new(compression.decompressed(source), name, size, format))
    }

    fn new(source: Box<dyn Read>, name: String, size: Option<u64>, format: Format) -> Self {
        let [next, end, searched] = [0; 3];
        let [lines, blank] = [0; 2];
        let (buffer, ranges) = (vec![], vec![]);
        Keys { source, name, format, size, lines, blank, buffer, next, end, searched, ranges }
    }

    /// Its bytes, if that is known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Blank lines so far, which are no keys.
    pub fn blank_lines(&self) -> u64 {
        self.blank
    }

    /// The next keys, at least one; `None` after the last. What has arrived is
    /// given out at once, so that a pipe that goes on and on is answered.
    ///
    /// # Errors
    /// A failed read, a NUL byte in a line, or a last key that is cut short.
    pub fn next_batch(&mut self) -> Result<Option<Batch<'_>>, Box<dyn Error>> {
        self.forget();
        self.ranges.clear();
        let mut skipped = 0;
        while self.ranges.is_empty() {
            // Blank lines, however many there are, take no room.
            skipped += self.forget();
            let ended = self.read_more()? == 0;
            match self.format {
                Format::Lines if ended => self.cut_last_line(),
                Format::Lines => self.cut_lines()?,
                Format::Lp32 => self.cut_prefixed(),
            }
            if ended {
                break;
            }
        }
        if self.ranges.is_empty() {
            return self.check_end().map(|()| None);
        }
        let bytes = skipped + self.next;
        Ok(Some(Batch { buffer: &self.buffer, ranges: &self.ranges, bytes }))
    }

    /// Makes room of what was given out or skipped; returns how many bytes that was.
    fn forget(&mut self) -> usize {
        let done = std::mem::take(&mut self.next);
        self.buffer.copy_within(done..self.end, 0);
        self.end -= done;
        self.searched -= done;
        done
    }

    /// Every key's digest, and how many blank lines there were.
    ///
    /// # Errors
    /// Those of [`Keys::next_batch`].
    pub fn digests(
        mut self,
        hasher: &KeyHasher,
        mut progress: impl FnMut(usize),
    ) -> Result<(Vec<Digest>, u64), Box<dyn Error>> {
        let mut digests = Vec::new();
        while let Some(batch) = self.next_batch()? {
            digests.extend(batch.keys().map(|key| hasher.digest(key)));
            progress(batch.bytes);
        }
        Ok((digests, self.blank))
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

    /// Cuts whole lines.
    fn cut_lines(&mut self) -> Result<(), Box<dyn Error>> {
        let new = self.searched..self.end;
        if memchr::memchr(0, &self.buffer[new.clone()]).is_some() {
            return Err(self.binary(new));
        }
        let searched = self.searched;
        for at in memchr::memchr_iter(b'\n', &self.buffer[new]) {
            let line = self.next..searched + at;
            self.next = line.end + 1;
            self.lines += 1;
            match key_length(&self.buffer[line.clone()]) {
                0 => self.blank += 1,
                length => self.ranges.push(line.start..line.start + length),
            }
        }
        self.searched = self.end;
        Ok(())
    }

    /// Cuts a last line that has no newline.
    fn cut_last_line(&mut self) {
        let line = std::mem::replace(&mut self.next, self.end)..self.end;
        match key_length(&self.buffer[line.clone()]) {
            _ if line.is_empty() => (),
            0 => self.blank += 1,
            length => self.ranges.push(line.start..line.start + length),
        }
    }

    /// The error of a NUL byte in what was read last.
    fn binary(&self, new: Range<usize>) -> Box<dyn Error> {
        let new = &self.buffer[new];
        let nul = memchr::memchr(0, new).unwrap_or(0);
        let line = self.lines + 1 + memchr::memchr_iter(b'\n', &new[..nul]).count() as u64;
        format!(
            "{} is not text: there is a NUL byte in line {line}. For binary keys use --format \
             lp32. If it is compressed, with something other than gzip or zstd, decompress it \
             first",
            self.name
        )
        .into()
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

/// The bytes of a line that are its key: all but the CR of a CRLF.
fn key_length(line: &[u8]) -> usize {
    line.strip_suffix(b"\r").unwrap_or(line).len()
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
        // Blank lines behind the last key are in no batch.
        let rest = bytes.iter().rev().take_while(|byte| b"\r\n".contains(byte)).count();
        assert!((bytes.len() - rest..=bytes.len()).contains(&consumed), "{consumed}");
        Ok(all)
    }

    fn blank_lines(bytes: &[u8]) -> u64 {
        let drops = Drops { bytes: bytes.to_vec(), at: 0, most: 3 };
        let mut keys = Keys::new(Box::new(drops), "test".into(), None, Format::Lines);
        while keys.next_batch().expect("text").is_some() {}
        keys.blank_lines()
    }

    #[test]
    fn lines_are_cut_at_newlines_wherever_reads_end() {
        let long = vec![b'x'; 3000];
        let text = [b"a\n\nb\r\n\r\n\xff\r\x01\r\r\n", &long[..], b"\nlast"].concat();
        let expected: Vec<&[u8]> = vec![b"a", b"b", b"\xff\r\x01\r", &long, b"last"];
        for most in [1, 2, 3, 7, 1000, usize::MAX] {
            assert_eq!(read(&text, most, Format::Lines).expect("lines"), expected, "{most}");
            let closed = [&text[..], b"\n"].concat();
            assert_eq!(read(&closed, most, Format::Lines).expect("lines"), expected, "{most}");
        }
        assert!(read(b"", 1, Format::Lines).expect("nothing").is_empty());
        assert!(read(b"\n", 1, Format::Lines).expect("no key").is_empty());
        assert_eq!(read(b"last\r", 1, Format::Lines).expect("one key"), [b"last"]);
        assert_eq!(blank_lines(&text), 2);
        assert_eq!(blank_lines(b"\n\n\r\na\n\n\r"), 5);
    }

    #[test]
    fn a_nul_byte_is_refused_where_it_is() {
        for most in [1, 5, usize::MAX] {
            let error = read(b"a\n\nb\xff\nc\0\nd\0", most, Format::Lines).expect_err("no text");
            assert!(error.to_string().contains("a NUL byte in line 4"), "{error}");
        }
    }

    /// They take no room, or a list of them would take all memory.
    #[test]
    fn blank_lines_are_not_kept() {
        let drops = Drops { bytes: vec![b'\n'; 5 * CHUNK], at: 0, most: usize::MAX };
        let mut keys = Keys::new(Box::new(drops), "test".into(), None, Format::Lines);
        assert!(keys.next_batch().expect("text").is_none());
        assert_eq!(keys.blank_lines(), 5 * CHUNK as u64);
        assert_eq!(keys.buffer.capacity(), CHUNK);
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
