//! Good and bad clients of the page's port.

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::shown::{read, show, show_with};

#[test]
fn paths_have_their_kinds() {
    let shown = show();
    for (path, kind) in [
        ("/", "text/html; charset=utf-8"),
        ("/?from=somewhere", "text/html; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/script.js", "text/javascript; charset=utf-8"),
        ("/guide", "text/plain; charset=utf-8"),
        ("/stats.json", "application/json"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
    ] {
        let got = shown.get(path);
        assert_eq!(got.status, 200, "{path}");
        assert!(got.head.contains(&format!("\r\nContent-Type: {kind}\r\n")), "{}", got.head);
        let length = format!("\r\nContent-Length: {}\r\n", got.body.len());
        assert!(got.head.contains(&length), "{}", got.head);
        assert!(got.head.contains("default-src 'none'; script-src 'self';"), "{}", got.head);
    }
    for (path, body) in [("/healthz", "alive\n"), ("/readyz", "ready\n")] {
        let got = shown.get(path);
        assert_eq!((got.status, &*got.body), (200, body), "{path}");
    }
    // The last two are for demonstrations.
    for path in [
        "/favicon.ico",
        "/../Cargo.toml",
        "/style.css/",
        "//",
        "/%2e%2e/",
        "/METRICS",
        "/lookup?key=a",
        "/mistake",
    ] {
        assert_eq!(shown.get(path).status, 404, "{path}");
    }
    let head = shown.say(b"HEAD / HTTP/1.1\r\n\r\n");
    let whole = shown.get("/");
    assert_eq!((head.status, &*head.body), (200, ""));
    assert_eq!(head.head, whole.head);
}

#[test]
fn what_is_no_question_is_refused() {
    let shown = show();
    for (bytes, status) in [
        (&b"\r\n\r\n"[..], 400),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /\xff\xfe HTTP/1.1\r\n\r\n", 400),
        (b"GET http://127.0.0.1/ HTTP/1.1\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", 405),
        (b"OPTIONS / HTTP/1.1\r\n\r\n", 405),
        (b"*1\r\n$4\r\nPING\r\n\r\n", 400),
    ] {
        let got = shown.say(bytes);
        assert_eq!(got.status, status, "{}", String::from_utf8_lossy(bytes));
    }
    let post = shown.say(b"POST / HTTP/1.1\r\n\r\n");
    assert!(post.head.contains("\r\nAllow: GET, HEAD"), "{}", post.head);
    // A body that nobody reads does not take the answer away.
    let body = [&b"POST / HTTP/1.1\r\n\r\n"[..], &vec![b'x'; 50_000]].concat();
    assert_eq!(shown.say(&body).status, 405);
    let huge = [&b"GET / HTTP/1.1\r\nX: "[..], &vec![b'x'; 40_000], b"\r\n\r\n"].concat();
    assert_eq!(shown.say(&huge).status, 431);
    let endless = vec![b'x'; 8 << 10];
    assert_eq!(shown.say(&endless).status, 431);
    assert_eq!(shown.get("/").status, 200);
}

#[test]
fn pages_from_elsewhere_are_not_answered() {
    let shown = show();
    for (host, status) in [("localhost:1", 200), ("[::1]", 200), ("example.com", 421)] {
        let request = format!("GET /stats.json HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(shown.say(request.as_bytes()).status, status, "{host}");
    }
}

#[test]
fn a_password_is_asked_for() {
    let shown = show_with(Some("open sesame"));
    for path in ["/", "/stats.json", "/metrics", "/nowhere"] {
        let got = shown.get(path);
        assert_eq!(got.status, 401, "{path}");
        assert!(got.head.contains("\r\nWWW-Authenticate: Basic realm="), "{}", got.head);
    }
    // Whoever watches over processes has none.
    for path in ["/healthz", "/readyz"] {
        assert_eq!(shown.get(path).status, 200, "{path}");
    }
    let with = |credentials: &str| {
        let request = format!("GET /metrics HTTP/1.1\r\nAuthorization: {credentials}\r\n\r\n");
        shown.say(request.as_bytes()).status
    };
    // "anybody:open sesame", ":open sesame", "anybody:open", "open sesame".
    assert_eq!(with("Basic YW55Ym9keTpvcGVuIHNlc2FtZQ=="), 200);
    assert_eq!(with("basic Om9wZW4gc2VzYW1l"), 200);
    assert_eq!(with("Basic YW55Ym9keTpvcGVu"), 401);
    assert_eq!(with("Basic b3BlbiBzZXNhbWU="), 401);
    assert_eq!(with("Basic !!!"), 401);
    assert_eq!(with("Bearer YW55Ym9keTpvcGVuIHNlc2FtZQ=="), 401);
}

/// Seventy clients that say nothing or little take all places, for five seconds.
#[test]
fn slow_clients_are_left() {
    let shown = show();
    let begin = Instant::now();
    let mut idle: Vec<_> = (0..70).map(|_| shown.connect()).collect();
    idle[0].write_all(b"GET / HT").expect("sent");
    // All places are taken: a client that comes now is hung up on.
    let mut late = shown.connect();
    let _ = late.write_all(b"GET / HTTP/1.1\r\n\r\n");
    assert!(read(&mut late).is_err());
    let slow = read(&mut idle[0]).expect("an answer");
    assert_eq!(slow.status, 408);
    let waited = begin.elapsed();
    assert!((Duration::from_secs(4)..Duration::from_secs(15)).contains(&waited), "{waited:?}");
    drop(idle);
    crate::harness::eventually("places are free again", || {
        let mut socket = shown.connect();
        let _ = socket.write_all(b"GET / HTTP/1.1\r\n\r\n");
        read(&mut socket).is_ok_and(|got| got.status == 200)
    });
}
