use super::length::LENGTH;
use super::*;

/// All requests of some bytes, in pieces of `step` bytes, and what stopped it.
fn read(bytes: &[u8], step: usize, limits: &Limits) -> (Vec<Request>, Option<String>) {
    let (mut requests, mut buffer, mut found) = (Requests::default(), BytesMut::new(), Vec::new());
    for piece in bytes.chunks(step) {
        buffer.extend_from_slice(piece);
        loop {
            match requests.next(&mut buffer, limits, false) {
                Ok(Some(request)) => found.push(std::mem::take(request)),
                Ok(None) => break,
                Err(Unusable::Protocol(reason) | Unusable::TooLarge(reason)) => {
                    return (found, Some(reason));
                }
                Err(Unusable::Foreign) => return (found, Some("foreign".into())),
            }
        }
    }
    (found, None)
}

fn request(words: &[&'static str]) -> Request {
    words.iter().map(|&word| word.into()).collect()
}

#[test]
fn the_same_requests_in_pieces_of_any_size() {
    let resp = b"\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n\r\n*0\r\n*-1\r\n\n\
                 *3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\n*1\r\n$4\r\nQU";
    let expected = [request(&["GET", "k"]), request(&["SET", "", "\r\n\r\n"])];
    let lines = b"\r\n\nPING\r\n\r\n  set a 'b c' \nGET";
    let typed = [request(&["PING"]), request(&["set", "a", "b c"])];
    for (bytes, expected) in [(&resp[..], expected), (&lines[..], typed)] {
        for step in 1..=bytes.len() {
            let (found, error) = read(bytes, step, &Limits::default());
            assert_eq!(found, expected, "pieces of {step} bytes");
            assert_eq!(error, None);
        }
    }
}

/// Or what looks like a request within the body of another protocol would be one.
#[test]
fn a_connection_speaks_one_form() {
    for (bytes, expected, requests) in [
        ("*1\r\n$4\r\nPING\r\nPING\r\n", "expected '*', got 'P'", 1),
        ("*0\r\nPING\r\n", "expected '*', got 'P'", 0),
        ("*0\r\n\r\n PING\r\n", "expected '*', got ' '", 0),
        (
            "PING\r\n*1\r\n$4\r\nPING\r\n",
            "expected a line, got RESP; open another connection for it",
            1,
        ),
        ("POST / HTTP/1.1\r\n\r\nSET a b\r\n", "foreign", 0),
        ("\r\n\r\nPOST / HTTP/1.1\r\n\r\nSET a b\r\n", "foreign", 0),
        ("PING\nGET / HTTP/1.1\r\n\r\nSET a b\r\n", "foreign", 1),
        ("*1 / HTTP/1.1\r\nSET a b\r\n", "invalid multibulk length", 0),
    ] {
        for step in 1..=bytes.len() {
            let (found, error) = read(bytes.as_bytes(), step, &Limits::default());
            assert_eq!((found.len(), error.as_deref()), (requests, Some(expected)), "{bytes:?}");
        }
    }
}

#[test]
fn a_request_that_is_skipped_ends_where_it_would_have() {
    let bytes = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123\r\n6789\r\n*1\r\n$4\r\nPING\r\n";
    let end = bytes.len() - 14;
    for at in 5..end {
        let (mut requests, mut buffer) = (Requests::default(), BytesMut::from(&bytes[..at]));
        assert_eq!(requests.next(&mut buffer, &Limits::default(), false), Ok(None));
        requests.skip();
        let mut found = Vec::new();
        for byte in &bytes[at..] {
            assert!(requests.memory() == 0 && buffer.len() < LENGTH, "nothing is kept");
            if let Some(request) =
                requests.next(&mut buffer, &Limits::default(), false).expect("requests")
            {
                found.push(std::mem::take(request));
            }
            buffer.extend_from_slice(&[*byte]);
        }
        let last = requests.next(&mut buffer, &Limits::default(), false).expect("requests");
        found.extend(last.map(std::mem::take));
        assert_eq!(found, [request(&[]), request(&["PING"])], "skipped at {at}");
    }
}

#[test]
fn what_is_no_request_says_why() {
    let limits = Limits { bulk: 100, request: 150, ..Limits::default() };
    for (bytes, expected) in [
        (
            "*1\r\n$600000000\r\n",
            "an argument has 600000000 bytes, and at most 100 are allowed (--max-bulk)",
        ),
        ("*1\r\n$-1\r\n", "invalid bulk length"),
        ("*1\r\n$x\r\n", "invalid bulk length"),
        ("*1\r\n$99999999999999999999\r\n", "invalid bulk length"),
        ("*1048577\r\n", "invalid multibulk length"),
        ("*x\r\n", "invalid multibulk length"),
        ("*00000000000000000000000000000000001\r\n", "too big multibulk length"),
        ("*1\r\n$00000000000000000000000000000000001\r\n", "too big bulk length"),
        ("*1\r\n:1\r\n", "expected '$', got ':'"),
        ("*1\r\n$1\r\nabc", "expected CRLF after a bulk string"),
        ("get \"k\n", "unbalanced quotes in request"),
        ("get 'k'x\n", "unbalanced quotes in request"),
    ] {
        let (found, error) = read(bytes.as_bytes(), 1, &limits);
        assert_eq!((found.len(), error.as_deref()), (0, Some(expected)), "{bytes:?}");
    }
    let two = format!("*2\r\n$90\r\n{}\r\n$90\r\n", "a".repeat(90));
    let (_, error) = read(two.as_bytes(), 7, &limits);
    assert_eq!(error.as_deref(), Some("the request has more than 150 bytes (--max-request)"));
    let long = "a".repeat(LINE);
    let (_, error) = read(long.as_bytes(), LINE, &limits);
    assert_eq!(error.as_deref(), Some("too big inline request"));
}

#[test]
fn strangers_have_few_arguments() {
    let mut buffer = BytesMut::from("*11\r\n");
    let mut requests = Requests::default();
    let error = requests.next(&mut buffer, &Limits::default(), true);
    assert_eq!(error, wrong("invalid multibulk length"));
}
