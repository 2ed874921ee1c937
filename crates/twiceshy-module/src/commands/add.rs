//! `AF.ADD`, `AF.MADD`, `AF.INSERT`.

use std::ffi::CStr;

use super::reserve::{self, EXCEPTIONS, NONSCALING, REMOTE, SECRET};
use super::{Command, Flags, most_bytes};
use crate::docs::{Arg, Docs};
use crate::errors;
use crate::object::Wanted;
use crate::server::{Call, Failure, Outcome, Reply};

pub struct Add;

impl Command for Add {
    const NAME: &CStr = c"AF.ADD";
    const ALIAS: Option<&CStr> = Some(c"BF.ADD");
    const FLAGS: Flags = Flags::Write;
    const DOCS: Docs = Docs {
        summary: c"Adds an item, and makes the filter if there is none. 0 if the item may be there already.",
        complexity: c"O(1)",
        arity: 3,
        args: &[Arg::KEY, Arg::ITEM],
    };

    fn run(call: &Call<'_>) -> Outcome {
        if call.len() != 3 {
            return Err(Failure::Arity);
        }
        let mut replies = add(call, &[call.argument(2)?], Some(&reserve::usual()))?;
        match replies.pop() {
            Some(Reply::Error(text)) => Err(Failure::Message(text)),
            reply => reply.ok_or(Failure::Arity),
        }
    }
}

pub struct Madd;

impl Command for Madd {
    const NAME: &CStr = c"AF.MADD";
    const ALIAS: Option<&CStr> = Some(c"BF.MADD");
    const FLAGS: Flags = Flags::Write;
    const DOCS: Docs = Docs {
        summary: c"Adds items, and makes the filter if there is none.",
        complexity: c"O(n) for n items",
        arity: -3,
        args: &[Arg::KEY, Arg::ITEMS],
    };

    fn run(call: &Call<'_>) -> Outcome {
        add(call, &call.arguments_from(2)?, Some(&reserve::usual())).map(Reply::Array)
    }
}

pub struct Insert;

impl Command for Insert {
    const NAME: &CStr = c"AF.INSERT";
    const ALIAS: Option<&CStr> = Some(c"BF.INSERT");
    const FLAGS: Flags = Flags::Write;
    const DOCS: Docs = Docs {
        summary: c"Adds items, and makes the filter as described if there is none.",
        complexity: c"O(n) for n items",
        arity: -4,
        args: &[
            Arg::KEY,
            Arg::option(Arg::integer(c"capacity"), c"CAPACITY"),
            Arg::option(Arg::double(c"rate"), c"RATE"),
            Arg::flag(c"nocreate", c"NOCREATE"),
            NONSCALING,
            REMOTE,
            EXCEPTIONS,
            SECRET,
            Arg { token: Some(c"ITEMS"), ..Arg::ITEMS },
        ],
    };

    fn run(call: &Call<'_>) -> Outcome {
        let (mut wanted, mut creates, mut index) = (reserve::usual(), true, 2);
        loop {
            let name = call.argument(index)?;
            if name.eq_ignore_ascii_case(b"ITEMS") {
                break;
            } else if name.eq_ignore_ascii_case(b"NOCREATE") {
                (creates, index) = (false, index + 1);
            } else {
                let next = reserve::option(call, index, &mut wanted)?;
                index = next.ok_or_else(|| reserve::unknown(call, index))?;
            }
        }
        let items = call.arguments_from(index + 1)?;
        add(call, &items, creates.then_some(&wanted)).map(Reply::Array)
    }
}

/// Adds items, here and on replicas. Without a filter, one is made as wanted.
fn add(call: &Call<'_>, items: &[&[u8]], wanted: Option<&Wanted>) -> Result<Vec<Reply>, Failure> {
    let mut key = call.write(1)?;
    if key.get()?.is_none() {
        let missing = || Failure::Message("not found; without NOCREATE it is made".into());
        reserve::make(call, &mut key, wanted.ok_or_else(missing)?)?;
    }
    let object = key.get_mut()?.ok_or(Failure::Type)?;
    let most_bytes = most_bytes(call);
    // Replicas get what was added, not what was refused.
    let mut added = vec![call.argument(1)?];
    let mut replies = Vec::with_capacity(items.len());
    for item in items {
        replies.push(match object.add(item, most_bytes) {
            Ok(true) => {
                added.push(item);
                Reply::Integer(1)
            }
            Ok(false) => Reply::Integer(0),
            Err(error) => Reply::Error(errors::text(&error)),
        });
    }
    if added.len() > 1 {
        call.replicate(Madd::NAME, &added);
        call.notify(c"af.add", 1);
    }
    Ok(replies)
}
