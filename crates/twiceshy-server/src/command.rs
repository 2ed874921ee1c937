//! [`Command`]: a parsed request, and the table of all commands.

use bytes::Bytes;

use crate::latency::Timed;
use crate::passed::{Effect, Passed, WithoutKey};
use crate::reply::Reply;
use crate::request::Request;

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Get(Bytes),
    Set(Bytes, Bytes),
    Mget(Vec<Bytes>),
    Mset(Vec<(Bytes, Bytes)>),
    Exists(Vec<Bytes>),
    Del(Vec<Bytes>),
    Added(Vec<Bytes>),
    Removed(Vec<Bytes>),
    /// A position of the store's log, and perhaps for how long.
    Wait(Bytes, Option<Bytes>),
    Snapshot,
    Backup(Bytes),
    Stats,
    Dbsize,
    Info(Vec<Bytes>),
    Passed(Passed),
    Transaction(Step),
    Connection(Connection),
}

/// A step of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Multi,
    Exec,
    Discard,
}

/// A command that concerns the connection, not the store.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Ping(Option<Bytes>),
    Echo(Bytes),
    Hello(Vec<Bytes>),
    Auth(Vec<Bytes>),
    Client(Vec<Bytes>),
    Select(Bytes),
    Command(Vec<Bytes>),
    Quit,
}

impl Command {
    /// Whether it is allowed before authentication.
    pub(crate) fn is_for_strangers(&self) -> bool {
        use Connection::{Auth, Hello, Quit};
        matches!(self, Command::Connection(Hello(_) | Auth(_) | Quit))
    }

    /// The kind that its latency counts as; lookups are counted by their answers.
    pub(crate) fn timed(&self) -> Option<Timed> {
        match self {
            Command::Get(_) | Command::Mget(_) => None,
            Command::Exists(_) => Some(Timed::Exists),
            Command::Set(..) | Command::Mset(_) => Some(Timed::Set),
            Command::Del(_) => Some(Timed::Remove),
            Command::Passed(passed) => Some(match passed.effect {
                Effect::Needs(_) => Timed::Other,
                Effect::MayAdd => Timed::Set,
                Effect::Takes | Effect::Removes => Timed::Remove,
            }),
            _ => Some(Timed::Other),
        }
    }
}

/// A line of the table of commands.
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    /// Words of a request, its name included; `-n` is n or more.
    pub(crate) arity: i64,
    /// Which words are keys: first, last (negative: from the end), step.
    pub(crate) keys: (i64, i64, i64),
    pub(crate) flag: &'static str,
    pub(crate) summary: &'static str,
    /// From a request whose number of words is right.
    make: fn(&mut Request) -> Result<Command, Reply>,
}

const NO_KEYS: (i64, i64, i64) = (0, 0, 0);
const ONE_KEY: (i64, i64, i64) = (1, 1, 1);
const ALL_KEYS: (i64, i64, i64) = (1, -1, 1);

const WAIT: &str = "Waits until a position of PostgreSQL's log is known: POSITION [MILLISECONDS]";

/// What TTL and PTTL answer when there is no such key.
const NO_KEY: i64 = -2;

