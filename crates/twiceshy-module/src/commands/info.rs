//! `AF.INFO`.

use std::ffi::CStr;

use super::{Command, Flags};
use crate::docs::{Arg, Docs};
use crate::object::Remote;
use crate::server::{Call, Failure, Outcome, Reply};

pub struct Info;

impl Command for Info {
    const NAME: &CStr = c"AF.INFO";
    const ALIAS: Option<&CStr> = Some(c"BF.INFO");
    const FLAGS: Flags = Flags::ReadFast;
    const DOCS: Docs = Docs {
        summary: c"Counts and sizes of a filter: all of them, or one field.",
        complexity: c"O(1)",
        arity: -2,
        args: &[Arg::KEY, Arg { is_optional: true, ..Arg::string(c"field") }],
    };

    fn run(call: &Call<'_>) -> Outcome {
        if call.len() > 3 {
            return Err(Failure::Arity);
        }
        let key = call.read(1)?;
        let Some(object) = key.get()? else {
            return Err(Failure::Message("not found".into()));
        };
        let info = object.info()?;
        let bits_per_key = info.bytes as f64 * 8.0 / info.items.max(1) as f64;
        let remote = match info.remote {
            Remote::None => "none",
            Remote::Memory => "memory",
        };
        let integer = |number: usize| Reply::Integer(number as i64);
        // What clients ask for, what they are shown, and the value. The first five are RedisBloom's.
        let fields = [
            ("CAPACITY", "Capacity", integer(info.capacity)),
            ("SIZE", "Size", integer(info.bytes)),
            ("FILTERS", "Number of filters", integer(info.filters)),
            ("ITEMS", "Number of items inserted", integer(info.items)),
            ("EXPANSION", "Expansion rate", integer(if object.scaling { 2 } else { 0 })),
            ("RATE", "Rate", Reply::Double(info.rate)),
            ("REMOTE", "Remote", Reply::Text(remote)),
            ("ADAPTATIONS", "Adaptations", Reply::Integer(info.adaptations as i64)),
            ("EXCEPTIONS", "Exceptions", integer(info.exceptions)),
            ("ROOM", "Room for exceptions", integer(info.exceptions_room)),
            ("BITS", "Bits per key", Reply::Double(bits_per_key)),
            ("BYTES", "Bytes", integer(info.bytes)),
        ];
        let Ok(wanted) = call.argument(2) else {
            return Ok(Reply::Map(fields.map(|(_, name, value)| (name, value)).into()));
        };
        let wanted = wanted.to_ascii_uppercase();
        let names = fields.iter().map(|(name, ..)| *name).collect::<Vec<_>>().join(", ");
        let field = fields.into_iter().find(|(name, ..)| name.as_bytes() == wanted);
        field
            .map(|(.., value)| value)
            .ok_or_else(|| Failure::Message(format!("no such field; there are {names}")))
    }
}
