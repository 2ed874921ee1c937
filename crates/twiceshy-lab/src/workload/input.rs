//! Files as streams of bytes, decompressed by their ending.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::Error;

/// A file that is being read.
pub(super) struct Input {
    path: PathBuf,
    bytes: Box<dyn Read + Send>,
    offset: u64,
    failure: Option<io::Error>,
}

impl Input {
    /// Opens a file; what ends in .gz or .zst is decompressed.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let io = |error| Error::Io { path: path.to_path_buf(), offset: 0, error };
        let file = BufReader::new(File::open(path).map_err(io)?);
        let bytes: Box<dyn Read + Send> = match path.extension().and_then(OsStr::to_str) {
            Some("gz") => Box::new(MultiGzDecoder::new(file)),
            Some("zst") => Box::new(Zstd::new(file)),
            _ => Box::new(file),
        };
        Ok(Input { path: path.to_path_buf(), bytes, offset: 0, failure: None })
    }

    /// Fills a buffer as far as the file goes.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        let read = self.read(buffer);
        read.map_err(|error| self.failure().unwrap_or_else(|| self.io(error)))
    }

    /// The error of a read that failed, for those whose reader forgets it.
    pub(super) fn failure(&mut self) -> Option<Error> {
        let error = self.failure.take()?;
        Some(self.io(error))
    }

    fn io(&self, error: io::Error) -> Error {
        Error::Io { path: self.path.clone(), offset: self.offset, error }
    }

    /// The error of a part that makes no sense.
    pub(super) fn damaged(&self, offset: u64, reason: impl Into<String>) -> Error {
        Error::Damaged { path: self.path.clone(), offset, reason: reason.into() }
    }

    /// Bytes read so far, after decompression.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }
}

/// Fills the buffer unless the file ends, and keeps the error.
impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.bytes.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => {
                    filled += read;
                    self.offset += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let kind = error.kind();
                    self.failure = Some(error);
                    return Err(kind.into());
                }
            }
        }
        Ok(filled)
    }
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
