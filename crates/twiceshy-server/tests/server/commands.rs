//! Every command, alone and beside a real Redis.

use crate::client::{Client, Value};
use crate::harness::{redis, start, start_with};
use twiceshy_server::Limits;

#[test]
fn records_come_and_go() {
    let server = start();
    let mut client = server.client();
    assert_eq!(client.line("GET k"), Value::Nil);
    assert_eq!(client.line("SET k v"), Value::ok());
    assert_eq!(client.line("get k"), Value::bulk("v"));
    assert_eq!(client.line("SET k w"), Value::ok());
    assert_eq!(client.line("MSET a 1 b 2 a 3"), Value::ok());
    let values = [Value::bulk("3"), Value::Nil, Value::bulk("2"), Value::bulk("w")];
    assert_eq!(client.line("MGET a x b k"), Value::Array(values.to_vec()));
    assert_eq!(client.line("EXISTS a a x k"), Value::Integer(3));
    assert_eq!(client.line("DBSIZE"), Value::Integer(3));
    assert_eq!(client.line("DEL a a x"), Value::Integer(1));
    assert_eq!(client.line("GET a"), Value::Nil);
    assert_eq!(client.line("DBSIZE"), Value::Integer(2));
    let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    assert_eq!(client.call(&[b"SET", &bytes[..1000], &bytes]), Value::ok());
    assert_eq!(client.call(&[b"GET", &bytes[..1000]]), Value::Bulk(bytes));
    assert_eq!(client.call(&["SET", "", ""]), Value::ok());
    assert_eq!(client.call(&["GET", ""]), Value::bulk(""));
}

/// What both answer alike, byte for byte: all that clients of Redis rely on.
const ALIKE: &[&str] = &[
    "PING",
    "PING hello",
    "PING a b",
    "ECHO hello",
    "ECHO",
    "GET missing",
    "SET key value",
    "GET key",
    "GET",
    "GET key extra",
    "get key",
    "SET key",
    "MSET a 1 b 2",
    "MSET a 1 b",
    "MSET",
    "MGET a missing b",
    "MGET",
    "EXISTS a a missing",
    "EXISTS",
    "DEL a missing",
    "DEL",
    "DBSIZE",
    "DBSIZE x",
    "SELECT 0",
    "SELECT 99999",
    "SELECT x",
    "CLIENT GETNAME",
    "CLIENT SETNAME me",
    "CLIENT GETNAME",
    "CLIENT GETNAME x",
    "CLIENT SETNAME",
    "CLIENT NOSUCH",
    "CLIENT",
    "COMMAND NOSUCH",
    "nosuch",
    "NoSuch with some arguments",
    "AUTH password",
    "AUTH default anything",
    "AUTH nobody anything",
    "AUTH a b c",
    "HELLO 4",
    "HELLO x",
    "HELLO 3 NOSUCH",
    "HELLO 3 SETNAME",
    "QUIT",
];

#[test]
fn redis_answers_the_same() {
    let Some(redis) = redis() else { return };
    let server = start();
    for hello in ["HELLO 2", "HELLO 3"] {
        let (mut ours, mut theirs) = (server.client(), Client::connect(redis.address));
        for client in [&mut ours, &mut theirs] {
            client.line(hello);
            client.line("DEL key a b");
        }
        for line in ALIKE {
            assert_eq!(ours.line(line), theirs.line(line), "{line} after {hello}");
        }
        assert!(ours.receive().is_err(), "QUIT ends the connection");
    }
    // Lines as a person types them, and what is no request at all.
    for bytes in [
        "PING\r\n",
        "\r\n\n ping \n",
        "SET 'a key' \"a\\x41\\n\"\nGET \"a key\"\r\n",
        "GET \"a\r\n",
        "*1\r\n$x\r\n",
        "*1\r\n$-1\r\n",
        "*1\r\n$99999999999999999999\r\n",
        "*x\r\n",
        "*2\r\n+GET\r\n",
        "*-1\r\n*0\r\n*1\r\n$4\r\nPING\r\n\r\n*1\r\n$4\r\nQUIT\r\n",
    ] {
        let answers = |mut client: Client| {
            client.send(format!("{bytes}QUIT\r\n").as_bytes()).expect("it reads");
            std::iter::from_fn(|| client.receive().ok()).collect::<Vec<_>>()
        };
        let (ours, theirs) = (answers(server.client()), answers(Client::connect(redis.address)));
        assert_eq!(ours, theirs, "{bytes:?}");
    }
}

#[test]
fn a_client_greets_in_either_protocol() {
    let server = start();
    let mut client = server.client();
    assert_eq!(client.line("HELLO 2").field("proto"), &Value::Integer(2));
    assert_eq!(client.line("TS.STATS").field("keys"), &Value::Integer(0));
    let hello = client.line("HELLO 3 SETNAME me");
    assert!(matches!(hello, Value::Map(_)), "{hello:?}");
    assert_eq!(hello.field("proto"), &Value::Integer(3));
    assert_eq!(client.line("CLIENT GETNAME"), Value::bulk("me"));
    assert_eq!(&client.line("CLIENT ID"), hello.field("id"));
    let stats = client.line("TS.STATS");
    assert!(matches!(stats, Value::Map(_)), "{stats:?}");
    assert_eq!(client.line("CLIENT SETINFO LIB-NAME redis-py"), Value::ok());
    assert_eq!(client.line("CLIENT SETINFO lib-ver 1"), Value::ok());
    assert!(client.line("CLIENT SETINFO colour red").error().starts_with("ERR "));
}

