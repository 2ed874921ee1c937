//! A server in this process, in front of a store of others.

use std::future::{Future, pending};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use twiceshy_server::{
    Authorities, Backend, Failure, FollowMode, FollowOptions, Following, Health, Limits, Postgres,
    PostgresOptions, Redis, RedisServer, Resynced, Server, ShieldOptions, Table, Watch, serve,
    serve_page,
};

use crate::client::Client;

/// A server that ends with its test.
pub struct Running {
    pub address: SocketAddr,
    server: Arc<Server>,
    runtime: Runtime,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// How long an answer of a store may take in these tests.
pub const TIMEOUT: Duration = Duration::from_secs(6);

/// No resync but at the start.
pub fn options(directory: &Path) -> ShieldOptions {
    ShieldOptions { directory: directory.into(), resync: None, resync_at_start: true }
}

/// Text keys and values.
pub fn table(address: &str, table: &str, key: &str, value: Option<&str>) -> PostgresOptions {
    PostgresOptions {
        address: address.into(),
        authorities: None,
        table: table.into(),
        key: key.into(),
        value: value.map(Into::into),
        connections: 2,
        timeout: TIMEOUT,
        scan_timeout: 10 * TIMEOUT,
    }
}

pub fn postgres(table: &PostgresOptions, options: &ShieldOptions) -> Result<Running, Failure> {
    postgres_after(table, options, || ())
}

/// Something happens between the first connection and the filter's opening.
pub fn postgres_after(
    table: &PostgresOptions,
    options: &ShieldOptions,
    happens: impl FnOnce(),
) -> Result<Running, Failure> {
    start(async {
        let table = Table::connect(table).await?;
        happens();
        Ok(Backend::Postgres(Postgres::open(table, options, |_, _| ()).await?))
    })
}

/// In front of a table that is followed.
pub fn following(
    table: &PostgresOptions,
    directory: &Path,
    mode: FollowMode,
) -> Result<Running, Failure> {
    let follow = FollowOptions { mode, max_lag: MAX_LAG, name: "shield".into() };
    start(async {
        let table = Table::connect(table).await?;
        let options = options(directory);
        Ok(Backend::Postgres(Postgres::follow(table, &options, follow, |_, _| ()).await?))
    })
}

/// How old a filter may be in these tests.
pub const MAX_LAG: Duration = Duration::from_millis(500);

pub fn redis(address: &str, options: &ShieldOptions) -> Result<Running, Failure> {
    redis_after(address, None, options, || ())
}

/// Something happens between the first connection and the filter's opening.
pub fn redis_after(
    address: &str,
    authorities: Option<&Authorities>,
    options: &ShieldOptions,
    happens: impl FnOnce(),
) -> Result<Running, Failure> {
    start(async {
        let server = RedisServer::connect(address, authorities, TIMEOUT).await?;
        happens();
        Ok(Backend::Redis(Redis::open(server, options, |_, _| ()).await?))
    })
}

/// Events tell the shield of other clients' keys.
pub fn redis_following(
    address: &str,
    options: &ShieldOptions,
    following: Following,
) -> Result<Running, Failure> {
    start(async {
        let server = RedisServer::connect(address, None, TIMEOUT).await?;
        Ok(Backend::Redis(Redis::follow(server, options, following, |_, _| ()).await?))
    })
}

fn start(backend: impl Future<Output = Result<Backend, Failure>>) -> Result<Running, Failure> {
    // Shown when a test fails. One process may run many tests.
    let _ = tracing_subscriber::fmt().with_test_writer().with_ansi(false).try_init();
    let runtime = Runtime::new().expect("a runtime");
    let server = Server::new(runtime.block_on(backend)?, Limits::default(), None);
    let server = Arc::new(server);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = runtime.spawn(serve(listener, Arc::clone(&server), async {
        let _ = stopped.await;
    }));
    Ok(Running { address, server, runtime, stop, serving })
}

impl Running {
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn is_trusted(&self) -> bool {
        match &self.server.backend {
            Backend::Postgres(shield) => shield.is_trusted(),
            Backend::Redis(shield) => shield.is_trusted(),
            Backend::Embedded(_) => true,
        }
    }

    /// Keys looked up in the store.
    pub fn asked(&self) -> u64 {
        self.server.backend.stats().store_reads
    }

    pub fn health(&self) -> Health {
        self.runtime.block_on(self.server.backend.health())
    }

    /// What a path of the page answers: its status and its body.
    pub fn page(&self, path: &str) -> (u16, String) {
        let watch = Arc::new(Watch::new(Arc::clone(&self.server)));
        let listener = self.runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        let page = self.runtime.spawn(serve_page(listener, watch, pending()));
        let mut socket = TcpStream::connect(address).expect("it listens");
        socket.write_all(format!("GET {path} HTTP/1.1\r\n\r\n").as_bytes()).expect("sent");
        let mut answer = String::new();
        socket.read_to_string(&mut answer).expect("text");
        page.abort();
        // Nobody else has the server when the test stops it.
        let _ = self.runtime.block_on(page);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.expect("a status"), body.into())
    }

    pub fn resync(&self) -> Result<Resynced, Failure> {
        self.runtime.block_on(async {
            match &self.server.backend {
                Backend::Postgres(shield) => shield.resync().await,
                Backend::Redis(shield) => shield.resync().await,
                Backend::Embedded(_) => Ok(Resynced::default()),
            }
        })
    }

    /// Copies its directory while it runs.
    pub fn backup(&self, to: &Path) -> Result<u64, String> {
        let copied = self.runtime.block_on(self.server.backend.backup(to.into()));
        copied.map_err(|failure| failure.to_string())
    }

    /// Stops it and leaves its directory to the next one.
    pub fn stop(self) {
        let Running { server, runtime, stop, serving, .. } = self;
        drop(stop);
        runtime.block_on(serving).expect("the server does not panic");
        let server = Arc::into_inner(server).expect("nobody else has it");
        runtime.block_on(server.backend.close()).expect("closed");
    }
}