/// All commands, the most frequent ones first.
pub(crate) static COMMANDS: [Entry; 40] = [
    entry("get", 2, ONE_KEY, "readonly", "The value of a key", |words| {
        let [_, key] = exactly(words);
        Ok(Command::Get(key))
    }),
    entry("set", -3, ONE_KEY, "write", "Stores a value under a key", set),
    entry("mget", -2, ALL_KEYS, "readonly", "The values of keys", |words| {
        Ok(Command::Mget(rest(words)))
    }),
    entry("exists", -2, ALL_KEYS, "readonly", "How many of the keys are stored", |words| {
        Ok(Command::Exists(rest(words)))
    }),
    entry("mset", -3, (1, -1, 2), "write", "Stores values under keys", mset),
    entry("del", -2, ALL_KEYS, "write", "Removes keys", |words| Ok(Command::Del(rest(words)))),
    entry("setex", 4, ONE_KEY, "write", "Stores a value for some seconds", may_add),
    entry("psetex", 4, ONE_KEY, "write", "Stores a value for some milliseconds", may_add),
    entry("setnx", 3, ONE_KEY, "write", "Stores a value if there is none", may_add),
    entry("incr", 2, ONE_KEY, "write", "Adds 1 to a number", may_add),
    entry("decr", 2, ONE_KEY, "write", "Takes 1 from a number", may_add),
    entry("incrby", 3, ONE_KEY, "write", "Adds to a number", may_add),
    entry("decrby", 3, ONE_KEY, "write", "Takes from a number", may_add),
    entry("getdel", 2, ONE_KEY, "write", "The value of a key, which is removed", |words| {
        passed(words, Effect::Takes)
    }),
    entry("unlink", -2, ALL_KEYS, "write", "Removes keys", |words| passed(words, Effect::Removes)),
    entry("expire", -3, ONE_KEY, "write", "Sets when a key expires, in seconds", |words| {
        needs(words, WithoutKey::Number(0))
    }),
    entry("ttl", 2, ONE_KEY, "readonly", "Seconds until a key expires", |words| {
        needs(words, WithoutKey::Number(NO_KEY))
    }),
    entry("pttl", 2, ONE_KEY, "readonly", "Milliseconds until a key expires", |words| {
        needs(words, WithoutKey::Number(NO_KEY))
    }),
    entry("type", 2, ONE_KEY, "readonly", "The type of a value", |words| {
        needs(words, WithoutKey::None)
    }),
    entry("strlen", 2, ONE_KEY, "readonly", "The length of a value", |words| {
        needs(words, WithoutKey::Number(0))
    }),
    entry("getrange", 4, ONE_KEY, "readonly", "A part of a value", |words| {
        needs(words, WithoutKey::Empty)
    }),
    entry("ping", -1, NO_KEYS, "fast", "Answers PONG, or what was said", |words| {
        match &rest(words)[..] {
            [] => connection(Connection::Ping(None)),
            [said] => connection(Connection::Ping(Some(said.clone()))),
            _ => Err(wrong_arity("ping")),
        }
    }),
    entry("echo", 2, NO_KEYS, "fast", "Answers what was said", |words| {
        let [_, said] = exactly(words);
        connection(Connection::Echo(said))
    }),
    entry("hello", -1, NO_KEYS, "no-auth", "Chooses the protocol: HELLO 2 or 3", |words| {
        connection(Connection::Hello(rest(words)))
    }),
    entry("auth", -2, NO_KEYS, "no-auth", "Says the password", |words| {
        connection(Connection::Auth(rest(words)))
    }),
    entry("select", 2, NO_KEYS, "fast", "There is one database: 0", |words| {
        let [_, index] = exactly(words);
        connection(Connection::Select(index))
    }),
    entry("client", -2, NO_KEYS, "fast", "SETNAME, GETNAME, SETINFO, ID", |words| {
        connection(Connection::Client(rest(words)))
    }),
    entry("command", -1, NO_KEYS, "loading", "COUNT, INFO, DOCS, LIST", |words| {
        connection(Connection::Command(rest(words)))
    }),
    entry("multi", 1, NO_KEYS, "fast", "Refused: there are no transactions", |_| {
        Ok(Command::Transaction(Step::Multi))
    }),
    entry("exec", 1, NO_KEYS, "fast", "Ends a transaction that was refused", |_| {
        Ok(Command::Transaction(Step::Exec))
    }),
    entry("discard", 1, NO_KEYS, "fast", "Ends a transaction that was refused", |_| {
        Ok(Command::Transaction(Step::Discard))
    }),
    entry("quit", -1, NO_KEYS, "no-auth", "Ends the connection", |_| connection(Connection::Quit)),
    entry("info", -1, NO_KEYS, "loading", "Counts and settings, for people", |words| {
        Ok(Command::Info(rest(words)))
    }),
    entry("dbsize", 1, NO_KEYS, "readonly", "How many keys are stored", |_| Ok(Command::Dbsize)),
    entry("ts.stats", 1, NO_KEYS, "readonly", "Counts of the filter, by name", |_| {
        Ok(Command::Stats)
    }),
    entry(
        "ts.added",
        -2,
        ALL_KEYS,
        "write",
        "Keys that the store behind is about to get",
        |words| Ok(Command::Added(rest(words))),
    ),
    entry("ts.removed", -2, ALL_KEYS, "write", "Keys that the store behind has lost", |words| {
        Ok(Command::Removed(rest(words)))
    }),
    entry("ts.wait", -2, NO_KEYS, "readonly", WAIT, |words| match &rest(words)[..] {
        [position] => Ok(Command::Wait(position.clone(), None)),
        [position, most] => Ok(Command::Wait(position.clone(), Some(most.clone()))),
        _ => Err(wrong_arity("ts.wait")),
    }),
    entry("ts.snapshot", 1, NO_KEYS, "admin", "Writes the filter to disk", |_| {
        Ok(Command::Snapshot)
    }),
    entry("ts.backup", 2, NO_KEYS, "admin", "Copies the store to a new directory", |words| {
        let [_, name] = exactly(words);
        Ok(Command::Backup(name))
    }),
];

