//! `AF.ADAPT`, `AF.DEL`, `AF.MDEL`.

use std::ffi::CStr;

use twiceshy::Adapted;

use super::{Command, Flags};
use crate::docs::{Arg, Docs};
use crate::server::{Call, Failure, Outcome, Reply};

pub struct Adapt;

impl Command for Adapt {
    const NAME: &CStr = c"AF.ADAPT";
    const FLAGS: Flags = Flags::Write;
    const DOCS: Docs = Docs {
        summary: c"Reports items that AF.EXISTS answered with 1 and that are not stored: they are answered with 0 from now on.",
        complexity: c"O(n) for n items",
        arity: -3,
        args: &[Arg::KEY, Arg::ITEMS],
    };

    fn run(call: &Call<'_>) -> Outcome {
        let items = call.arguments_from(2)?;
        let mut key = call.write(1)?;
        let Some(object) = key.get_mut()? else {
            return Ok(Reply::Array(items.iter().map(|_| Reply::Text("absent")).collect()));
        };
        let mut fixed = vec![call.argument(1)?];
        let mut replies = Vec::with_capacity(items.len());
        for item in items {
            replies.push(Reply::Text(match object.adapt(item)? {
                Adapted::Absent => "absent",
                Adapted::Stored => "stored",
                Adapted::Fixed => {
                    fixed.push(item);
                    "fixed"
                }
                Adapted::Unfixed => "unfixed",
            }));
        }
        if fixed.len() > 1 {
            call.replicate(Self::NAME, &fixed);
            call.notify(c"af.adapt", 1);
        }
        Ok(Reply::Array(replies))
    }
}

pub struct Del;

impl Command for Del {
    const NAME: &CStr = c"AF.DEL";
    const FLAGS: Flags = Flags::WriteWithin;
    const DOCS: Docs = Docs {
        summary: c"Removes an item from a filter with REMOTE memory. 0 if it is not there.",
        complexity: c"O(1)",
        arity: 3,
        args: &[Arg::KEY, Arg::ITEM],
    };

    fn run(call: &Call<'_>) -> Outcome {
        if call.len() != 3 {
            return Err(Failure::Arity);
        }
        remove(call)?.pop().ok_or(Failure::Arity)
    }
}

pub struct Mdel;

impl Command for Mdel {
    const NAME: &CStr = c"AF.MDEL";
    const FLAGS: Flags = Flags::WriteWithin;
    const DOCS: Docs = Docs {
        summary: c"AF.DEL of many items.",
        complexity: c"O(n) for n items",
        arity: -3,
        args: &[Arg::KEY, Arg::ITEMS],
    };

    fn run(call: &Call<'_>) -> Outcome {
        remove(call).map(Reply::Array)
    }
}

fn remove(call: &Call<'_>) -> Result<Vec<Reply>, Failure> {
    let items = call.arguments_from(2)?;
    let mut key = call.write(1)?;
    let Some(object) = key.get_mut()? else {
        return Ok(items.iter().map(|_| Reply::Integer(0)).collect());
    };
    let mut removed = vec![call.argument(1)?];
    let mut replies = Vec::with_capacity(items.len());
    for item in items {
        let is_removed = object.remove(item)?;
        if is_removed {
            removed.push(item);
        }
        replies.push(Reply::Integer(is_removed.into()));
    }
    if removed.len() > 1 {
        call.replicate(Mdel::NAME, &removed);
        call.notify(c"af.del", 1);
    }
    Ok(replies)
}
