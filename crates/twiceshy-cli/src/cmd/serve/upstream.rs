//! The flags of a store that stays as it is, and its backend.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueEnum;
use tracing::warn;
use twiceshy_server::{
    Authorities, Backend, Failure, FollowMode, FollowOptions, Following, Postgres, PostgresOptions,
    Redis, RedisServer, ShieldOptions, Table,
};

use crate::progress::Progress;

/// Seconds. Longer times are useless, and would overflow clock arithmetic.
const DAY: u64 = 24 * 60 * 60;
const YEAR: u64 = 365 * DAY;

/// A store of yours, in front of which the filter stands.
#[derive(clap::Args)]
#[command(next_help_heading = "Your own store instead of an embedded one")]
pub struct UpstreamArgs {
    /// postgres://USER:PASSWORD@HOST:PORT/DATABASE or
    /// redis://:PASSWORD@HOST:PORT/NUMBER; then DIR has only the filter. TWICESHY_STORE or a
    /// file hides its password from other users [default: none]
    #[arg(long, value_name = "URL", conflicts_with = "demo")]
    store: Option<String>,

    /// PEM file of the certificate authorities to trust for the store's certificate
    /// [default: the system's]
    #[arg(long, value_name = "FILE")]
    store_ca: Option<PathBuf>,

    /// PostgreSQL: TABLE or SCHEMA.TABLE. Upper and lower case differ
    #[arg(long, value_name = "TABLE")]
    table: Option<String>,

    /// PostgreSQL: the column of the keys, with a unique index of its own; text,
    /// varchar, bytea, uuid or an integer
    #[arg(long, value_name = "COLUMN")]
    key: Option<String>,

    /// PostgreSQL: the column that GET returns [default: the row as JSON]
    #[arg(long, value_name = "COLUMN")]
    value: Option<String>,

    /// Learn of changes from the store itself, so that writes may go wherever they like.
    /// PostgreSQL: through its log (wal_level = logical); with sync, commits wait for the filter
    /// if the server's synchronous_standby_names lists it, and no visible row is ever denied.
    /// Redis 7 and Valkey: by keyspace events (notify-keyspace-events = Engxe), async only
    #[arg(long, value_enum, value_name = "MODE", num_args = 0..=1, default_missing_value = "async",
          conflicts_with_all = ["resync", "no_resync_at_start"])]
    follow: Option<Follow>,

    /// Milliseconds that the filter may be behind a store that is followed; beyond, every lookup
    /// goes to the store
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    max_lag: u64,

    /// Let this server set notify-keyspace-events in Redis, as --follow needs it
    #[arg(long, requires = "follow")]
    configure_store: bool,

    /// The application_name under which PostgreSQL's log is followed, for
    /// synchronous_standby_names
    #[arg(long, value_name = "NAME", default_value = "twiceshy")]
    follow_as: String,

    /// Look this often for keys that were added or removed without TS.ADDED and
    /// TS.REMOVED: until then added ones read as missing [default: only at the start]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=YEAR))]
    resync: Option<u64>,

    /// Skip the resync at the start, for a store that has no other writer. The server still
    /// resyncs after a crash, or if DIR was restored from a copy. Do not use it after restoring
    /// a whole disk or machine, which the server cannot notice
    #[arg(long)]
    no_resync_at_start: bool,

    /// Connections to PostgreSQL for lookups, which run in parallel; a resync takes one
    /// more
    #[arg(long, value_name = "N", default_value_t = 8,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    store_connections: usize,

    /// Seconds after which a store that does not answer is down
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=DAY))]
    store_timeout: u64,

    /// Seconds that PostgreSQL may be silent while its keys are counted or read
    #[arg(long, value_name = "SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=DAY))]
    store_scan_timeout: u64,
}

/// A store by its flags.
pub enum Chosen {
    Postgres(PostgresOptions),
    Redis {
        address: String,
        authorities: Option<Authorities>,
        timeout: Duration,
        following: Option<Following>,
    },
}

/// Whether commits of a store that is followed wait for the filter.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Follow {
    /// Commits do not wait: a new key may read as missing for as long as the lag
    Async,
    /// Commits wait for the filter: no visible row reads as missing
    Sync,
}

