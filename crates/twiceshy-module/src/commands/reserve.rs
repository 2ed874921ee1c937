//! `AF.RESERVE`, and the filters that other commands make on the way.

use std::ffi::CStr;

use twiceshy::KeyHasher;

use super::{Command, Flags, most_bytes};
use crate::docs::{Arg, Docs};
use crate::object::{Object, Remote, Wanted};
use crate::server::{Call, Failure, Key, Outcome, Reply, number};

/// The rate and the capacity of a filter that is made by its first item.
const DEFAULT_RATE: f64 = twiceshy::filter::DEFAULT_RATE;
const DEFAULT_CAPACITY: usize = 10_000;

pub struct Reserve;

impl Command for Reserve {
    const NAME: &CStr = c"AF.RESERVE";
    const ALIAS: Option<&CStr> = Some(c"BF.RESERVE");
    const FLAGS: Flags = Flags::Write;
    const DOCS: Docs = Docs {
        summary: c"Creates an empty filter for a number of items.",
        complexity: c"O(1)",
        arity: -4,
        args: &[
            Arg::KEY,
            Arg::double(c"rate"),
            Arg::integer(c"capacity"),
            NONSCALING,
            REMOTE,
            EXCEPTIONS,
            SECRET,
        ],
    };

    fn run(call: &Call<'_>) -> Outcome {
        let (rate, capacity) = (call.argument(2)?, call.argument(3)?);
        let mut wanted = Wanted {
            rate: number("rate", rate)?,
            capacity: number("capacity", capacity)?,
            ..usual()
        };
        let mut index = 4;
        while index < call.len() {
            index = option(call, index, &mut wanted)?.ok_or_else(|| unknown(call, index))?;
        }
        let mut key = call.write(1)?;
        if key.get()?.is_some() {
            return Err(Failure::Message(
                "item exists; delete it first, or use another key".into(),
            ));
        }
        make(call, &mut key, &wanted)?;
        Ok(Reply::Ok)
    }
}

pub const NONSCALING: Arg = Arg::flag(c"nonscaling", c"NONSCALING");
pub const REMOTE: Arg = Arg::option(Arg::string(c"none|memory"), c"REMOTE");
pub const EXCEPTIONS: Arg = Arg::option(Arg::integer(c"exceptions"), c"EXCEPTIONS");
pub const SECRET: Arg = Arg::option(Arg::string(c"secret"), c"SECRET");

/// What a filter gets that nobody says anything of.
pub fn usual() -> Wanted {
    Wanted {
        rate: DEFAULT_RATE,
        capacity: DEFAULT_CAPACITY,
        scaling: true,
        remote: Remote::None,
        exceptions: None,
        hasher: KeyHasher::random(),
    }
}

/// Reads one option of a filter; returns where the next is, or `None` if it is none of these.
///
/// # Errors
/// A value that an option cannot have.
pub fn option(
    call: &Call<'_>,
    index: usize,
    wanted: &mut Wanted,
) -> Result<Option<usize>, Failure> {
    let name = call.argument(index)?.to_ascii_uppercase();
    if name == b"NONSCALING" {
        wanted.scaling = false;
        return Ok(Some(index + 1));
    }
    let value = || call.argument(index + 1);
    match &name[..] {
        b"CAPACITY" => wanted.capacity = number("CAPACITY", value()?)?,
        b"RATE" | b"ERROR" => wanted.rate = number("RATE", value()?)?,
        b"EXCEPTIONS" => wanted.exceptions = Some(number("EXCEPTIONS", value()?)?),
        // Our filters double. RedisBloom's clients may say so, and 0 means not at all.
        b"EXPANSION" => wanted.scaling &= number::<u32>("EXPANSION", value()?)? > 0,
        b"REMOTE" => wanted.remote = remote(value()?)?,
        b"SECRET" => wanted.hasher = secret(value()?)?,
        _ => return Ok(None),
    }
    Ok(Some(index + 2))
}

