//! [`Postgres`]: a filter in front of a table of PostgreSQL, which is only read.
//!
//! A key is one column with a unique index of its own; other columns and composite keys are
//! refused, since GET could have several answers. See [`PostgresOptions`] for what GET returns.
//! Rows whose key is NULL have no key and are skipped.
//!
//! All clients share a few connections, each with prepared statements. Lookups that come
//! while all connections are busy are gathered into one query: a hundred clients cost about
//! as many queries as there are connections. For a value that may not fit, PostgreSQL returns
//! the size, and the value is fetched by itself. Every session is read-only.

mod address;
mod follow;
mod inspect;
mod keys;
mod names;
mod session;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{TryFutureExt as _, TryStreamExt as _};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::backend::{Failure, Fetched};
use crate::shield::Shield;
use crate::tls::Authorities;
use crate::upstream::{ASKED, CHUNK, Link, Upstream};

use follow::{Progress, Walsender};
use inspect::{Found, inspect, origin, refused};
use keys::KeyType;
use names::quoted;
use session::{Sessions, Step, told};

pub use follow::{FollowMode, FollowOptions, FollowStats, Forgotten, forget};

/// A filter in front of a table of PostgreSQL.
pub type Postgres = Shield<Table>;

/// The table to serve, and how to connect to it.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// `postgres://user:password@host:port/database`, as for `psql`. `?sslmode=require` and
    /// `verify-full` require TLS; unlike `psql`, this always verifies the certificate. Without
    /// `sslmode`, TLS is required if there are `authorities`, off for a server on this machine,
    /// and otherwise used if the server offers it.
    pub address: String,
    /// The authorities that may have signed the server's certificate; `None` for the system's.
    pub authorities: Option<Authorities>,
    /// `table` or `schema.table`. Upper and lower case differ; a name with a dot is
    /// put in double quotes.
    pub table: String,
    /// The column of the keys: `text`, `varchar`, `bytea`, `uuid` or an integer.
    pub key: String,
    /// The column that GET returns: `bytea` as it is, others as text; a NULL reads
    /// as nil, though the key exists. Without it GET returns the row as JSON.
    pub value: Option<String>,
    /// Connections for lookups.
    pub connections: usize,
    /// How long a request waits for an answer.
    pub timeout: Duration,
    /// How long counting or scanning the rows may take without a response.
    pub scan_timeout: Duration,
}

/// A table of PostgreSQL.
pub struct Table {
    lanes: Arc<Lanes>,
    queue: mpsc::Sender<Asked>,
    progress: Progress,
}

/// Keys whose values a client waits for.
struct Asked {
    keys: Vec<Bytes>,
    /// The most bytes of a value that is wanted at once.
    part: usize,
    done: oneshot::Sender<Result<Vec<Option<Part>>, Failure>>,
}

/// A value, or only its size, if it is larger than was asked for.
#[derive(Clone)]
enum Part {
    Whole(Bytes),
    Large(usize),
}

/// Lookups that may wait in the queue; more wait for a place in it.
const QUEUE: usize = 1024;

/// Keys of one query, unless one client brings more.
const GATHERED: usize = 256;

/// The connections to a table.
struct Lanes {
    sessions: Sessions,
    timeout: Duration,
    scan_timeout: Duration,
    origin: String,
    found: Found,
    sql: Sql,
    links: Vec<Link<Lane>>,
    next: AtomicUsize,
}

/// The statements of a table.
struct Sql {
    values: String,
    exist: String,
    scan: String,
    estimate: String,
    count: String,
}

/// A connection with its prepared statements.
#[derive(Clone)]
struct Lane {
    client: Arc<Client>,
    values: Statement,
    exist: Statement,
}

