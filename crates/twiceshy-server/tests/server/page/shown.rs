//! A server with its page, and the least HTTP to ask for it.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use twiceshy_server::{Limits, Watch, serve_page};

use crate::client::Value;
use crate::harness::{Running, start_demo, start_with};

/// A server and its page, which end with their test.
pub struct Shown {
    pub page: SocketAddr,
    pub watch: Arc<Watch>,
    pub running: Running,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

pub fn show() -> Shown {
    show_with(None)
}

pub fn show_with(password: Option<&str>) -> Shown {
    show_page(start_with(Limits::default(), password))
}

/// The page of a demonstration.
pub fn show_demo() -> Shown {
    show_page(start_demo())
}

fn show_page(running: Running) -> Shown {
    let watch = Arc::new(Watch::new(Arc::clone(&running.server)));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let page = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel();
    let thread = thread::spawn({
        let watch = Arc::clone(&watch);
        move || {
            runtime.block_on(serve_page(listener, watch, async {
                let _ = stopped.await;
            }));
        }
    });
    Shown { page, watch, running, stop: Some(stop), thread: Some(thread) }
}

impl Drop for Shown {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && !thread::panicking()
        {
            thread.join().expect("the page does not panic");
        }
    }
}

impl Shown {
    /// Stores 2000 keys, and asks for 1000 of them, 20,000 others, and those again.
    pub fn traffic(&self) {
        let mut client = self.running.client();
        let words = |command: &str, rest: &[String]| {
            let words = [&[command.to_string()], rest].concat();
            words.into_iter().map(String::into_bytes).collect::<Vec<_>>()
        };
        let sets: Vec<_> =
            (0..2000).map(|index| words("SET", &[format!("key:{index}"), "v".into()])).collect();
        client.pipeline(&sets).expect("stored");
        let gets: Vec<_> = (0..1000).map(|index| words("GET", &[format!("key:{index}")])).collect();
        let found = client.pipeline(&gets).expect("found");
        assert!(found.iter().all(|value| *value == Value::bulk("v")));
        for _ in 0..2 {
            for chunk in 0..20 {
                let keys: Vec<String> =
                    (0..1000).map(|index| format!("none:{chunk}:{index}")).collect();
                client.call(&words("MGET", &keys));
            }
        }
    }

    /// Asks for a path.
    pub fn get(&self, path: &str) -> Response {
        get(self.page, path)
    }

    /// Sends bytes and reads until the end.
    pub fn say(&self, bytes: &[u8]) -> Response {
        say(self.page, bytes)
    }

    pub fn connect(&self) -> TcpStream {
        connect(self.page)
    }
}

/// Asks a page for a path.
pub fn get(page: SocketAddr, path: &str) -> Response {
    say(page, format!("GET {path} HTTP/1.1\r\nHost: {page}\r\n\r\n").as_bytes())
}

fn say(page: SocketAddr, bytes: &[u8]) -> Response {
    let mut socket = connect(page);
    // It may have been answered before all is sent.
    let _ = socket.write_all(bytes);
    read(&mut socket).expect("an answer")
}

fn connect(page: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(page).expect("the page listens");
    socket.set_read_timeout(Some(Duration::from_secs(30))).expect("it can");
    socket.set_write_timeout(Some(Duration::from_secs(30))).expect("it can");
    socket
}

/// An answer.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Reads an answer, to the end of the connection.
pub fn read(socket: &mut TcpStream) -> io::Result<Response> {
    let mut bytes = Vec::new();
    socket.read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).expect("text");
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Err(io::Error::other(format!("no answer: {text:?}")));
    };
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
    let status = status.and_then(|code| code.parse().ok()).expect("a status");
    Ok(Response { status, head: head.to_string(), body: body.to_string() })
}
