//! [`Server`] and [`serve`]: accepting, limiting and closing connections.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::backend::Backend;
use crate::demo::Demo;
use crate::guesses::Guesses;
use crate::latency::Latencies;
use crate::limits::Limits;
use crate::memory::Memory;
use crate::password::Password;
use crate::quiet::Quiet;
use crate::replies::Replies;
use crate::reply::Reply;
use crate::session::Session;

/// What all connections share.
pub struct Server {
    /// What answers the commands.
    pub backend: Backend,
    /// Limits on what a client may use.
    pub limits: Limits,
    /// The password that clients have to give first.
    pub password: Option<Password>,
    /// How long answers took.
    pub latency: Latencies,
    /// Connections and commands so far.
    pub traffic: Traffic,
    /// Where TS.BACKUP makes its copies; without it, TS.BACKUP is refused.
    pub backup_dir: Option<PathBuf>,
    /// What a demonstration tells its page; `None` in earnest.
    pub demo: Option<Demo>,
    /// When it was made.
    pub started: Instant,
    pub(crate) memory: Memory,
    pub(crate) guesses: Guesses,
    pub(crate) log: Log,
}

/// Log lines that clients can cause.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) wrong_password: Quiet,
    pub(crate) foreign: Quiet,
    pub(crate) no_memory: Quiet,
    pub(crate) too_large: Quiet,
}

/// Connections and commands so far.
#[derive(Debug, Default)]
pub struct Traffic {
    pub(crate) accepted: AtomicU64,
    pub(crate) closed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) commands: AtomicU64,
    pub(crate) errors: AtomicU64,
}

impl Traffic {
    /// Connections served so far, open ones included.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections that are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        let closed = self.closed.load(Ordering::Acquire);
        self.accepted() - closed
    }

    /// Connections refused because there were too many.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Requests that were answered.
    #[must_use]
    pub fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Those of them that were answered with an error.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }
}

impl Server {
    /// A server that has not answered anything yet.
    #[must_use]
    pub fn new(backend: Backend, limits: Limits, password: Option<Password>) -> Self {
        Server {
            backend,
            limits,
            password,
            latency: Latencies::default(),
            traffic: Traffic::default(),
            backup_dir: None,
            demo: None,
            started: Instant::now(),
            memory: Memory::default(),
            guesses: Guesses::default(),
            log: Log::default(),
        }
    }

    /// Memory of all connections together in bytes, beyond 64 KiB each.
    #[must_use]
    pub fn memory_of_clients(&self) -> usize {
        self.memory.taken()
    }
}

/// How long connections may take to close when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// How long to wait when there are no files left for connections.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Serves the connections of a listener until `shutdown` completes. Requests received by then
/// are still answered, and connections are closed.
pub async fn serve(listener: TcpListener, server: Arc<Server>, shutdown: impl Future<Output = ()>) {
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((socket, address)) if tasks.len() < server.limits.connections => {
                let id = server.traffic.accepted.fetch_add(1, Ordering::Relaxed) + 1;
                debug!(id, %address, "connected");
                let (server, stop) = (Arc::clone(&server), stop.clone());
                tasks.spawn(async move {
                    let closed = Closed(&server.traffic);
                    match Session::new(&server, id, address.ip()).run(socket, stop).await {
                        Ok(reason) => debug!(id, reason, "closed"),
                        Err(error) => debug!(id, %error, "closed"),
                    }
                    drop(closed);
                });
            }
            Ok((socket, address)) => {
                server.traffic.refused.fetch_add(1, Ordering::Relaxed);
                debug!(%address, "refused: too many connections");
                refuse(socket);
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(EXHAUSTED).await;
            }
        }
    }
    drop(listener);
    stop.cancel();
    server.backend.stop_backups();
    tasks.close();
    if timeout(GRACE, tasks.wait()).await.is_err() {
        info!(connections = tasks.len(), "clients do not read their replies; leaving them");
    }
}

/// Counts the end of a connection, also when it panics.
struct Closed<'a>(&'a Traffic);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.closed.fetch_add(1, Ordering::Release);
    }
}

/// Sends the reason, if that is possible without waiting.
fn refuse(socket: TcpStream) {
    let mut replies = Replies::default();
    replies.reply(Reply::error("max number of clients reached"));
    let bytes = replies.to_vec();
    // The runtime may not know yet that it can be written to; the system does.
    let _ = socket.into_std().and_then(|mut socket| io::Write::write(&mut socket, &bytes));
}