impl Table {
    /// Connects, and checks that the table can be served.
    ///
    /// # Errors
    /// [`Failure::Refused`] says what to change; [`Failure::Upstream`] when the
    /// server is down.
    pub async fn connect(options: &PostgresOptions) -> Result<Self, Failure> {
        let PostgresOptions { address, authorities, timeout: most, .. } = options;
        let mut config = address::parsed(address, authorities.is_some())?;
        config.application_name("twiceshy");
        let sessions = Sessions::new(config, authorities.as_ref(), *most);
        let client = sessions.open().await.map_err(Failure::Upstream)?;
        let found = Step::short("looking at the table", *most)
            .within(inspect(&client, options), Failure::Upstream)
            .await?;
        let origin = origin(&sessions.config, &found);
        let sql = Sql::new(&found);
        let lanes = Arc::new(Lanes {
            sessions,
            timeout: options.timeout,
            scan_timeout: options.scan_timeout,
            origin,
            found,
            sql,
            // Longer than connecting may take, which then says what it waited for.
            links: (0..options.connections.max(1))
                .map(|_| Link::new(2 * options.timeout))
                .collect(),
            next: AtomicUsize::new(0),
        });
        // That the statements can be prepared.
        lanes.lane().await?;
        let (queue, asked) = mpsc::channel(QUEUE);
        let asked = Arc::new(Mutex::new(asked));
        for _ in &lanes.links {
            // They end with the queue.
            tokio::spawn(answer(Arc::clone(&lanes), Arc::clone(&asked)));
        }
        Ok(Table { lanes, queue, progress: Progress::default() })
    }
}

/// Answers what has gathered, again and again.
async fn answer(lanes: Arc<Lanes>, queue: Arc<Mutex<mpsc::Receiver<Asked>>>) {
    loop {
        let mut gathered = Vec::new();
        {
            let mut queue = queue.lock().await;
            let Some(first) = queue.recv().await else { return };
            let mut keys = first.keys.len();
            gathered.push(first);
            while keys < GATHERED
                && let Ok(more) = queue.try_recv()
            {
                keys += more.keys.len();
                gathered.push(more);
            }
        }
        // Clients that are gone need no answer.
        gathered.retain(|asked| !asked.done.is_closed());
        let keys: Vec<Bytes> =
            gathered.iter().flat_map(|asked| asked.keys.iter().cloned()).collect();
        if keys.is_empty() {
            continue;
        }
        let part = gathered.iter().map(|asked| asked.part).min().unwrap_or(0);
        let found = lanes.values(&keys, part).await;
        for Asked { keys, done, .. } in gathered {
            let values = |found: &HashMap<Bytes, Part>| {
                keys.iter().map(|key| found.get(key).cloned()).collect()
            };
            let _ = done.send(found.as_ref().map(values).map_err(Clone::clone));
        }
    }
}

impl Lanes {
    /// The values of those keys that have one; of one with more than `part` bytes only
    /// its size.
    async fn values(&self, keys: &[Bytes], part: usize) -> Result<HashMap<Bytes, Part>, Failure> {
        let part = i32::try_from(part).unwrap_or(i32::MAX);
        let rows = self.rows(keys, Some(part), |lane| &lane.values).await?;
        let value = |row: &Row| {
            let size = usize::try_from(row.get::<_, Option<i32>>(2)?).unwrap_or(0);
            Some(raw(row, 1).map_or(Part::Large(size), Part::Whole))
        };
        Ok(rows.iter().filter_map(|row| raw(row, 0).zip(value(row))).collect())
    }

