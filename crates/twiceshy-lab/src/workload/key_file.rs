//! Key lists and access logs: one key per line, or numbers one after the other.

use std::convert::Infallible;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::input::Input;
use super::recording::Numbering;
use super::{Error, Recording};

/// A file of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFile {
    /// Where it is; decompressed if it ends in .gz or .zst, and a file of lines also if
    /// its first bytes are those of gzip or zstd.
    pub path: PathBuf,
    /// What is in it.
    pub format: Format,
}

/// What is in a file of keys. Numbers are the same keys as lines with their
/// decimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One key a line, ended by LF or CRLF; empty lines are none, and a NUL byte is an
    /// error.
    Lines,
    /// Little-endian numbers of 32 bits.
    U32,
    /// Little-endian numbers of 64 bits.
    U64,
}

/// "u32:FILE", "u64:FILE" or "lines:FILE"; of a bare FILE the ending tells, as
/// in `keys.u32le.zst`, and what has no such ending has lines.
impl FromStr for KeyFile {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let explicit = text.split_once(':').and_then(|(format, path)| {
            let format = match format {
                "lines" => Format::Lines,
                "u32" => Format::U32,
                "u64" => Format::U64,
                _ => return None,
            };
            Some(KeyFile { path: path.into(), format })
        });
        Ok(explicit.unwrap_or_else(|| {
            let name = text.strip_suffix(".gz").or(text.strip_suffix(".zst")).unwrap_or(text);
            let format = match Path::new(name).extension().and_then(|ending| ending.to_str()) {
                Some("u32" | "u32le") => Format::U32,
                Some("u64" | "u64le") => Format::U64,
                _ => Format::Lines,
            };
            KeyFile { path: text.into(), format }
        }))
    }
}

impl Recording {
    /// Reads a stream of keys, to be split by the protocol of the papers: the
    /// first distinct ones are stored, the others are asked for.
    ///
    /// # Errors
    /// A file that cannot be read, or ends in the middle of a number.
    pub fn of_keys(file: &KeyFile) -> Result<Self, Error> {
        let mut numbering = Numbering::default();
        let stream = read(file, &mut numbering)?;
        Ok(Recording { name: name(&file.path), distinct: numbering.len(), stream, stored: None })
    }

    /// Reads a list of keys to store and a stream of queries.
    ///
    /// # Errors
    /// A file that cannot be read, or ends in the middle of a number.
    pub fn of_lists(keys: &KeyFile, queries: &KeyFile) -> Result<Self, Error> {
        let mut numbering = Numbering::default();
        // Only their numbers matter.
        read(keys, &mut numbering)?;
        let stored = numbering.len();
        let stream = read(queries, &mut numbering)?;
        let name = format!("{} in {}", name(&queries.path), name(&keys.path));
        Ok(Recording { name, distinct: numbering.len(), stream, stored: Some(stored) })
    }
}

/// The name of a file without its folders.
pub(super) fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn read(file: &KeyFile, numbering: &mut Numbering<Vec<u8>>) -> Result<Vec<u32>, Error> {
    let mut stream = Vec::new();
    let number = || Input::open_numbers(&file.path);
    match file.format {
        Format::Lines => lines(Input::open(&file.path)?, |line| {
            stream.push(numbering.number(line)?);
            Ok(())
        })?,
        Format::U32 => numbers(number()?, &mut stream, numbering, u32::from_le_bytes)?,
        Format::U64 => numbers(number()?, &mut stream, numbering, u64::from_le_bytes)?,
    }
    Ok(stream)
}

/// Bytes to read at once; a multiple of all widths of numbers.
const CHUNK: usize = 1 << 16;

/// Visits the lines that are not empty.
fn lines(mut input: Input, mut visit: impl FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> {
    let mut visit = |line: &[u8]| match line.strip_suffix(b"\r").unwrap_or(line) {
        [] => Ok(()),
        line => visit(line),
    };
    let mut buffer = vec![0; CHUNK];
    let mut rest: Vec<u8> = Vec::new();
    loop {
        let filled = input.fill(&mut buffer)?;
        if filled == 0 {
            return visit(&rest);
        }
        if let Some(at) = buffer[..filled].iter().position(|&byte| byte == 0) {
            let offset = input.offset() - (filled - at) as u64;
            let reason = "a NUL byte is in no list of lines; for numbers say u32:FILE or u64:FILE";
            return Err(input.damaged(offset, reason));
        }
        let mut parts = buffer[..filled].split(|&byte| byte == b'\n');
        rest.extend(parts.next().expect("a split has a first part"));
        for part in parts {
            visit(&rest)?;
            rest.clear();
            rest.extend(part);
        }
    }
}

/// Records numbers of `WIDTH` bytes.
fn numbers<const WIDTH: usize, N: std::fmt::Display>(
    mut input: Input,
    stream: &mut Vec<u32>,
    numbering: &mut Numbering<Vec<u8>>,
    decode: fn([u8; WIDTH]) -> N,
) -> Result<(), Error> {
    let mut buffer = vec![0; CHUNK];
    let mut digits: Vec<u8> = Vec::new();
    loop {
        let filled = input.fill(&mut buffer)?;
        let (numbers, rest) = buffer[..filled].as_chunks();
        for &number in numbers {
            digits.clear();
            write!(digits, "{}", decode(number)).expect("a vector takes all");
            stream.push(numbering.number(digits.as_slice())?);
        }
        if !rest.is_empty() {
            return Err(input.damaged(
                input.offset() - rest.len() as u64,
                format!(
                    "it ends in the middle of a number of {WIDTH} bytes; is it the right format?"
                ),
            ));
        }
        if filled == 0 {
            return Ok(());
        }
    }
}
