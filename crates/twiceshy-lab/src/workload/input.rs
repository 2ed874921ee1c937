//! Files as streams of bytes, decompressed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use super::Error;
use crate::compression::Compression;

/// A file that is being read.
pub(super) struct Input {
    path: PathBuf,
    bytes: Box<dyn Read + Send>,
    offset: u64,
    failure: Option<io::Error>,
}

impl Input {
    /// Opens a file, which is decompressed if its name or its first bytes say so.
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        Self::opened(path, |file| match Compression::of_name(path) {
            Compression::None => {
                let (compression, file) = Compression::of_content(file)?;
                Ok(compression.decompressed(file))
            }
            compression => Ok(compression.decompressed(file)),
        })
    }

    /// Opens a file of bare numbers. Any first bytes are a number's, so only its name
    /// can say that it is compressed.
    pub(super) fn open_numbers(path: &Path) -> Result<Self, Error> {
        Self::opened(path, |file| Ok(Compression::of_name(path).decompressed(file)))
    }

    fn opened(
        path: &Path,
        bytes: impl FnOnce(BufReader<File>) -> io::Result<Box<dyn Read + Send>>,
    ) -> Result<Self, Error> {
        let opened = File::open(path).and_then(|file| bytes(BufReader::new(file)));
        let path = path.to_path_buf();
        match opened {
            Ok(bytes) => Ok(Input { path, bytes, offset: 0, failure: None }),
            Err(error) => Err(Error::Io { path, offset: 0, error }),
        }
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