const fn entry(
    name: &'static str,
    arity: i64,
    keys: (i64, i64, i64),
    flag: &'static str,
    summary: &'static str,
    make: fn(&mut Request) -> Result<Command, Reply>,
) -> Entry {
    Entry { name, arity, keys, flag, summary, make }
}

/// The line of a command.
pub(crate) fn find(name: &[u8]) -> Option<&'static Entry> {
    position(name).map(|index| &COMMANDS[index])
}

/// Where it is in the table.
pub(crate) fn position(name: &[u8]) -> Option<usize> {
    COMMANDS.iter().position(|entry| entry.name.as_bytes().eq_ignore_ascii_case(name))
}

/// A buffer for words that is reused from one request to the next.
const KEPT: usize = 8;

/// What a request asks for, or what to answer instead. Nothing is left of the request but
/// the room for the next one, so that the bytes it was read into are free as well.
pub(crate) fn parse(request: &mut Request) -> Result<Command, Reply> {
    let parsed = understand(request);
    request.clear();
    request.shrink_to(KEPT);
    parsed
}

fn understand(request: &mut Request) -> Result<Command, Reply> {
    let Some(entry) = find(&request[0]) else { return Err(unknown(request)) };
    let words = i64::try_from(request.len()).unwrap_or(i64::MAX);
    if words != entry.arity && (entry.arity > 0 || words < -entry.arity) {
        return Err(wrong_arity(entry.name));
    }
    (entry.make)(request)
}

pub(crate) fn wrong_arity(name: &str) -> Reply {
    Reply::error(format!("wrong number of arguments for '{name}' command"))
}

/// The most bytes of a request that an error repeats.
const REPEATED: usize = 128;

fn unknown(request: &[Bytes]) -> Reply {
    let shown = |word: &Bytes, most: usize| {
        String::from_utf8_lossy(&word[..word.len().min(most)]).into_owned()
    };
    let mut arguments = String::new();
    for word in &request[1..] {
        if arguments.len() >= REPEATED {
            break;
        }
        arguments += &format!("'{}' ", shown(word, REPEATED - arguments.len()));
    }
    Reply::error(format!(
        "unknown command '{}', with args beginning with: {arguments}",
        shown(&request[0], REPEATED)
    ))
}

/// The words of a request whose number is known.
fn exactly<const N: usize>(words: &mut Request) -> [Bytes; N] {
    let mut words = words.drain(..);
    std::array::from_fn(|_| words.next().expect("the number of words was compared with the arity"))
}