#[test]
fn commands_are_listed() {
    let server = start();
    let mut client = server.client();
    let count = client.line("COMMAND COUNT").integer();
    let Value::Array(all) = client.line("COMMAND") else { panic!("a list") };
    assert_eq!(i64::try_from(all.len()), Ok(count));
    let get = client.line("COMMAND INFO get nosuch");
    let Value::Array(described) = get else { panic!("a list") };
    assert!(matches!(&described[0], Value::Array(fields) if fields[0] == Value::bulk("get")));
    assert_eq!(described[1], Value::Nil);
    assert!(matches!(client.line("COMMAND DOCS get").field("get"), Value::Array(_)));
    // Every command that is listed is known.
    let Value::Array(names) = client.line("COMMAND LIST") else { panic!("a list") };
    assert_eq!(i64::try_from(names.len()), Ok(count));
    for name in names {
        let Value::Bulk(name) = name else { panic!("a name") };
        if let Value::Error(text) = server.client().call(&[name]) {
            assert!(!text.contains("unknown command"), "{text}");
        }
    }
}

#[test]
fn counts_are_told() {
    let server = start();
    let mut client = server.client();
    client.line("SET k v");
    for _ in 0..10 {
        client.line("GET missing");
    }
    client.line("GET k");
    client.line("nosuch");
    let stats = client.line("TS.STATS");
    assert_eq!(stats.field("keys").integer(), 1);
    assert_eq!(stats.field("queries").integer(), 11);
    assert!(stats.field("reads_avoided").integer() >= 9, "a miss is looked up at most once");
    assert!(stats.field("filter_bytes").integer() > 0);
    let p50 = stats.field("miss_p50_nanoseconds").integer();
    assert!((1..60_000_000_000).contains(&p50), "{p50}");
    assert_eq!(stats.field("remove_p99_nanoseconds").integer(), 0);
    let Value::Bulk(info) = client.line("INFO") else { panic!("a text") };
    let info = String::from_utf8(info).expect("text");
    for line in [
        "# Server",
        "twiceshy_backend:embedded",
        "connected_clients:1",
        "keys:1",
        "total_commands_processed:14",
        "total_error_replies:1",
    ] {
        assert!(info.lines().any(|found| found == line), "no {line} in {info}");
    }
    let Value::Bulk(info) = client.line("INFO clients") else { panic!("a text") };
    assert!(info.starts_with(b"# Clients\r\n") && !info.contains(&b'S'));
    assert_eq!(client.line("TS.SNAPSHOT"), Value::ok());
}

#[test]
fn what_it_does_not_do_it_refuses() {
    let server = start();
    let mut client = server.client();
    for line in ["SET k v EX 10", "SET k v NX", "SET k v GET", "SET k v PX 1 XX"] {
        let error = client.line(line);
        assert!(error.error().starts_with("ERR SET with options is for a filter in"), "{error:?}");
    }
    assert_eq!(client.line("GET k"), Value::Nil);
    assert!(client.line("TS.ADDED k").error().contains("use SET"));
    assert!(client.line("TS.REMOVED k").error().contains("use DEL"));
}

#[test]
fn a_password_comes_first() {
    let server = start_with(Limits::default(), Some("open sesame"));
    const NOAUTH: &str = "NOAUTH Authentication required.";
    const WRONG: &str = "WRONGPASS invalid username-password pair or user is disabled.";
    let mut client = server.client();
    for line in ["GET k", "SET k v", "PING", "INFO", "TS.STATS", "COMMAND", "CLIENT ID"] {
        assert_eq!(client.line(line).error(), NOAUTH, "{line}");
    }
    assert!(client.line("HELLO 3").error().starts_with("NOAUTH HELLO must be called"));
    assert_eq!(client.call(&["AUTH", "open"]).error(), WRONG);
    assert_eq!(client.call(&["AUTH", "somebody", "open sesame"]).error(), WRONG);
    assert_eq!(client.line("HELLO 3 AUTH default wrong").error(), WRONG);
    assert_eq!(client.line("GET k").error(), NOAUTH);
    assert_eq!(client.call(&["AUTH", "open sesame"]), Value::ok());
    assert_eq!(client.line("SET k v"), Value::ok());
    let mut other = server.client();
    let hello = other.call(&["HELLO", "3", "AUTH", "default", "open sesame"]);
    assert!(matches!(hello, Value::Map(_)), "{hello:?}");
    assert_eq!(other.line("GET k"), Value::bulk("v"));
    // In one pipeline, what comes before the password is refused.
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let password = vec![b"AUTH".to_vec(), b"open sesame".to_vec()];
    let replies = server.client().pipeline(&[words("GET k"), password, words("GET k")]);
    let replies = replies.expect("three replies");
    assert_eq!(replies[1..], [Value::ok(), Value::bulk("v")]);
    assert_eq!(replies[0].error(), NOAUTH);
}
