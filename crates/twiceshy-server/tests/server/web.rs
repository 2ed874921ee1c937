//! Nothing that comes by HTTP is executed: a web page can have a browser send requests to
//! this machine, with a body that the page chooses.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::time::Duration;

use crate::client::Value;
use crate::harness::{Running, eventually, have, start};
use crate::page::browser::{ELSEWHERE, Scheme, between, visit};

/// What an attacker wants to have executed.
const BODY: &str = "\r\nSET pwned x\r\n*3\r\n$3\r\nSET\r\n$5\r\npwned\r\n$1\r\nx\r\nQUIT\r\n";

fn assert_nothing_stored(server: &Running, what: &str) {
    // Beside the attacker, who may still be at it.
    eventually("the attacker has gone", || server.server.traffic.open() == 0);
    assert_eq!(server.client().line("DBSIZE"), Value::Integer(0), "{what}");
    eventually("we have gone", || server.server.traffic.open() == 0);
}

/// Sends bytes in pieces and reads until the connection ends.
fn answer(server: &Running, bytes: &[u8], piece: usize) -> Vec<u8> {
    let mut socket = TcpStream::connect(server.address).expect("it listens");
    socket.set_nodelay(true).expect("it can");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("it can");
    for part in bytes.chunks(piece) {
        // It may have ended before.
        let _ = socket.write_all(part);
    }
    let _ = socket.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    answer
}

#[test]
fn http_in_all_its_forms_is_not_executed() {
    let server = start();
    let long = "x".repeat(70_000);
    let mut requests = Vec::new();
    for method in [
        "GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH", "CONNECT", "TRACE", "PROPFIND",
        "post", "SET", "MSET", "DEL", "'SET", "\"SET", "*3", "$3", "*",
    ] {
        for target in ["/", "/a b", "http://example.com/", "*", "/\"", "x"] {
            requests.push(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n{BODY}"));
        }
    }
    for start in [
        "Host: 127.0.0.1\r\n",
        "host:a\r\n",
        "Content-Length: 100\r\nPOST / HTTP/1.1\r\n",
        "\r\n\r\nPOST / HTTP/1.1\r\n",
        "POST / HTTP/1.0\n\n",
        "POST /\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2d\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        // TLS: a page may choose the ticket of a session, and a host name.
        "\x16\x03\x01\x02\x00\x01\x00\n",
        "\0\r\n",
    ] {
        requests.push(format!("{start}{BODY}"));
    }
    requests.push(format!("GET /{long} HTTP/1.1\r\n\r\n{BODY}"));
    requests.push(format!("POST / HTTP/1.1\r\nCookie: {long}\r\n\r\n{BODY}"));
    for request in &requests {
        let shown = &request[..request.len().min(80)];
        for piece in [request.len(), 7] {
            if piece < 10 && request.len() > 1000 {
                continue;
            }
            let answer = answer(&server, request.as_bytes(), piece);
            let text = String::from_utf8_lossy(&answer);
            // Nothing but an error, if anything at all.
            assert!(text.is_empty() || text.starts_with("-ERR Protocol error"), "{shown}: {text}");
            assert!(!text.contains("+OK"), "{shown}: {text}");
        }
    }
    assert_nothing_stored(&server, "raw HTTP");
    // The test is about something: this is how a person stores a key.
    assert_eq!(answer(&server, b"SET typed x\r\nGET typed\r\n", 100), b"+OK\r\n$1\r\nx\r\n");
}

#[test]
fn curl_stores_nothing() {
    if !have("curl") {
        return;
    }
    let server = start();
    let url = format!("http://{}/", server.address);
    let tls = format!("https://{}/", server.address);
    let set = format!("{url}pwned");
    let body = ["--data-binary", BODY];
    for arguments in [
        &["-X", "POST", body[0], body[1], &url][..],
        &["-X", "POST", "-H", "Transfer-Encoding: chunked", body[0], body[1], &url],
        &["-X", "PUT", "-H", "Expect:", body[0], body[1], &url],
        &["-X", "GET", body[0], body[1], &url],
        &["--http1.0", body[0], body[1], &url],
        &["--http2-prior-knowledge", body[0], body[1], &url],
        // Two on one connection, if it stays open.
        &[body[0], body[1], &url, &url],
        &["-X", "SET", &set],
        &["-X", "SET pwned", &url],
        &["-H", "Host:", body[0], body[1], &url],
        &["-k", body[0], body[1], &tls],
    ] {
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "20", "--noproxy", "*"]).args(arguments);
        let before = server.server.traffic.accepted();
        let output = command.output().expect("curl runs");
        assert!(!output.status.success(), "{arguments:?} was answered: {output:?}");
        assert!(output.status.code() != Some(28), "{arguments:?}: it is closed at once");
        assert!(server.server.traffic.accepted() > before, "{arguments:?}: it has connected");
        assert_nothing_stored(&server, &format!("{arguments:?}"));
    }
}

/// What a page of an attacker does: requests that need nobody's leave, and forms.
const PAGE: &str = r#"<!doctype html><title>attack</title><link rel="icon" href="data:,">
<iframe name="frame"></iframe><script>
const server = "http://SERVER/";
const body = "\r\nSET pwned x\r\n*3\r\n$3\r\nSET\r\n$5\r\npwned\r\n$1\r\nx\r\nQUIT\r\n";
for (const type of ["text/plain", "application/x-www-form-urlencoded"]) {
  fetch(server, {mode: "no-cors", method: "POST", body, headers: {"Content-Type": type}}).catch(() => {});
}
fetch(server, {mode: "no-cors", method: "POST", body: new Blob([body])}).catch(() => {});
fetch(server, {method: "PUT", body}).catch(() => {});
fetch(server + "pwned", {method: "SET"}).catch(() => {});
navigator.sendBeacon(server, body);
new WebSocket("ws://SERVER/").onerror = () => {};
new Image().src = server + "?\r\nSET pwned x\r\n";
const form = document.createElement("form");
Object.assign(form, {action: server, method: "post", enctype: "text/plain", target: "frame"});
const field = document.createElement("textarea");
Object.assign(field, {name: body + "a", value: body});
form.append(field);
document.body.append(form);
form.submit();
</script>"#;

#[test]
fn a_page_in_chromium_stores_nothing() {
    let server = start();
    // Not by its address: with that, Chromium sends headers whose quotes end the connection.
    let page = PAGE.replace("SERVER", &format!("{ELSEWHERE}:{}", server.address.port()));
    let attacker = between(move |path| (path == "/").then(|| ("text/html", page.clone())));
    let url = format!("http://{ELSEWHERE}:{}/", attacker.address.port());
    if visit(&url, Scheme::Light).is_none() {
        return;
    }
    let asked = server.server.traffic.accepted();
    assert!(asked >= 5, "the page has reached the server {asked} times");
    assert_nothing_stored(&server, "a page");
}
