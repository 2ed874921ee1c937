//! The commands, one file per idea, and how they are called.

pub mod adapt;
pub mod add;
pub mod dump;
pub mod info;
pub mod merge;
pub mod query;
pub mod reserve;

use std::ffi::{CStr, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_module::raw;

use crate::docs::Docs;
use crate::options;
use crate::server::{Call, Failure, Outcome};

/// A command of the module.
pub trait Command {
    /// As clients write it.
    const NAME: &CStr;
    /// The name that RedisBloom's clients know, if they know it.
    const ALIAS: Option<&CStr> = None;
    /// Whether it changes keys, for the server's checks.
    const FLAGS: Flags;
    /// The last argument that is a key, of those that begin with the first: -1 for all.
    const LAST_KEY: c_int = 1;
    const DOCS: Docs;

    /// Does it.
    ///
    /// # Errors
    /// Why it did nothing.
    fn run(call: &Call<'_>) -> Outcome;
}

/// What a command does to keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Flags {
    /// Reads, in constant time.
    ReadFast,
    /// Reads, for as long as the filter is large.
    Read,
    /// Writes, and may take memory.
    Write,
    /// Writes, and takes none.
    WriteWithin,
}

impl Flags {
    pub fn text(self) -> &'static CStr {
        match self {
            Flags::ReadFast => c"readonly fast",
            Flags::Read => c"readonly",
            Flags::Write => c"write deny-oom",
            Flags::WriteWithin => c"write",
        }
    }

    pub fn writes(self) -> bool {
        matches!(self, Flags::Write | Flags::WriteWithin)
    }
}

/// The callback of a command.
///
/// # Safety
/// The server calls it as a command of the module.
pub unsafe extern "C" fn entry<C: Command>(
    context: *mut raw::RedisModuleCtx,
    arguments: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    // SAFETY: the server's arguments, and the call does not outlive this function.
    let call = unsafe { Call::new(context, arguments, count) };
    call.answer(guarded(|| C::run(&call)));
    raw::REDISMODULE_OK as c_int
}

/// A panic ends here. Filters plan first and change afterwards, so they are as before or as they
/// should be.
fn guarded(run: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let reason = panic.downcast_ref::<String>().map(String::as_str);
        let reason = reason.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("unknown");
        let text = format!("twiceshy has a bug, please report it. Nothing was done: {reason}");
        Err(Failure::Message(text))
    })
}

/// The most bytes that an object may take. What was accepted once, on a primary or before a
/// restart, is accepted again.
fn most_bytes(call: &Call<'_>) -> usize {
    if call.is_repeated() { usize::MAX } else { options::max_bytes() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Reply;

    #[test]
    fn a_panic_is_an_error_of_the_call() {
        let text = |outcome: Outcome| match outcome {
            Err(Failure::Message(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(text(guarded(|| panic!("a plain text"))).ends_with("a plain text"));
        let number = 7;
        assert!(text(guarded(|| panic!("text and {number}"))).ends_with("text and 7"));
        assert_eq!(guarded(|| Ok(Reply::Ok)), Ok(Reply::Ok));
    }
}