/// All words but the command's name.
fn rest(words: &mut Request) -> Vec<Bytes> {
    let mut words = std::mem::take(words);
    words.remove(0);
    words
}

fn connection(command: Connection) -> Result<Command, Reply> {
    Ok(Command::Connection(command))
}

fn passed(words: &mut Request, effect: Effect) -> Result<Command, Reply> {
    Ok(Command::Passed(Passed { words: std::mem::take(words), effect }))
}

fn may_add(words: &mut Request) -> Result<Command, Reply> {
    passed(words, Effect::MayAdd)
}

fn needs(words: &mut Request, without_key: WithoutKey) -> Result<Command, Reply> {
    passed(words, Effect::Needs(without_key))
}

fn set(words: &mut Request) -> Result<Command, Reply> {
    if words.len() > 3 {
        return may_add(words);
    }
    let [_, key, value] = exactly(words);
    Ok(Command::Set(key, value))
}

fn mset(words: &mut Request) -> Result<Command, Reply> {
    let words = rest(words);
    let (pairs, left) = words.as_chunks();
    if !left.is_empty() {
        return Err(wrong_arity("mset"));
    }
    Ok(Command::Mset(pairs.iter().map(|[key, value]| (key.clone(), value.clone())).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &'static str) -> Result<Command, String> {
        let mut words = line.split(' ').map(Bytes::from_static_str).collect();
        parse(&mut words).map_err(|reply| match reply {
            Reply::Error(text) => text,
            other => panic!("{other:?}"),
        })
    }

    trait FromStaticStr {
        fn from_static_str(text: &'static str) -> Self;
    }

    impl FromStaticStr for Bytes {
        fn from_static_str(text: &'static str) -> Self {
            Bytes::from_static(text.as_bytes())
        }
    }

    #[test]
    fn names_are_those_of_any_case() {
        assert_eq!(parsed("gEt k"), Ok(Command::Get("k".into())));
        assert_eq!(parsed("SET k v"), Ok(Command::Set("k".into(), "v".into())));
        let records = vec![("a".into(), "1".into()), ("b".into(), "2".into())];
        assert_eq!(parsed("mset a 1 b 2"), Ok(Command::Mset(records)));
        let words = ["set", "k", "v", "EX", "10"].map(Bytes::from_static_str).to_vec();
        let passed = Passed { words, effect: Effect::MayAdd };
        assert_eq!(parsed("set k v EX 10"), Ok(Command::Passed(passed)));
        assert_eq!(parsed("Ts.Added a b"), Ok(Command::Added(vec!["a".into(), "b".into()])));
    }

    #[test]
    fn errors_in_the_words_of_redis() {
        for (line, expected) in [
            ("get", "ERR wrong number of arguments for 'get' command"),
            ("GET a b", "ERR wrong number of arguments for 'get' command"),
            ("set a", "ERR wrong number of arguments for 'set' command"),
            ("mset a 1 b", "ERR wrong number of arguments for 'mset' command"),
            ("ping a b", "ERR wrong number of arguments for 'ping' command"),
            ("foo", "ERR unknown command 'foo', with args beginning with: "),
            ("Foo a b", "ERR unknown command 'Foo', with args beginning with: 'a' 'b' "),
        ] {
            assert_eq!(parsed(line), Err(expected.into()));
        }
    }

    /// Or the bytes that it was read into could not be used again, and a client that once
    /// sent a million words would keep room for them.
    #[test]
    fn nothing_of_a_request_stays() {
        let long = format!("foo{}", " a".repeat(1000));
        let many = format!("get{}", " a".repeat(1000));
        for line in ["get k", "set k v", "set k v EX 10", "mget a b", "ping", "get", &long, &many] {
            let mut words: Request = line.split(' ').map(|word| word.to_owned().into()).collect();
            let _ = parse(&mut words);
            assert!(words.is_empty() && words.capacity() <= KEPT, "{line}: {}", words.capacity());
        }
    }
}
