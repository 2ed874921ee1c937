//! Compressed files as streams of plain bytes.
//!
//! A file is decompressed if its name ends in .gz or .zst, or if its first bytes are
//! those of gzip or zstd: a pipe has no name.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, RFC 1952.
    Gzip,
    /// Zstandard, RFC 8878.
    Zstd,
}

/// Supported compressions, by their first bytes. A zstd file may begin with a skippable frame,
/// of which there are sixteen kinds.
const READ: [(&[u8], u8, Compression); 3] = [
    (b"\x1f\x8b\x08", 0xff, Compression::Gzip),
    (b"\x28\xb5\x2f\xfd", 0xff, Compression::Zstd),
    (b"\x50\x2a\x4d\x18", 0xf0, Compression::Zstd),
];

/// Unsupported compressions, by their first bytes, and the tools that read them.
const NOT_READ: [(&[u8], &str); 4] = [
    (b"\xfd7zXZ\0", "xz -dc"),
    (b"BZh", "bzip2 -dc"),
    (b"PK\x03\x04", "unzip -p"),
    (b"\x04\x22\x4d\x18", "lz4 -dc"),
];

/// Behind the "BZh" of bzip2, which could be a key: the block size and the digits of pi.
const BZIP2_BLOCK: &[u8] = b"1AY&SY";

impl Compression {
    /// The compression that a file's extension implies.
    #[must_use]
    pub fn of_name(path: &Path) -> Self {
        match path.extension().and_then(OsStr::to_str) {
            Some("gz") => Compression::Gzip,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }

    /// Detects the compression by the first bytes of a source. Returns the source with all its
    /// bytes, and reads no more than it needs.
    ///
    /// # Errors
    /// A failed read, or an unsupported compression.
    pub fn of_content<R: Read>(mut source: R) -> io::Result<(Self, impl Read + use<R>)> {
        let mut first = Vec::new();
        let mut byte = [0];
        while may_be_compressed(&first) && known(&first)? == Compression::None {
            match source.read(&mut byte) {
                Ok(0) => break,
                Ok(_) => first.push(byte[0]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let compression = known(&first)?;
        Ok((compression, Cursor::new(first).chain(source)))
    }

    /// The decompressed bytes of a source.
    pub fn decompressed<R: Read + Send + 'static>(self, source: R) -> Box<dyn Read + Send> {
        match self {
            Compression::None => Box::new(source),
            Compression::Gzip => Box::new(MultiGzDecoder::new(BufReader::new(source))),
            Compression::Zstd => Box::new(Zstd::new(BufReader::new(source))),
        }
    }
}

/// Whether more bytes could make these the first of a compressed file.
fn may_be_compressed(first: &[u8]) -> bool {
    let begins = |magic: &[u8], mask: u8| match (first, magic) {
        ([], _) => true,
        ([kind, rest @ ..], [one, others @ ..]) => {
            kind & mask == one & mask && others.starts_with(rest)
        }
        _ => false,
    };
    let bzip2 = first.len() < 10 && first.get(4..).is_none_or(|rest| BZIP2_BLOCK.starts_with(rest));
    READ.iter().any(|(magic, mask, _)| begins(magic, *mask))
        || NOT_READ.iter().any(|(magic, _)| begins(magic, 0xff))
        || first.starts_with(b"BZh") && bzip2
}

fn known(first: &[u8]) -> io::Result<Compression> {
    let begins = |magic: &[u8], mask: u8| {
        first
            .get(..magic.len())
            .is_some_and(|first| first[0] & mask == magic[0] & mask && first[1..] == magic[1..])
    };
    for (magic, mask, compression) in READ {
        if begins(magic, mask) {
            return Ok(compression);
        }
    }
    for (magic, command) in NOT_READ {
        if begins(magic, 0xff) && (magic != b"BZh" || first.get(4..) == Some(BZIP2_BLOCK)) {
            return Err(io::Error::other(format!(
                "it is compressed, and not with gzip or zstd; decompress it first, as with \
                 '{command}'"
            )));
        }
    }
    Ok(Compression::None)
}

/// All frames of a zstd file, one after the other, with their checksums.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> Zstd<R> {
    fn new(source: R) -> Self {
        Zstd { source, decoder: FrameDecoder::new(), in_frame: false }
    }

    /// Goes on to the next frame; `false` at the end of the file.
    fn next_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = self.source.by_ref().take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }

    fn check(&self) -> io::Result<()> {
        let sums = (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
        match sums {
            (Some(stored), Some(found)) if stored != found => Err(io::Error::other(format!(
                "a frame has checksum {found:08x} and says {stored:08x}"
            ))),
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.in_frame && self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.in_frame && !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.source, one);
                decoded.map_err(io::Error::other)?;
                continue;
            }
            if self.in_frame {
                self.check()?;
            }
            self.in_frame = self.next_frame()?;
            if !self.in_frame {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of some bytes, and whether they are all there afterwards.
    fn told(bytes: &'static [u8]) -> Result<Compression, String> {
        // Behind them nothing may be read that is not needed to tell.
        let (compression, mut source) =
            Compression::of_content(bytes).map_err(|error| error.to_string())?;
        let mut again = Vec::new();
        source.read_to_end(&mut again).expect("in memory");
        assert_eq!(again, bytes);
        Ok(compression)
    }

    #[test]
    fn the_first_bytes_tell() {
        for (bytes, compression) in [
            (&b"\x1f\x8b\x08\0rest"[..], Compression::Gzip),
            (b"\x28\xb5\x2f\xfdrest", Compression::Zstd),
            (b"\x5a\x2a\x4d\x18rest", Compression::Zstd),
            (b"", Compression::None),
            (b"\x1f\x8b", Compression::None),
            (b"(key", Compression::None),
            (b"P*Mkey", Compression::None),
            (b"BZh", Compression::None),
            (b"BZh9 is a key\n", Compression::None),
            (b"BZh91AY&S is another", Compression::None),
            (b"plain", Compression::None),
        ] {
            assert_eq!(told(bytes), Ok(compression), "{}", bytes.escape_ascii());
        }
        for (bytes, command) in [
            (&b"\xfd7zXZ\0\0"[..], "xz -dc"),
            (b"BZh91AY&SYrest", "bzip2 -dc"),
            (b"PK\x03\x04rest", "unzip -p"),
            (b"\x04\x22\x4d\x18rest", "lz4 -dc"),
        ] {
            let error = told(bytes).expect_err("not read");
            assert!(error.contains(command), "{error}");
        }
    }

    /// Fails when it is asked for more than it has.
    struct Silent(&'static [u8]);

    impl Read for Silent {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "a pipe that is silent is not waited for");
            self.0.read(buffer)
        }
    }

    #[test]
    fn no_more_is_read_than_it_takes_to_tell() {
        for bytes in [&b"a"[..], b"P\n", b"(\n", b"BZ\n", b"\x1f\x8b\x08"] {
            assert!(Compression::of_content(Silent(bytes)).is_ok());
        }
    }
}