    async fn lane(&self) -> Result<(&Link<Lane>, Lane), Failure> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        let any = async {
            let mut outcome = Err(Failure::Upstream("there are no connections".into()));
            // One that waits to try again must not hide another that works.
            for index in 0..self.links.len() {
                let link = &self.links[next.wrapping_add(index) % self.links.len()];
                match link.get(|lane| !lane.client.is_closed(), self.make_lane()).await {
                    Ok(lane) => return Ok((link, lane)),
                    Err(failure) => outcome = Err(failure),
                }
            }
            outcome
        };
        // Time for one that gets no answer, and for another; both then know to wait.
        let most = 2 * self.timeout + Duration::from_secs(1);
        Step::short("connecting", most).within(any, Failure::Upstream).await
    }

    /// Sends every key that a session sees.
    async fn scan(
        &self,
        client: &Client,
        chunks: mpsc::Sender<Vec<Bytes>>,
    ) -> Result<u64, Failure> {
        let step = Step::long("reading the keys", self.scan_timeout);
        let none: [&(dyn ToSql + Sync); 0] = [];
        let rows = client.query_raw(&self.sql.scan, none).map_err(down);
        let mut rows = std::pin::pin!(step.within(rows, Failure::Upstream).await?);
        let (mut chunk, mut without_key) = (Vec::with_capacity(CHUNK), 0);
        loop {
            let row = step.within(rows.try_next().map_err(down), Failure::Upstream).await?;
            let ended = row.is_none();
            match row.map(|row| raw(&row, 0)) {
                Some(Some(key)) => chunk.push(key),
                Some(None) => without_key += 1,
                None => (),
            }
            if ended || chunk.len() == CHUNK {
                let full = std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK));
                if chunks.send(full).await.is_err() {
                    return Err(Failure::Store("the scan was abandoned".into()));
                }
            }
            if ended {
                return Ok(without_key);
            }
        }
    }

    /// A connection to the log, under this name.
    async fn walsender(&self, name: &str) -> Result<Walsender, Failure> {
        let connected = self.sessions.walsender(name).await;
        connected.map_err(|reason| follow::not_connected(&reason))
    }

    /// A connection for one long query.
    async fn session(&self) -> Result<Client, Failure> {
        self.sessions.open().await.map_err(Failure::Upstream)
    }

    async fn make_lane(&self) -> Result<Lane, String> {
        let client = self.sessions.open().await?;
        let most = format!("SET statement_timeout = {}", self.timeout.as_millis());
        let prepare = async {
            client.batch_execute(&most).await?;
            let values = client.prepare(&self.sql.values).await?;
            let exist = client.prepare(&self.sql.exist).await?;
            Ok((values, exist))
        };
        let (values, exist) = prepare.await.map_err(|error| told(&error))?;
        Ok(Lane { client: Arc::new(client), values, exist })
    }

    /// The rows of keys. A connection with an error is left.
    async fn rows(
        &self,
        keys: &[Bytes],
        part: Option<i32>,
        statement: impl Fn(&Lane) -> &Statement,
    ) -> Result<Vec<Row>, Failure> {
        let (link, lane) = self.lane().await?;
        let (texts, bytes): (Vec<&str>, Vec<&[u8]>);
        let keys: &(dyn ToSql + Sync) = if self.found.key_type == KeyType::Bytes {
            bytes = keys.iter().map(|key| &key[..]).collect();
            &bytes
        } else {
            let text = |key| std::str::from_utf8(key).expect("canonical keys are UTF-8");
            texts = keys.iter().map(|key| text(&key[..])).collect();
            &texts
        };
        let mut parameters = vec![keys];
        parameters.extend(part.as_ref().map(|part| part as &(dyn ToSql + Sync)));
        let query = lane.client.query(statement(&lane), &parameters);
        let reason = match timeout(self.timeout, query).await {
            Ok(Ok(rows)) => return Ok(rows),
            Ok(Err(error)) => told(&error),
            Err(_) => format!("no answer in {:?}", self.timeout),
        };
        link.lose(|other| Arc::ptr_eq(&other.client, &lane.client)).await;
        Err(Failure::Upstream(reason))
    }
}

impl Sql {
    fn new(found: &Found) -> Self {
        let Found { name: table, key_type, .. } = found;
        let column = |name: &str| format!("t.{}", quoted(name));
        let key = column(&found.key);
        let selected = key_type.selected(&key);
        let value = match &found.value {
            Some((name, oid)) if *oid == Type::BYTEA.oid() => column(name),
            Some((name, _)) => format!("{}::text", column(name)),
            None => "row_to_json(t.*)::text".into(),
        };
        let asked = format!("{key} = ANY({})", key_type.array());
        Sql {
            // With OFFSET the value is made once, and not for each time that it is named.
            values: format!(
                "SELECT k, CASE WHEN octet_length(v) <= $2::int4 THEN v END, octet_length(v) FROM \
                 (SELECT {selected} AS k, {value} AS v FROM {table} AS t WHERE {asked} OFFSET 0) AS q"
            ),
            exist: format!("SELECT {selected} FROM {table} AS t WHERE {asked}"),
            scan: format!("SELECT {selected} FROM {table} AS t"),
            estimate: format!(
                "SELECT reltuples::bigint FROM pg_catalog.pg_class WHERE oid = {}",
                found.oid
            ),
            count: format!("SELECT count(*) FROM {table}"),
        }
    }
}

fn down(error: tokio_postgres::Error) -> Failure {
    Failure::Upstream(told(&error))
}

/// Text or bytes as they come.
struct Raw(Bytes);

