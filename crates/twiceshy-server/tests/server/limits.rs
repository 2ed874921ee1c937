//! What a client may not do, and that others do not notice.

use std::io::{ErrorKind, Write as _};
use std::time::{Duration, Instant};

use twiceshy_server::Limits;

use crate::client::{Client, Value, request};
use crate::harness::{eventually, start, start_with};

const SMALL: Limits = Limits {
    request: 4096,
    bulk: 1024,
    reply: 8192,
    connections: 4,
    idle: Some(Duration::from_secs(300)),
};

#[test]
fn what_is_too_large_is_refused_at_once() {
    let server = start_with(SMALL, None);
    for (bytes, expected) in [
        // Only the length has come.
        ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1025\r\n".to_string(), "invalid bulk length"),
        ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$600000000\r\n".to_string(), "invalid bulk length"),
        (
            "*9\r\n".to_string()
                + &format!("$1000\r\n{}\r\n", "x".repeat(1000)).repeat(4)
                + "$97\r\n",
            "the request has more than 4096 bytes",
        ),
        ("x".repeat(65536), "too big inline request"),
    ] {
        let mut client = server.client();
        client.send(bytes.as_bytes()).expect("it reads");
        let error = client.receive().expect("an error");
        assert_eq!(error.error(), format!("ERR Protocol error: {expected}"));
        assert!(client.receive().is_err(), "the connection has ended");
    }
    let mut client = server.client();
    let largest = "v".repeat(1024);
    for key in 0..9 {
        assert_eq!(client.call(&["SET", &key.to_string(), &largest]), Value::ok());
    }
    let eight = client.line("MGET 0 1 2 3 4 5 6 7");
    assert_eq!(eight, Value::Array(vec![Value::bulk(&largest); 8]));
    let error = client.line("MGET 0 1 2 3 4 5 6 7 8");
    assert!(error.error().contains("more than 8192 bytes; ask for fewer keys"), "{error:?}");
    assert_eq!(client.line("GET 8"), Value::bulk(&largest));
}

#[test]
fn strangers_may_say_little() {
    let server = start_with(Limits::default(), Some("x"));
    for bytes in ["*2\r\n$4\r\nAUTH\r\n$16385\r\n", "*11\r\n"] {
        let mut client = server.client();
        client.send(bytes.as_bytes()).expect("it reads");
        assert!(client.receive().expect("an error").error().contains("length"));
        assert!(client.receive().is_err(), "the connection has ended");
    }
}

#[test]
fn too_many_connections_are_told_so() {
    let server = start_with(SMALL, None);
    let mut clients: Vec<Client> = (0..4).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.line("PING"), Value::Simple("PONG".into()));
    }
    let error = server.client().receive().expect("an error");
    assert_eq!(error.error(), "ERR max number of clients reached");
    assert_eq!(server.server.traffic.refused(), 1);
    clients.pop();
    eventually("a place is free", || {
        server.client().try_call(&["PING"]).is_ok_and(|reply| matches!(reply, Value::Simple(_)))
    });
}

#[test]
fn silence_ends_a_connection() {
    // Long enough for a busy machine not to look silent.
    let idle = Duration::from_secs(4);
    let server = start_with(Limits { idle: Some(idle), ..Limits::default() }, None);
    let mut client = server.client();
    // Half a request does not keep it open.
    let begin = Instant::now();
    client.send(b"*2\r\n$3\r\nGET\r\n$1").expect("it reads");
    assert!(client.receive().is_err());
    assert!(begin.elapsed() >= idle, "{:?}", begin.elapsed());
    // Talking does.
    let mut client = server.client();
    let begin = Instant::now();
    while begin.elapsed() < idle + idle / 2 {
        assert_eq!(client.line("PING"), Value::Simple("PONG".into()));
        std::thread::sleep(idle / 50);
    }
}

/// A client that asks and does not read is not read from either, and is left when
/// it has not read for too long.
#[test]
fn who_does_not_read_is_not_served_for_ever() {
    let limits = Limits { reply: 1 << 20, idle: Some(Duration::from_secs(2)), ..Limits::default() };
    let server = start_with(limits, None);
    let value = vec![b'x'; 100_000];
    assert_eq!(server.client().call(&[&b"SET"[..], b"k", &value]), Value::ok());
    let client = server.client();
    let mut socket = client.stream.get_ref();
    socket.set_write_timeout(Some(Duration::from_millis(200))).expect("a timeout");
    let gets = request(&["GET", "k"]).repeat(1000);
    let mut sent = 0_usize;
    let error = loop {
        match socket.write(&gets) {
            Ok(bytes) => sent += bytes,
            Err(error) => break error,
        }
        // 2,000,000 requests for 100 kB each.
        assert!(sent < 50 << 20, "the server reads on and on");
    };
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    assert_eq!(server.client().line("PING"), Value::Simple("PONG".into()));
    eventually("it is left", || server.server.traffic.open() == 0);
}

#[test]
fn half_requests_are_forgotten() {
    let server = start();
    let whole = request(&["SET", "key", "value"]);
    for length in 1..whole.len() {
        server.client().send(&whole[..length]).expect("it reads");
    }
    let traffic = &server.server.traffic;
    eventually("all have come and gone", || {
        traffic.accepted() == whole.len() as u64 - 1 && traffic.open() == 0
    });
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(0));
}