/// The error for an argument that is no option.
pub fn unknown(call: &Call<'_>, index: usize) -> Failure {
    let name = String::from_utf8_lossy(call.argument(index).unwrap_or_default()).into_owned();
    Failure::Message(format!("unknown option: {name}"))
}

fn remote(bytes: &[u8]) -> Result<Remote, Failure> {
    match &bytes.to_ascii_lowercase()[..] {
        b"none" => Ok(Remote::None),
        b"memory" => Ok(Remote::Memory),
        other => Err(Failure::Message(format!(
            "REMOTE is none or memory, not {}",
            String::from_utf8_lossy(other)
        ))),
    }
}

/// A hasher from the 34 hexadecimal digits of its 17 bytes.
fn secret(digits: &[u8]) -> Result<KeyHasher, Failure> {
    let wrong = || {
        let text = "SECRET is 34 hexadecimal digits: 01 and 32 random ones";
        Failure::Message(text.into())
    };
    let text = std::str::from_utf8(digits).map_err(|_| wrong())?;
    if text.len() % 2 != 0 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let byte = |at| u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| wrong());
    let bytes = (0..text.len()).step_by(2).map(byte).collect::<Result<Vec<u8>, _>>()?;
    KeyHasher::from_bytes(&bytes).map_err(|_| wrong())
}

/// Makes a filter the value of a key that is empty, here and on replicas.
///
/// # Errors
/// Numbers that a filter cannot have, or one that would be too large.
pub fn make<'a>(
    call: &Call<'_>,
    key: &'a mut Key<'_>,
    wanted: &Wanted,
) -> Result<&'a mut Object, Failure> {
    let most = most_bytes(call);
    // At least a byte per key: the allocation itself might fail for absurd numbers.
    let object = if wanted.capacity > most { None } else { Some(Object::new(wanted)?) };
    let Some(object) = object.filter(|object| object.bytes() <= most) else {
        let text = format!(
            "a filter for {} items is larger than {most} bytes; raise the module's MAX-BYTES",
            wanted.capacity
        );
        return Err(Failure::Message(text));
    };
    let arguments = arguments(call.argument(1)?, wanted);
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    call.replicate(Reserve::NAME, &arguments);
    call.notify(c"af.reserve", 1);
    Ok(key.set(object))
}

/// The arguments of `AF.RESERVE` that make the same filter, its secret included.
fn arguments(key: &[u8], wanted: &Wanted) -> Vec<Vec<u8>> {
    let Wanted { rate, capacity, scaling, remote, exceptions, hasher } = wanted;
    let mut arguments: Vec<Vec<u8>> =
        vec![key.into(), rate.to_string().into(), capacity.to_string().into()];
    if !scaling {
        arguments.push(b"NONSCALING".into());
    }
    if *remote == Remote::Memory {
        arguments.extend([b"REMOTE".into(), b"memory".into()]);
    }
    if let Some(exceptions) = exceptions {
        arguments.extend([b"EXCEPTIONS".into(), exceptions.to_string().into()]);
    }
    let digits: String = hasher.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    arguments.extend([b"SECRET".into(), digits.into()]);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_what_replication_sends() {
        let wanted =
            Wanted { scaling: false, remote: Remote::Memory, exceptions: Some(3), ..usual() };
        let arguments = arguments(b"key", &wanted);
        let text: Vec<_> = arguments.iter().map(|bytes| String::from_utf8_lossy(bytes)).collect();
        assert_eq!(text[3..8], ["NONSCALING", "REMOTE", "memory", "EXCEPTIONS", "3"]);
        assert_eq!((&*text[0], text[1].parse()), ("key", Ok(wanted.rate)));
        assert_eq!(secret(&arguments[9]).as_ref(), Ok(&wanted.hasher));
        for wrong in ["", "0", "01", "0g", "é", &"01".repeat(18), &"77".repeat(17)] {
            assert!(secret(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