impl FromSql<'_> for Raw {
    fn from_sql(_: &Type, raw: &[u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(Bytes::copy_from_slice(raw)))
    }

    fn accepts(kind: &Type) -> bool {
        matches!(*kind, Type::TEXT | Type::VARCHAR | Type::BYTEA)
    }
}

fn raw(row: &Row, column: usize) -> Option<Bytes> {
    row.get::<_, Option<Raw>>(column).map(|Raw(bytes)| bytes)
}

fn never_written<T>() -> Result<T, Failure> {
    Err(refused(
        "this server never writes to PostgreSQL: write to PostgreSQL itself. Without --follow, \
         send TS.ADDED key before you insert a row, and TS.REMOVED key after you delete one",
    ))
}

impl Upstream for Table {
    const WRITES: bool = false;

    fn origin(&self) -> String {
        self.lanes.origin.clone()
    }

    fn canonical<'k>(&self, key: &'k Bytes) -> Option<Cow<'k, Bytes>> {
        self.lanes.found.key_type.canonical(key)
    }

    async fn values(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        let (done, answer) = oneshot::channel();
        let asked = Asked { keys: keys.to_vec(), part: most / keys.len().max(1), done };
        let answered = async {
            self.queue.send(asked).await.ok()?;
            answer.await.ok()
        };
        // Its turn may come late, and then it takes its time.
        let longest = 2 * self.lanes.timeout;
        let parts = match timeout(longest, answered).await {
            Ok(answer) => {
                answer.ok_or_else(|| Failure::Store("the lookup task has stopped".into()))??
            }
            Err(_) => return Err(Failure::Upstream(format!("no answer in {longest:?}"))),
        };
        let (mut fetched, mut bytes) = (Fetched::default(), 0);
        for (key, mut part) in keys.iter().zip(parts) {
            if matches!(part, Some(Part::Large(size)) if bytes + size <= most) {
                let key = std::slice::from_ref(key);
                let whole = Box::pin(self.lanes.values(key, most - bytes));
                part = whole.await?.remove(&key[0]);
            }
            let value = match part {
                Some(Part::Large(size)) => {
                    fetched.next = Some(size);
                    break;
                }
                Some(Part::Whole(value)) => Some(value),
                None => None,
            };
            if !fetched.add(value, &mut bytes, most) {
                break;
            }
        }
        Ok(fetched)
    }

    async fn exist(&self, keys: &[Bytes]) -> Result<Vec<bool>, Failure> {
        let mut exist = Vec::with_capacity(keys.len());
        for keys in keys.chunks(ASKED) {
            let rows = self.lanes.rows(keys, None, |lane| &lane.exist).await?;
            let found: HashSet<Bytes> = rows.iter().filter_map(|row| raw(row, 0)).collect();
            exist.extend(keys.iter().map(|key| found.contains(key)));
        }
        Ok(exist)
    }

    async fn log_end(&self) -> Result<Option<u64>, Failure> {
        if self.progress.is_following() { self.lanes.log_end().await.map(Some) } else { Ok(None) }
    }

    async fn estimate(&self) -> Result<u64, Failure> {
        let client = self.lanes.session().await?;
        let one = async |sql: &str, step: Step| {
            let row = client.query_one(sql, &[]).map_err(down);
            let row = step.within(row, Failure::Upstream).await?;
            Ok::<i64, Failure>(row.get(0))
        };
        let Lanes { sql, timeout, scan_timeout, .. } = &*self.lanes;
        let short = Step::short("estimating the number of keys", *timeout);
        let mut keys = one(&sql.estimate, short).await?;
        if keys < 0 {
            // Nobody has counted yet.
            keys = one(&sql.count, Step::long("counting the keys", *scan_timeout)).await?;
        }
        Ok(u64::try_from(keys).unwrap_or(0))
    }

    /// One query: all rows as of the moment it began.
    async fn scan(&self, chunks: mpsc::Sender<Vec<Bytes>>) -> Result<u64, Failure> {
        let client = self.lanes.session().await?;
        self.lanes.scan(&client, chunks).await
    }

    async fn set(&self, _: &[(Bytes, Bytes)]) -> Result<(), Failure> {
        never_written()
    }

    async fn remove(&self, _: &[Bytes]) -> Result<usize, Failure> {
        never_written()
    }
}
