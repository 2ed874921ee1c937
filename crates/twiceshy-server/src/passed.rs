//! [`Passed`]: commands that are passed on to Redis as they came.
//!
//! The filter has to know of every key that a command may add, before Redis does, and may forget
//! the keys that it removes. A command that does nothing without its key is answered from memory
//! if the key is surely absent.

use bytes::Bytes;

use crate::backend::Failure;
use crate::reply::Reply;

/// A command that is passed on to Redis.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Its name and arguments.
    pub(crate) words: Vec<Bytes>,
    pub(crate) effect: Effect,
}

/// What a command may do to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing if there is no such key: Redis answers this then.
    Needs(WithoutKey),
    /// It may add the key.
    MayAdd,
    /// It removes the key, and answers its value.
    Takes,
    /// It removes all keys that it names.
    Removes,
}

/// What Redis answers when there is no such key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithoutKey {
    /// "none", the type of nothing.
    None,
    /// No bytes.
    Empty,
    /// A number.
    Number(i64),
}

impl WithoutKey {
    pub(crate) fn reply(self) -> Reply {
        match self {
            WithoutKey::None => Reply::Simple("none".into()),
            WithoutKey::Empty => Reply::text(""),
            WithoutKey::Number(number) => Reply::Integer(number),
        }
    }
}

impl Passed {
    /// The first key, which is the only one of all commands but those that remove.
    pub(crate) fn key(&self) -> &Bytes {
        &self.words[1]
    }

    /// All keys of a command that removes.
    pub(crate) fn keys(&self) -> &[Bytes] {
        &self.words[1..]
    }

    /// The reply if the key is absent and Redis would not find fault with the arguments.
    pub(crate) fn without_key(&self) -> Option<Reply> {
        let Effect::Needs(without_key) = self.effect else { return None };
        self.words[2..].iter().all(is_plain_number).then(|| without_key.reply())
    }

    /// Whether the reply may be a value of any size.
    pub(crate) fn answers_value(&self) -> bool {
        match self.effect {
            Effect::Needs(without_key) => without_key == WithoutKey::Empty,
            Effect::Takes => true,
            Effect::MayAdd => self.words[1..].iter().any(|word| word.eq_ignore_ascii_case(b"get")),
            Effect::Removes => false,
        }
    }

    /// Why another store does not do it, and what it does instead.
    pub(crate) fn refused_by(&self, store: &str, instead: &str) -> Failure {
        let name = String::from_utf8_lossy(&self.words[0]).to_ascii_uppercase();
        let options = if name == "SET" { " with options" } else { "" };
        Failure::Refused(format!(
            "{name}{options} is for a filter in front of Redis (--store redis://...), and the \
             store is {store}: use {instead}"
        ))
    }
}

/// Whether a word is a number as Redis writes it, far from every limit.
fn is_plain_number(word: &Bytes) -> bool {
    const FAR: i64 = 1 << 40;
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse::<i64>().ok());
    number.is_some_and(|number| number.abs() < FAR && number.to_string().as_bytes() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_faultless_commands_are_answered_without_redis() {
        let range = |words: [&'static str; 2]| Passed {
            words: ["GETRANGE", "k"].into_iter().chain(words).map(Bytes::from).collect(),
            effect: Effect::Needs(WithoutKey::Empty),
        };
        for words in [["0", "-1"], ["-5", "1000"]] {
            assert_eq!(range(words).without_key(), Some(Reply::text("")), "{words:?}");
        }
        for words in [["0", "x"], ["+1", "2"], ["01", "2"], ["", "2"], ["0", "99999999999999999"]] {
            assert_eq!(range(words).without_key(), None, "{words:?}");
        }
        let set = Passed { words: vec!["SET".into(), "k".into()], effect: Effect::MayAdd };
        assert_eq!(set.without_key(), None);
    }
}
