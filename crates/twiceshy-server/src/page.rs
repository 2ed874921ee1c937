//! The live page and `/metrics`, on a port of their own.
//!
//! | path | what |
//! | --- | --- |
//! | `/` | the page, with `/style.css` and `/script.js` |
//! | `/guide` | what its numbers mean: `docs/guide/operating.md` |
//! | `/stats.json` | what it shows: a [`Report`](crate::Report) |
//! | `/metrics` | counts for Prometheus |
//! | `/healthz` | 200: the process is alive |
//! | `/readyz` | 200 if the filter is relied on and the store answers, else 503 |
//! | `/lookup?key=` | in a demonstration: what happens to a key |
//! | `/mistake` | in a demonstration: the same for a key that the filter is wrong about |
//!
//! The page shows numbers, never keys, but for those of a demonstration. If the server has a password, the page asks for it,
//! with any user name; `/healthz` and `/readyz` tell anybody. Without one it answers only this machine, and only under its own
//! names, so that a page from elsewhere whose host name resolves to this machine gets nothing.

mod lookup;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use crate::guesses;
use crate::http::{self, Request, Response};
use crate::prometheus;
use crate::server::Server;
use crate::watch::Watch;

/// The most connections at a time: a few pages and collectors.
const CONNECTIONS: usize = 64;

/// How long to wait when there are no files left for connections.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// How long answers may take when the server stops.
const GRACE: Duration = Duration::from_millis(200);

/// Serves the page of a watched server, and keeps the watch running, until `shutdown` completes.
pub async fn serve_page(
    listener: TcpListener,
    watch: Arc<Watch>,
    shutdown: impl Future<Output = ()>,
) {
    let mut tasks = JoinSet::new();
    let accept = async {
        loop {
            let accepted = listener.accept().await;
            while tasks.try_join_next().is_some() {}
            match accepted {
                // Dropping the socket closes it; the page retries.
                Ok(_) if tasks.len() >= CONNECTIONS => debug!("page: too many connections"),
                Ok((socket, address)) => {
                    let watch = Arc::clone(&watch);
                    tasks.spawn(async move {
                        let route = async |request: &Request<'_>| {
                            route(request, address.ip(), &watch).await
                        };
                        let answered = http::answer(socket, route).await;
                        if let Err(error) = answered {
                            debug!(%error, "page: closed");
                        }
                    });
                }
                Err(error) => {
                    warn!(%error, "page: cannot accept a connection");
                    sleep(EXHAUSTED).await;
                }
            }
        }
    };
    tokio::select! {
        () = shutdown => (),
        () = watch.run() => (),
        () = accept => (),
    }
    // Answers are short; connections without a request are cut off.
    let _ = timeout(GRACE, async { while tasks.join_next().await.is_some() {} }).await;
    tasks.shutdown().await;
}

async fn route(request: &Request<'_>, address: IpAddr, watch: &Watch) -> Response {
    match request.path {
        "/healthz" => return plain("alive\n"),
        "/readyz" => return ready(watch.server()).await,
        _ => (),
    }
    if let Err(response) = admit(request, address, watch.server()).await {
        return response;
    }
    match request.path {
        "/" => Response::ok("text/html; charset=utf-8", include_str!("page/index.html")),
        "/style.css" => Response::ok("text/css; charset=utf-8", include_str!("page/style.css")),
        "/script.js" => {
            Response::ok("text/javascript; charset=utf-8", include_str!("page/script.js"))
        }
        "/stats.json" => {
            let report = watch.report(watch.server().backend.health().await);
            let report = serde_json::to_string(&report);
            Response::ok("application/json", report.expect("numbers and names are JSON"))
        }
        "/metrics" => {
            let media_type = "text/plain; version=0.0.4; charset=utf-8";
            let server = watch.server();
            Response::ok(media_type, prometheus::text(server, server.backend.health().await))
        }
        "/guide" => Response::ok("text/plain; charset=utf-8", include_str!("page/guide.md")),
        "/lookup" | "/mistake" if watch.server().demo.is_some() => {
            play(request, watch.server()).await
        }
        _ => {
            Response::error("404 Not Found", "there are /, /guide, /metrics, /healthz and /readyz")
        }
    }
}

/// Looks up a key of a demonstration.
async fn play(request: &Request<'_>, server: &Server) -> Response {
    let looked = match (request.path, request.field("key")) {
        ("/mistake", _) => lookup::mistake(server).await,
        (_, Some(key)) => lookup::look_up(server, key).await.map(Some),
        (_, None) => return Response::error("400 Bad Request", "expected: /lookup?key=..."),
    };
    match looked {
        Ok(looked) => {
            let looked = serde_json::to_string(&looked);
            Response::ok("application/json", looked.expect("text and numbers are JSON"))
        }
        Err(failure) => Response::error("500 Internal Server Error", &failure.to_string()),
    }
}

fn plain(text: &'static str) -> Response {
    Response::ok("text/plain; charset=utf-8", text)
}

async fn ready(server: &Server) -> Response {
    match server.backend.health().await.trouble() {
        None => plain("ready\n"),
        Some(trouble) => Response::error("503 Service Unavailable", trouble),
    }
}

/// Whether a client may see the page. A wrong password costs as much as on a connection for
/// commands; otherwise attackers would guess it here.
async fn admit(request: &Request<'_>, address: IpAddr, server: &Server) -> Result<(), Response> {
    let Some(password) = &server.password else {
        return if request.header("Host").is_none_or(is_this_machine) {
            Ok(())
        } else {
            Err(Response::error("421 Misdirected Request", "ask for 127.0.0.1 or localhost"))
        };
    };
    if let Some(said) = guess(request) {
        let Ok(guess) = server.guesses.pay(address) else {
            let text = "too many wrong passwords from your address; try again later";
            return Err(Response::error("429 Too Many Requests", text));
        };
        sleep(guess.wait).await;
        if password.is(said) {
            server.guesses.pay_back(&guess);
            return Ok(());
        }
        if let Some(times) = server.log.wrong_password.count() {
            warn!(%address, times, "page: a wrong password");
        }
        sleep(guesses::PRICE).await;
    }
    let text = "the server's password, with any user name";
    let mut response = Response::error("401 Unauthorized", text);
    response.header = "WWW-Authenticate: Basic realm=\"twiceshy\", charset=\"UTF-8\"\r\n";
    Err(response)
}

/// The password of a request.
fn guess(request: &Request<'_>) -> Option<Vec<u8>> {
    let (scheme, credentials) = request.header("Authorization")?.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("Basic") {
        return None;
    }
    let decoded = BASE64_STANDARD.decode(credentials.trim()).ok()?;
    let colon = decoded.iter().position(|&byte| byte == b':')?;
    Some(decoded[colon + 1..].to_vec())
}

/// Whether a host, with or without a port, is a name of this machine.
fn is_this_machine(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        // The colons of an address in brackets are its own.
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || address.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine() {
        for host in
            ["localhost", "LOCALHOST:6391", "127.0.0.1", "127.0.0.1:6391", "[::1]", "[::1]:1"]
        {
            assert!(is_this_machine(host), "{host}");
        }
        for host in
            ["", "example.com", "localhost.example.com:6391", "127.0.0.1.example.com", "10.0.0.1:1"]
        {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
