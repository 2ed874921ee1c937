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
    memory: 1 << 20,
    connections: 4,
    idle: Some(Duration::from_secs(300)),
};

#[test]
fn what_is_too_large_is_refused_at_once() {
    let server = start_with(SMALL, None);
    for (bytes, expected) in [
        // Only the length has come.
        (
            "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1025\r\n".to_string(),
            "an argument has 1025 bytes, and at most 1024 are allowed (--max-bulk)",
        ),
        ("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$x\r\n".to_string(), "invalid bulk length"),
        (
            "*9\r\n".to_string()
                + &format!("$1000\r\n{}\r\n", "x".repeat(1000)).repeat(4)
                + "$97\r\n",
            "the request has more than 4096 bytes (--max-request)",
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
    let seven = client.line("MGET 0 1 2 3 4 5 6");
    assert_eq!(seven, Value::Array(vec![Value::bulk(&largest); 7]));
    let error = client.line("MGET 0 1 2 3 4 5 6 7");
    assert!(error.error().contains("more than 8192 bytes; ask for fewer keys"), "{error:?}");
    let error = client.line(&format!("COMMAND INFO{}", " get".repeat(200)));
    assert!(error.error().contains("more than 8192 bytes"), "{error:?}");
    assert_eq!(client.line("GET 8"), Value::bulk(&largest));
    let long = client.call(&["CLIENT", "SETNAME", &"n".repeat(257)]);
    assert!(long.error().contains("at most 256 bytes"), "{long:?}");
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
    // Long enough for a busy machine to find out that the server reads no more.
    let limits = Limits { reply: 1 << 20, idle: Some(Duration::from_secs(4)), ..Limits::default() };
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

/// What has no room waits until the client reads, whatever the command, and then comes in
/// its order.
#[test]
fn replies_that_wait_hold_the_next_ones_up_and_lose_none() {
    let limits = Limits { reply: 100_000, bulk: 60_000, ..Limits::default() };
    let server = start_with(limits, None);
    let values: Vec<Vec<u8>> = [0, 1, 20_000, 40_000, 60_000]
        .iter()
        .zip(b'a'..)
        .map(|(&size, letter)| vec![letter; size])
        .collect();
    let mut client = server.client();
    for (key, value) in values.iter().enumerate() {
        assert_eq!(client.call(&[&b"SET"[..], key.to_string().as_bytes(), value]), Value::ok());
    }
    let mut requests: Vec<(Vec<Vec<u8>>, Value)> = Vec::new();
    let stored = |key: usize| values.get(key).map_or(Value::Nil, Value::bulk);
    for round in 0..40 {
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        for key in 0..7 {
            let key = (key * 3 + round) % 7;
            requests.push((words(&["GET", &key.to_string()]), stored(key)));
        }
        requests.push((
            words(&["MGET", "0", "6", "4"]),
            Value::Array(vec![stored(0), Value::Nil, stored(4)]),
        ));
        requests.push((vec![b"ECHO".to_vec(), values[4].clone()], stored(4)));
        requests.push((words(&["EXISTS", "1", "4", "9"]), Value::Integer(2)));
        requests.push((words(&["SET", "5", "five"]), Value::ok()));
        requests.push((words(&["GET", "5"]), Value::bulk("five")));
        requests.push((words(&["DEL", "5"]), Value::Integer(1)));
        requests.push((words(&["PING"]), Value::Simple("PONG".into())));
    }
    let bytes: Vec<u8> = requests.iter().flat_map(|(words, _)| request(words)).collect();
    // Who sends all before it reads would wait for ever: the server does not read on.
    let mut socket = client.stream.get_ref().try_clone().expect("a socket");
    std::thread::scope(|scope| {
        scope.spawn(move || socket.write_all(&bytes).expect("it reads"));
        for (index, (words, expected)) in requests.iter().enumerate() {
            let reply = client.receive().expect("a reply");
            assert!(reply == *expected, "request {index}: {}", words[0].escape_ascii());
        }
    });
    eventually("all memory is given back", || server.server.memory_of_clients() == 0);
}

/// When all connections together have no memory left, large requests and replies are
/// refused and small ones are not; when a client has read its replies, all is well again.
#[test]
fn without_memory_large_requests_are_refused() {
    let limits = Limits { memory: 8 << 20, ..Limits::default() };
    let server = start_with(limits, None);
    let mut client = server.client();
    let megabyte = vec![b'x'; 1 << 20];
    assert_eq!(client.call(&[&b"SET"[..], b"large", &megabyte]), Value::ok());
    assert_eq!(client.line("SET small value"), Value::ok());
    // More than all memory, for a client that reads.
    client.send(&request(&["GET", "large"]).repeat(30)).expect("it reads");
    for index in 0..30 {
        assert!(client.receive().expect("a reply") == Value::bulk(&megabyte), "reply {index}");
    }
    // Parts of requests, of which about fifteen have room.
    let said = vec![b'y'; 1 << 19];
    let echo = request(&[&b"ECHO"[..], &said]);
    let (most, rest) = echo.split_at(400_000);
    let mut greedy: Vec<Client> = (0..40).map(|_| server.client()).collect();
    for client in &mut greedy {
        client.send(most).expect("it reads");
    }
    eventually("all memory is taken", || {
        server.server.memory_of_clients() + megabyte.len() > limits.memory
    });
    for words in
        [&[&b"SET"[..], b"other", &megabyte][..], &[b"GET", b"large"], &[b"MGET", b"large"]]
    {
        let refused = client.call(words);
        assert!(refused.error().starts_with("OOM "), "{refused:?}");
        assert!(refused.error().contains("--max-memory-clients"), "{refused:?}");
    }
    assert_eq!(client.line("GET small"), Value::bulk("value"));
    assert_eq!(client.line("GET missing"), Value::Nil);
    assert_eq!(client.line("EXISTS large other"), Value::Integer(1));
    assert_eq!(client.line("SET small again"), Value::ok());
    assert!(server.server.memory_of_clients() <= limits.memory);
    // Each is answered, and can go on, whether there was room for it or not.
    let mut refused = 0;
    for client in &mut greedy {
        client.send(rest).expect("it reads");
        match client.receive().expect("a reply") {
            Value::Error(text) if text.starts_with("OOM ") => refused += 1,
            reply => assert!(reply == Value::bulk(&said)),
        }
        assert_eq!(client.line("GET small"), Value::bulk("again"));
    }
    assert!((10..40).contains(&refused), "{refused} of 40 were refused");
    eventually("all memory is given back", || server.server.memory_of_clients() == 0);
    assert_eq!(client.call(&[&b"SET"[..], b"other", &megabyte]), Value::ok());
    assert_eq!(client.line("GET large"), Value::bulk(&megabyte));
}

#[test]
fn wrong_passwords_come_late_and_end_the_connection() {
    let server = start_with(Limits::default(), Some("right"));
    let begin = Instant::now();
    let mut client = server.client();
    for guess in 0..5 {
        let wrong = client.call(&["AUTH", &guess.to_string()]);
        assert!(wrong.error().starts_with("WRONGPASS"), "{wrong:?}");
        // Meanwhile nobody else waits.
        let mut other = server.client();
        assert_eq!(other.line("AUTH right"), Value::ok());
    }
    assert!(begin.elapsed() >= 5 * Duration::from_millis(500), "{:?}", begin.elapsed());
    assert!(client.receive().is_err(), "the connection has ended");
}

/// Who opens a connection for each guess, and does not wait for the reply, is stopped all
/// the same: ten guesses at once are looked at, and then two each second.
#[test]
fn many_connections_do_not_guess_faster() {
    let server = start_with(Limits::default(), Some("right"));
    let begin = Instant::now();
    let mut clients: Vec<Client> = (0..60).map(|_| server.client()).collect();
    for client in &mut clients {
        client.send(&request(&["AUTH", "wrong"])).expect("it reads");
    }
    let (mut looked_at, mut refused) = (0, 0);
    for client in &mut clients {
        match client.receive().expect("a reply").error() {
            error if error.starts_with("WRONGPASS") => looked_at += 1,
            error if error.starts_with("ERR too many wrong passwords") => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(looked_at + refused, 60);
    // Ten at once, one each half second, and a wait of at most four seconds.
    let most = 10 + 8 + 2 * (begin.elapsed().as_secs() + 1);
    assert!(looked_at <= most, "{looked_at} of 60 were looked at in {:?}", begin.elapsed());
}

/// Most clients send all of a request before they read: the reason has to wait for them.
#[test]
fn a_value_that_is_too_large_is_refused_with_the_reason() {
    let server = start();
    let mut client = server.client();
    // More than all buffers between here and there.
    let value = vec![b'x'; 48 << 20];
    let refused = client.try_call(&[&b"SET"[..], b"k", &value]).expect("the reason");
    let said = "ERR Protocol error: an argument has 50331648 bytes, and at most 16777216 are \
                allowed (--max-bulk)";
    assert_eq!(refused.error(), said);
    assert!(client.receive().is_err(), "the connection has ended");
    assert_eq!(server.client().line("EXISTS k"), Value::Integer(0));
}
