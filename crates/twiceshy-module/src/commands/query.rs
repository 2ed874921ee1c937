//! `AF.EXISTS`, `AF.MEXISTS`, `AF.CARD`.

use std::ffi::CStr;

use super::{Command, Flags};
use crate::docs::{Arg, Docs};
use crate::server::{Call, Failure, Outcome, Reply};

pub struct Exists;

impl Command for Exists {
    const NAME: &CStr = c"AF.EXISTS";
    const ALIAS: Option<&CStr> = Some(c"BF.EXISTS");
    const FLAGS: Flags = Flags::ReadFast;
    const DOCS: Docs = Docs {
        summary: c"0: the item is definitely absent. 1: it may be there.",
        complexity: c"O(1)",
        arity: 3,
        args: &[Arg::KEY, Arg::ITEM],
    };

    fn run(call: &Call<'_>) -> Outcome {
        if call.len() != 3 {
            return Err(Failure::Arity);
        }
        let key = call.read(1)?;
        let found = match key.get()? {
            Some(object) => object.contains(call.argument(2)?)?,
            None => false,
        };
        Ok(Reply::Integer(found.into()))
    }
}

pub struct Mexists;

impl Command for Mexists {
    const NAME: &CStr = c"AF.MEXISTS";
    const ALIAS: Option<&CStr> = Some(c"BF.MEXISTS");
    const FLAGS: Flags = Flags::ReadFast;
    const DOCS: Docs = Docs {
        summary: c"AF.EXISTS of many items.",
        complexity: c"O(n) for n items",
        arity: -3,
        args: &[Arg::KEY, Arg::ITEMS],
    };

    fn run(call: &Call<'_>) -> Outcome {
        let items = call.arguments_from(2)?;
        let key = call.read(1)?;
        let found = match key.get()? {
            Some(object) => object.contains_many(&items)?,
            None => vec![false; items.len()],
        };
        Ok(Reply::Array(found.into_iter().map(|found| Reply::Integer(found.into())).collect()))
    }
}

pub struct Card;

impl Command for Card {
    const NAME: &CStr = c"AF.CARD";
    const ALIAS: Option<&CStr> = Some(c"BF.CARD");
    const FLAGS: Flags = Flags::ReadFast;
    const DOCS: Docs = Docs {
        summary: c"The number of items that were added, or nearly so.",
        complexity: c"O(1)",
        arity: 2,
        args: &[Arg::KEY],
    };

    fn run(call: &Call<'_>) -> Outcome {
        if call.len() != 2 {
            return Err(Failure::Arity);
        }
        let items = match call.read(1)?.get()? {
            Some(object) => object.len()?,
            None => 0,
        };
        Ok(Reply::Integer(items as i64))
    }
}
