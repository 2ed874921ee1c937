//! Chromium, and what a page is in it.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::harness::have;

/// What somebody prefers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Light,
    Dark,
}

/// The page's elements after its script has run for some seconds of its own time;
/// `None` where there is no browser and need not be one.
pub fn dom(address: SocketAddr, scheme: Scheme) -> Option<String> {
    visit(&format!("http://{address}/"), scheme)
}

/// A host name that the browser takes for this machine, as after DNS rebinding. To the
/// browser it is not a secure origin, as 127.0.0.1 is.
pub const ELSEWHERE: &str = "attacker.test";

/// [`dom`] of an address, perhaps one of [`ELSEWHERE`].
pub fn visit(url: &str, scheme: Scheme) -> Option<String> {
    if !have("chromium") {
        return None;
    }
    let profile = TempDir::new().expect("a directory");
    let mut command = Command::new("timeout");
    command.args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu"]);
    command.args(["--disable-quic", "--no-first-run", "--disable-background-networking"]);
    command.args(["--disable-component-update", "--disable-sync", "--virtual-time-budget=3500"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    let scheme = u8::from(scheme == Scheme::Light);
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    command.arg(format!("--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"));
    command.arg("--dump-dom").arg(url);
    let output = command.output().expect("chromium runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "chromium failed: {errors}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// The tag and the text of the element with an id.
pub fn element<'a>(dom: &'a str, id: &str) -> (&'a str, &'a str) {
    let at = dom.find(&format!(" id=\"{id}\"")).unwrap_or_else(|| panic!("no {id} in {dom}"));
    let start = dom[..at].rfind('<').expect("a tag");
    let end = at + dom[at..].find('>').expect("its end");
    let text = &dom[end + 1..];
    (&dom[start..end], &text[..text.find("</").expect("an end tag")])
}

/// An attribute of a tag.
pub fn attribute<'a>(tag: &'a str, name: &str) -> &'a str {
    let (_, rest) = tag.split_once(&format!(" {name}=\"")).unwrap_or_else(|| panic!("{tag}"));
    rest.split('"').next().expect("a closing quote")
}

/// Stands between the browser and the page: shows it as on a phone, measures it,
/// and says what was asked for.
pub struct Between {
    pub address: SocketAddr,
    asked: Arc<Mutex<BTreeSet<String>>>,
}

impl Between {
    /// What was asked for.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").iter().cloned().collect()
    }
}

/// A frame as wide as a phone, since a window without a screen is at least 500
/// pixels wide; so high that nothing scrolls. It becomes what it shows.
const PHONE: &str = r#"<!doctype html><html><head>
<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"></head>
<body><iframe src="/page" width="390" height="9000" style="border: 0"></iframe><script>
setTimeout(() => {
  const page = document.querySelector("iframe").contentDocument;
  const measured = document.documentElement.dataset;
  measured.inner = page.defaultView.innerWidth;
  measured.scroll = page.documentElement.scrollWidth;
  measured.ground = page.defaultView.getComputedStyle(page.body).backgroundColor;
  document.body.innerHTML = page.body.innerHTML;
}, 2500);
</script></body></html>"#;

/// Shows what `answer` has for a path, kind and body, or nothing for an error; the
/// page is at `/page`.
pub fn between(
    answer: impl Fn(&str) -> Option<(&'static str, String)> + Send + Sync + 'static,
) -> Between {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let asked = Arc::new(Mutex::new(BTreeSet::new()));
    let answer = Arc::new(answer);
    thread::spawn({
        let asked = Arc::clone(&asked);
        // It ends with the process. A thread each: a browser opens connections on which
        // it says nothing.
        move || {
            for socket in listener.incoming().flatten() {
                let (asked, answer) = (Arc::clone(&asked), Arc::clone(&answer));
                thread::spawn(move || reply(socket, &asked, &*answer));
            }
        }
    });
    Between { address, asked }
}

/// Answers one request.
fn reply(
    mut socket: TcpStream,
    asked: &Mutex<BTreeSet<String>>,
    answer: &dyn Fn(&str) -> Option<(&'static str, String)>,
) {
    let _ = socket.set_read_timeout(Some(Duration::from_secs(30)));
    let mut bytes = [0; 8 << 10];
    let length = socket.read(&mut bytes).unwrap_or(0);
    let request = String::from_utf8_lossy(&bytes[..length]);
    let Some(path) = request.split(' ').nth(1) else { return };
    asked.lock().expect("no panic").insert(path.to_string());
    let found = match path {
        "/" => Some(("text/html", PHONE.to_string())),
        "/page" => answer("/"),
        path => answer(path),
    };
    let (status, (kind, body)) = match found {
        Some(answer) => ("200 OK", answer),
        None => ("500 Oops", ("text/plain", String::new())),
    };
    let _ = write!(
        socket,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    );
}
