//! [`Upstream`]: an external store, as a [`Shield`](crate::Shield) needs it.

use std::borrow::Cow;
use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Mutex, mpsc};
use tokio::time::timeout;
use tracing::{info, warn};

use crate::backend::{Failure, Fetched};

/// A store that stays as it is. It answers lookups, and takes writes if [`Upstream::WRITES`].
///
/// Keys are in the form of [`Upstream::canonical`]. An answer that does not come in time is a
/// [`Failure::Upstream`].
pub trait Upstream: Send + Sync + 'static {
    /// Whether it accepts writes through the shield.
    const WRITES: bool;

    /// Identifies the store, without passwords.
    fn origin(&self) -> String;

    /// The canonical form of a key, which the filter knows; `None` if the store cannot have such
    /// a key.
    fn canonical<'k>(&self, key: &'k Bytes) -> Option<Cow<'k, Bytes>>;

    /// The values of as many keys as fit in `most` bytes together. No more is requested at once,
    /// since the store may have values of any size.
    fn values(
        &self,
        keys: &[Bytes],
        most: usize,
    ) -> impl Future<Output = Result<Fetched, Failure>> + Send;

    /// The values of keys for MGET, with nil also for values that GET would refuse.
    fn values_or_nil(
        &self,
        keys: &[Bytes],
        most: usize,
    ) -> impl Future<Output = Result<Fetched, Failure>> + Send {
        self.values(keys, most)
    }

    /// Whether keys are stored.
    fn exist(&self, keys: &[Bytes]) -> impl Future<Output = Result<Vec<bool>, Failure>> + Send;

    /// The end of its log, if that is followed: what a client could see before this call is before
    /// that position.
    fn log_end(&self) -> impl Future<Output = Result<Option<u64>, Failure>> + Send {
        async { Ok(None) }
    }

    /// About how many keys there are.
    fn estimate(&self) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// Sends every key that is stored throughout the scan, and perhaps keys that are added or
    /// removed meanwhile. Returns how many rows had no key.
    fn scan(
        &self,
        chunks: mpsc::Sender<Vec<Bytes>>,
    ) -> impl Future<Output = Result<u64, Failure>> + Send;

    /// Stores records; of two with the same key the later one wins.
    fn set(&self, records: &[(Bytes, Bytes)]) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Removes keys; returns how many were stored.
    fn remove(&self, keys: &[Bytes]) -> impl Future<Output = Result<usize, Failure>> + Send;
}

/// Keys of one chunk of a scan.
pub(crate) const CHUNK: usize = 1 << 14;

/// The most keys in one request to a store; larger requests are split.
pub(crate) const ASKED: usize = 1 << 10;

/// The pause after a failure: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A connection that is made when it is needed, and remade when it is lost. While the store is
/// down, most requests fail at once, and occasionally one tries to connect.
pub(crate) struct Link<C> {
    /// Held while one request connects; the others wait for the outcome.
    state: Mutex<State<C>>,
    /// How long a connection may take to be made.
    most: Duration,
}

struct State<C> {
    connection: Option<C>,
    /// Why there is none.
    reason: String,
    pause: Duration,
    retry_at: Instant,
}

impl<C: Clone> Link<C> {
    /// A connection may take so long to be made.
    pub(crate) fn new(most: Duration) -> Self {
        Link {
            most,
            state: Mutex::new(State {
                connection: None,
                reason: String::new(),
                pause: Duration::ZERO,
                retry_at: Instant::now(),
            }),
        }
    }

    /// The connection, if it is `alive`, or a new one.
    pub(crate) async fn get(
        &self,
        alive: impl Fn(&C) -> bool,
        connect: impl Future<Output = Result<C, String>>,
    ) -> Result<C, Failure> {
        let mut state = self.state.lock().await;
        if let Some(connection) = &state.connection
            && alive(connection)
        {
            return Ok(connection.clone());
        }
        state.connection = None;
        if Instant::now() < state.retry_at {
            return Err(Failure::Upstream(state.reason.clone()));
        }
        let connected = match timeout(self.most, connect).await {
            Ok(connected) => connected,
            // Redis waits for more when it hears TLS where it expects none.
            Err(_) => Err(format!(
                "no connection in {:?}; see whether it is up, and the port right: rediss:// needs \
                 the server's TLS port",
                self.most
            )),
        };
        match connected {
            Ok(connection) => {
                if !state.pause.is_zero() {
                    info!("the store is back");
                }
                state.pause = Duration::ZERO;
                state.connection = Some(connection.clone());
                Ok(connection)
            }
            Err(reason) => {
                state.pause = (2 * state.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                state.retry_at = Instant::now() + state.pause;
                warn!(reason, pause = ?state.pause, "the store is down");
                state.reason.clone_from(&reason);
                Err(Failure::Upstream(reason))
            }
        }
    }

    /// The next request gets another connection than the one that is `lost`.
    pub(crate) async fn lose(&self, lost: impl Fn(&C) -> bool) {
        let mut state = self.state.lock().await;
        if state.connection.as_ref().is_some_and(lost) {
            state.connection = None;
        }
    }
}
