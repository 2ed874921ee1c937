//! Sessions that cannot write, and how long each step of theirs may take.

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;

use rustls::RootCertStore;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::config::{Config, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;
use tracing::debug;

use super::follow::Walsender;
use super::inspect::hosts;
use crate::tls::{self, Authorities};

/// What may take how long, and which flag of `twiceshy serve` makes that longer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) doing: &'static str,
    pub(super) most: Duration,
    pub(super) flag: &'static str,
}

impl Step {
    /// A step that answers at once if the server does at all.
    pub(super) fn short(doing: &'static str, most: Duration) -> Self {
        Step { doing, most, flag: "--store-timeout" }
    }

    /// A step that reads the whole table.
    pub(super) fn long(doing: &'static str, most: Duration) -> Self {
        Step { doing, most, flag: "--store-scan-timeout" }
    }

    /// Its outcome, or why there is none in time.
    pub(super) async fn within<T, E>(
        self,
        work: impl Future<Output = Result<T, E>>,
        late: impl FnOnce(String) -> E,
    ) -> Result<T, E> {
        let Step { doing, most, flag } = self;
        timeout(most, work).await.unwrap_or_else(|_| {
            Err(late(format!(
                "no answer in {most:?} while {doing}; see what keeps the server from it (its load, \
                 a lock on the table, a network that swallows packets), or wait longer with {flag}"
            )))
        })
    }
}

/// How to connect.
pub(super) struct Sessions {
    pub(super) config: Config,
    tls: MakeRustlsConnect,
    most: Duration,
}

impl Sessions {
    /// To connect takes at most so long.
    pub(super) fn new(config: Config, authorities: Option<&Authorities>, most: Duration) -> Self {
        let roots = match config.get_ssl_mode() {
            SslMode::Disable => RootCertStore::empty(),
            _ => tls::roots(authorities),
        };
        let tls = MakeRustlsConnect::new(tls::config(roots));
        Sessions { config, tls, most }
    }

    /// Connects.
    pub(super) async fn open(&self) -> Result<Client, String> {
        let connected = async {
            let connected = self.config.connect(self.tls.clone()).await;
            let (client, connection) = connected.map_err(|error| {
                format!("{}: {}", hosts(&self.config), tls::explained(told(&error)))
            })?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    debug!(reason = told(&error), "a connection to PostgreSQL ended");
                }
            });
            let read_only = "SET default_transaction_read_only = on";
            client.batch_execute(read_only).await.map_err(|error| told(&error))?;
            Ok(client)
        };
        Step::short("connecting", self.most).within(connected, |late| late).await
    }
}

impl Sessions {
    /// Connects to the log, under this name.
    pub(super) async fn walsender(&self, name: &str) -> Result<Walsender, String> {
        let connected = async {
            let connected = Walsender::connect(&self.config, &self.tls, name).await;
            connected.map_err(|error| tls::explained(error.to_string()))
        };
        Step::short("connecting to the log", self.most).within(connected, |late| late).await
    }
}

/// What an error says, and not only that there is one.
pub(super) fn told(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(error), _) => error.message().to_string(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