impl UpstreamArgs {
    /// The store that was named, if one was, as far as the flags tell.
    pub fn chosen(&self) -> Result<Option<Chosen>, Box<dyn Error>> {
        let Some(address) = self.store.clone() else {
            return match self.only_for_a_store() {
                Some(flag) => Err(format!("{flag} is for a store of your own: add --store").into()),
                None => Ok(None),
            };
        };
        let authorities = self.store_ca.as_deref().map(Authorities::read).transpose()?;
        let timeout = Duration::from_secs(self.store_timeout);
        let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
        match (scheme, &self.table, &self.key) {
            ("postgres" | "postgresql", Some(table), Some(key)) => {
                Ok(Some(Chosen::Postgres(PostgresOptions {
                    address,
                    authorities,
                    table: table.clone(),
                    key: key.clone(),
                    value: self.value.clone(),
                    connections: self.store_connections,
                    timeout,
                    scan_timeout: Duration::from_secs(self.store_scan_timeout),
                })))
            }
            ("postgres" | "postgresql", ..) => {
                Err("a table of PostgreSQL needs --table and --key".into())
            }
            ("redis" | "rediss" | "redis+unix" | "unix", None, None) if self.value.is_none() => {
                let following = self.redis_following()?;
                Ok(Some(Chosen::Redis { address, authorities, timeout, following }))
            }
            ("redis" | "rediss" | "redis+unix" | "unix", ..) => {
                Err("--table, --key and --value are for PostgreSQL; Redis has keys only".into())
            }
            // Never the address itself: it may have a password.
            _ => Err(format!(
                "the store's address begins with {scheme:?}; expected postgres://..., redis://... \
                 or rediss://..."
            )
            .into()),
        }
    }

    /// The backend of the store that was named, if one was.
    pub async fn backend(&self, directory: &Path) -> Result<Option<Backend>, Box<dyn Error>> {
        let Some(chosen) = self.chosen()? else { return Ok(None) };
        let options = ShieldOptions {
            directory: directory.into(),
            resync: self.resync.map(Duration::from_secs),
            resync_at_start: !self.no_resync_at_start,
        };
        if options.resync.is_none() && self.follow.is_none() {
            warn!(
                "keys that are added to the store without TS.ADDED read as missing until the next \
                 start; --follow learns of them at once, --resync SECONDS finds them"
            );
        }
        Ok(Some(match chosen {
            Chosen::Postgres(asked) => {
                let table = Table::connect(&asked).await?;
                let shield: Postgres = match self.follow {
                    Some(follow) => {
                        let follow = self.follow_options(follow);
                        shown(|told| Postgres::follow(table, &options, follow, told)).await?
                    }
                    None => shown(|told| Postgres::open(table, &options, told)).await?,
                };
                Backend::Postgres(shield)
            }
            Chosen::Redis { address, authorities, timeout, following } => {
                let server = RedisServer::connect(&address, authorities.as_ref(), timeout).await?;
                let shield: Redis = match following {
                    Some(following) => {
                        shown(|told| Redis::follow(server, &options, following, told)).await?
                    }
                    None => shown(|told| Redis::open(server, &options, told)).await?,
                };
                Backend::Redis(shield)
            }
        }))
    }

    fn follow_options(&self, follow: Follow) -> FollowOptions {
        let mode = match follow {
            Follow::Async => FollowMode::Async,
            Follow::Sync => FollowMode::Sync,
        };
        let max_lag = Duration::from_millis(self.max_lag);
        FollowOptions { mode, max_lag, name: self.follow_as.clone() }
    }

    fn redis_following(&self) -> Result<Option<Following>, &'static str> {
        match self.follow {
            None => Ok(None),
            Some(Follow::Async) => Ok(Some(Following {
                max_lag: Duration::from_millis(self.max_lag),
                configure: self.configure_store,
            })),
            Some(Follow::Sync) => Err(
                "Redis tells of a key after it has stored it, so --follow sync cannot be kept: \
                 use --follow async, or let all clients write through this server",
            ),
        }
    }

    fn only_for_a_store(&self) -> Option<&'static str> {
        [
            (self.store_ca.is_some(), "--store-ca"),
            (self.table.is_some(), "--table"),
            (self.key.is_some(), "--key"),
            (self.value.is_some(), "--value"),
            (self.follow.is_some(), "--follow"),
            (self.resync.is_some(), "--resync"),
            (self.no_resync_at_start, "--no-resync-at-start"),
        ]
        .into_iter()
        .find_map(|(given, flag)| given.then_some(flag))
    }
}

/// Opens a filter; if it has to be built, a bar shows how far that is.
async fn shown<S, F>(open: impl FnOnce(Told) -> F) -> Result<S, Box<dyn Error>>
where
    F: Future<Output = Result<S, Failure>>,
{
    let progress = Progress::counting();
    progress.phase("reading the store's keys");
    let told = progress.clone();
    let opened = open(Box::new(move |done, total| told.arrive_of(done, total))).await;
    progress.finish();
    Ok(opened?)
}

/// Is told how many keys of about how many have been read.
type Told = Box<dyn FnMut(u64, u64) + Send>;
