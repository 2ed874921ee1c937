//! `AF.SCANDUMP`, `AF.LOADCHUNK`: a filter's file, in pieces.
//!
//! A client calls `AF.SCANDUMP key 0`, then with each iterator that it gets, until that is 0. It
//! hands each pair of iterator and bytes to `AF.LOADCHUNK`. An iterator says where its chunk ends,
//! and whether it is the last:
//!
//! ```text
//! iterator = 2 * end + 1 for the last chunk, 2 * end for others
//! ```

use std::ffi::CStr;

use super::{Command, Flags, most_bytes};
use crate::docs::{Arg, Docs};
use crate::object::{Contents, Object};
use crate::server::{Call, Failure, Outcome, Reply, number};

/// The longest chunk: clients take strings of up to 512 MB. Making one takes as long as making
/// the whole file.
pub const CHUNK: usize = 64 << 20;

/// The iterator of a chunk.
pub fn iterator(end: usize, is_last: bool) -> i64 {
    2 * end as i64 + i64::from(is_last)
}

pub struct Scandump;

impl Command for Scandump {
    const NAME: &CStr = c"AF.SCANDUMP";
    const FLAGS: Flags = Flags::Read;
    const DOCS: Docs = Docs {
        summary: c"The next chunk of a filter's file, and the iterator for the one after it.",
        complexity: c"O(n) for a filter of n bytes",
        arity: 3,
        args: &[Arg::KEY, Arg::integer(c"iterator")],
    };

    fn run(call: &Call<'_>) -> Outcome {
        if call.len() != 3 {
            return Err(Failure::Arity);
        }
        let last: i64 = number("iterator", call.argument(2)?)?;
        let key = call.read(1)?;
        let Some(object) = key.get()? else {
            return Err(Failure::Message("not found".into()));
        };
        object.info()?;
        let (next, chunk) = chunk_after(last, &object.to_file()).ok_or_else(|| {
            Failure::Message("iterator is none of this filter's; begin again with 0".into())
        })?;
        Ok(Reply::Array(vec![Reply::Integer(next), Reply::Bytes(chunk)]))
    }
}

/// The chunk behind an iterator, and the iterator behind that; `None` for one that is none.
fn chunk_after(last: i64, file: &[u8]) -> Option<(i64, Vec<u8>)> {
    let start = usize::try_from(last).ok()? / 2;
    if last % 2 == 1 {
        return (start == file.len()).then(|| (0, Vec::new()));
    }
    let rest = file.get(start..).filter(|rest| !rest.is_empty())?;
    let chunk = &rest[..rest.len().min(CHUNK)];
    let end = start + chunk.len();
    Some((iterator(end, end == file.len()), chunk.to_vec()))
}

pub struct Loadchunk;

impl Command for Loadchunk {
    const NAME: &CStr = c"AF.LOADCHUNK";
    const FLAGS: Flags = Flags::Write;
    const DOCS: Docs = Docs {
        summary: c"Restores a filter from the chunks of AF.SCANDUMP, in their order.",
        complexity: c"O(n) for a filter of n bytes",
        arity: -4,
        args: &[
            Arg::KEY,
            Arg::integer(c"iterator"),
            Arg::string(c"data"),
            super::reserve::NONSCALING,
            Arg::option(Arg::integer(c"adaptations"), c"ADAPTATIONS"),
        ],
    };

    fn run(call: &Call<'_>) -> Outcome {
        let iterator: i64 = number("iterator", call.argument(2)?)?;
        let chunk = call.argument(3)?;
        let (scaling, adaptations) = options(call)?;
        let end = usize::try_from(iterator / 2).unwrap_or(0);
        let mut key = call.write(1)?;
        let mut bytes = match key.get_mut()? {
            None => Vec::new(),
            Some(Object { contents: Contents::Arriving(bytes), .. }) => std::mem::take(bytes),
            Some(_) => {
                return Err(Failure::Message(
                    "item exists; delete it first, or use another key".into(),
                ));
            }
        };
        let outcome = append(&mut bytes, chunk, end, most_bytes(call)).and_then(|()| {
            if iterator % 2 == 0 {
                return Ok(Object::arriving(std::mem::take(&mut bytes), scaling, adaptations));
            }
            Ok(Object::from_file(&bytes, scaling, adaptations)?)
        });
        match outcome {
            Ok(object) => {
                key.set(object);
                call.replicate_verbatim();
                call.notify(c"af.loadchunk", 1);
                Ok(Reply::Ok)
            }
            Err(failure) => {
                // As before: the chunks that had come, or no key.
                if let Some(Object { contents: Contents::Arriving(kept), .. }) = key.get_mut()? {
                    *kept = bytes;
                }
                Err(failure)
            }
        }
    }
}

/// Adds a chunk to those before it.
fn append(bytes: &mut Vec<u8>, chunk: &[u8], end: usize, most: usize) -> Result<(), Failure> {
    if chunk.is_empty() || bytes.len() + chunk.len() != end {
        let text = format!(
            "this chunk ends at byte {end} and has {}, but {} bytes have come; send all chunks in \
             their order, or delete the key and begin again",
            chunk.len(),
            bytes.len()
        );
        return Err(Failure::Message(text));
    }
    if end > most {
        let text = format!("the filter is larger than {most} bytes; raise the module's MAX-BYTES");
        return Err(Failure::Message(text));
    }
    bytes.extend_from_slice(chunk);
    Ok(())
}

/// Whether the filter may grow, and its adaptations so far.
fn options(call: &Call<'_>) -> Result<(bool, u64), Failure> {
    let (mut scaling, mut adaptations, mut index) = (true, 0, 4);
    while index < call.len() {
        match &call.argument(index)?.to_ascii_uppercase()[..] {
            b"SCALING" => (scaling, index) = (true, index + 1),
            b"NONSCALING" => (scaling, index) = (false, index + 1),
            b"ADAPTATIONS" => {
                adaptations = number("ADAPTATIONS", call.argument(index + 1)?)?;
                index += 2;
            }
            _ => return Err(super::reserve::unknown(call, index)),
        }
    }
    Ok((scaling, adaptations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_put_together_are_the_file() {
        for len in [1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7] {
            let file: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let (mut whole, mut last) = (Vec::new(), 0);
            loop {
                let (next, chunk) = chunk_after(last, &file).expect("an iterator of this file");
                if next == 0 {
                    break;
                }
                append(&mut whole, &chunk, (next / 2) as usize, usize::MAX).expect("in order");
                assert_eq!(next % 2 == 1, whole.len() == len);
                last = next;
            }
            assert_eq!(whole, file);
        }
    }

    #[test]
    fn iterators_of_other_files_and_chunks_out_of_order_are_refused() {
        let file = [7; 10];
        for wrong in [-1, 1, 20, 22, 19, i64::MAX, i64::MIN] {
            assert_eq!(chunk_after(wrong, &file), None, "{wrong}");
        }
        let mut bytes = vec![1, 2];
        assert!(
            append(&mut bytes, &[3], 2, 100).is_err() && append(&mut bytes, &[], 2, 100).is_err()
        );
        assert!(append(&mut bytes, &[3], 3, 2).is_err());
        assert_eq!((append(&mut bytes, &[3], 3, 3), bytes), (Ok(()), vec![1, 2, 3]));
    }
}
