//! `AF.MERGE`.

use std::ffi::{CStr, c_int};

use super::{Command, Flags, most_bytes};
use crate::docs::{Arg, Docs};
use crate::object::Object;
use crate::server::{Call, Failure, Outcome, Reply};

pub struct Merge;

impl Command for Merge {
    const NAME: &CStr = c"AF.MERGE";
    const FLAGS: Flags = Flags::Write;
    const LAST_KEY: c_int = -1;
    const DOCS: Docs = Docs {
        summary: c"Adds all items of filters with the same secret to another. It then answers 1 exactly where one of them did.",
        complexity: c"O(n) for filters of n bytes",
        arity: -3,
        args: &[Arg::KEY, Arg { name: c"source", is_multiple: true, ..Arg::KEY }],
    };

    fn run(call: &Call<'_>) -> Outcome {
        if call.len() < 3 {
            return Err(Failure::Arity);
        }
        let most_bytes = most_bytes(call);
        let mut merged: Option<Object> = call.read(1)?.get()?.cloned();
        for index in 2..call.len() {
            let key = call.read(index)?;
            let Some(source) = key.get()? else {
                let name = String::from_utf8_lossy(call.argument(index)?).into_owned();
                return Err(Failure::Message(format!("not found: {name}")));
            };
            match &mut merged {
                Some(merged) => merged.absorb(source, most_bytes)?,
                None => merged = Some(source.clone()),
            }
        }
        let merged = merged.ok_or(Failure::Arity)?;
        call.write(1)?.set(merged);
        call.replicate_verbatim();
        call.notify(c"af.merge", 1);
        Ok(Reply::Ok)
    }
}
