//! Just enough HTTP/1.1 for a page: GET and HEAD of a few fixed paths, one request
//! per connection, and limits on everything.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

pub(crate) mod message;

pub(crate) use message::{Request, Response};
use message::{end, parse};

/// The most bytes of a request; browsers send less than 1 KiB.
const REQUEST: usize = 8 << 10;

/// How long a client may take to send its request, and how long to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many bytes, and for how long, a client may still send after its answer.
const DRAINED: u64 = 64 << 10;
const DRAINING: Duration = Duration::from_millis(500);

/// Answers the one request of a connection.
pub(crate) async fn answer(
    mut socket: TcpStream,
    respond: impl AsyncFnOnce(&Request<'_>) -> Response,
) -> io::Result<()> {
    let mut request = Vec::new();
    let head = match timeout(PATIENCE, read_head(&mut socket, &mut request)).await {
        Ok(head) => head?,
        Err(_) => Head::Late,
    };
    let (response, is_head) = match head {
        Head::Whole(end) => match parse(&request[..end]) {
            Ok(request) => (respond(&request).await, request.is_head),
            Err(response) => (response, false),
        },
        Head::TooLong => {
            let text = format!("a request has at most {REQUEST} bytes");
            (Response::error("431 Request Header Fields Too Large", &text), false)
        }
        Head::Late => (Response::error("408 Request Timeout", "ask faster"), false),
        Head::Gone => return Ok(()),
    };
    let bytes = response.bytes(is_head);
    if timeout(PATIENCE, socket.write_all(&bytes)).await.is_err() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    socket.shutdown().await?;
    // Closing a socket with unread bytes would discard the answer.
    let (mut rest, mut nowhere) = (socket.take(DRAINED), tokio::io::sink());
    let _ = timeout(DRAINING, tokio::io::copy(&mut rest, &mut nowhere)).await;
    Ok(())
}

/// How much of a request has come.
enum Head {
    /// All of it; it ends there.
    Whole(usize),
    TooLong,
    Late,
    Gone,
}

async fn read_head(socket: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<Head> {
    let mut looked = 0;
    loop {
        if let Some(end) = end(bytes, &mut looked) {
            return Ok(Head::Whole(end));
        }
        if bytes.len() >= REQUEST {
            return Ok(Head::TooLong);
        }
        let mut rest = (&mut *socket).take((REQUEST - bytes.len()) as u64);
        if rest.read_buf(bytes).await? == 0 {
            return Ok(Head::Gone);
        }
    }
}
