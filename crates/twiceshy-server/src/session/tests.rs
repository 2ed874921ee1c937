//! How long a client waits beside fifty others that send expensive requests. Work is
//! counted here, not time, so that the bounds hold on every machine.
//!
//! All sessions and their clients run on one thread, and each session lets others have
//! their turn as soon as it looks at the clock. Then:
//!
//! - A turn ends with [`yield_now`](tokio::task::yield_now). The runtime wakes who has
//!   yielded only after it has looked for bytes that came meanwhile, and runs what is
//!   awake in the order in which it woke.
//! - So a session has one turn at most before the runtime sees that bytes have come for
//!   another task, and one more before that task runs: two.
//! - A request has two such waits: of the session for the request, of the client for the
//!   reply. Meanwhile an attacker has four turns at most; [`WAIT`] allows as many again
//!   for bytes that the system delivers late.
//! - An attack of so many units of work takes at least a turn for each [`WORK`] of them.
//!
//! Another client is therefore answered at least once in [`WAIT`] turns of an attack.
//! And an attacker that has read a value of 2 MiB, which is 32 times [`WORK`], skips as
//! many turns. That is more than a request waits for, so that in the meantime each
//! attacker reads one value at most.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::timeout;
use twiceshy::store::{Durability, Options, Redb};

use super::lookups::PROBES;
use super::turn::TURNS;
use super::*;
use crate::backend::Backend;
use crate::embedded::Embedded;
use crate::limits::Limits;

const ATTACKERS: usize = 50;

/// Turns of an attacker between a request of another client and its answer.
const WAIT: usize = 8;

/// The length of the large value.
const VALUE: usize = 2 << 20;

/// Turns that a look at the large value takes, or a copy of it.
const TURNS_OF_VALUE: usize = (VALUE >> 10) / WORK;

/// Guards against hanging; says nothing of how long anything may take.
const HANGS: Duration = Duration::from_secs(300);

/// What an attacker sends, and how many turns it takes at least.
fn attacks() -> Vec<(&'static str, Vec<u8>, usize)> {
    let many = |command: &str, word: &str, words: usize| {
        format!("*{}\r\n{command}{}", words + 1, word.repeat(words)).into_bytes()
    };
    vec![
        // A look to see its size, and a copy.
        ("GETs of a large value", b"GET large\r\n".repeat(8), 8 * 2 * TURNS_OF_VALUE),
        ("MGETs", b"MGET large nothing\r\n".repeat(8), 8 * 2 * TURNS_OF_VALUE),
        ("GETs of nothing", b"GET nothing\r\n".repeat(200 * WORK), 200),
        ("an MGET of nothing", many("$4\r\nMGET\r\n", "$1\r\nn\r\n", 200 * LOOKUPS), 200),
        ("an EXISTS", many("$6\r\nEXISTS\r\n", "$1\r\nn\r\n", 20 * PROBES), 20 * TURNS),
        ("small commands", b"PING\r\n".repeat(200 * WORK), 200),
        ("other commands", b"TS.STATS\r\n".repeat(200), 200),
        ("an INFO", many("$4\r\nINFO\r\n", "$1\r\nn\r\n", 200 * LOOKUPS), 200),
        ("COMMAND INFO", many("$7\r\nCOMMAND\r\n", "$4\r\ninfo\r\n", 200 * LOOKUPS + 1), 200),
        ("COMMAND DOCS", many("$7\r\nCOMMAND\r\n", "$4\r\ndocs\r\n", 200 * LOOKUPS + 1), 200),
    ]
}

#[test]
fn expensive_requests_let_others_have_their_turn() {
    let directory = TempDir::new().expect("a directory");
    let options = Options::default().durability(Durability::Process);
    let store = options.open::<Redb>(directory.path()).expect("an empty store");
    store.put("large", vec![b'v'; VALUE]).expect("a disk");
    // Room for one large value, so that sessions write it before they go on.
    let limits = Limits { reply: VALUE + 64, memory: 1 << 30, ..Limits::default() };
    let backend = Backend::Embedded(Embedded::new(store));
    let server = Arc::new(Server::new(backend, limits, None));
    for (what, requests, turns) in attacks() {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (answers, reads) = runtime.block_on(async {
            timeout(HANGS, run(&server, &requests)).await.unwrap_or_else(|_| panic!("{what} hangs"))
        });
        println!("{what}: {answers} answers, {reads} reads before one");
        let least = turns / WAIT;
        assert!(answers >= least, "{what}: {answers} answers in {turns} turns, not {least}");
        assert!(reads <= ATTACKERS as u64, "{what}: {reads} reads before one answer");
        assert_eq!(server.traffic.errors(), 0, "{what}");
    }
}

/// How many answers another client has until all attackers have theirs, and the most reads
/// of the store between a request of it and the answer.
async fn run(server: &Arc<Server>, requests: &[u8]) -> (usize, u64) {
    let reads = |server: &Server| server.backend.stats().store_reads;
    let answers = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicU64::new(0));
    let mut other = connect(server).await;
    let other = tokio::spawn({
        let (server, answers, most) = (Arc::clone(server), Arc::clone(&answers), Arc::clone(&most));
        async move {
            loop {
                let before = reads(&server);
                other.write_all(b"PING\r\n").await.expect("it reads");
                other.read_exact(&mut [0; 7]).await.expect("it answers");
                most.fetch_max(reads(&server) - before, Ordering::Relaxed);
                answers.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let mut attackers = Vec::new();
    for _ in 0..ATTACKERS {
        attackers.push(connect(server).await);
    }
    let before = answers.load(Ordering::Relaxed);
    let attack = |mut socket: TcpStream| {
        let requests = requests.to_vec();
        tokio::spawn(async move {
            let (mut reader, mut writer) = socket.split();
            let send = async {
                writer.write_all(&requests).await.expect("it reads");
                writer.shutdown().await.expect("it is open");
            };
            let receive = async {
                let mut buffer = vec![0; 64 << 10];
                while reader.read(&mut buffer).await.expect("replies") > 0 {}
            };
            tokio::join!(send, receive);
        })
    };
    let attackers: Vec<_> = attackers.into_iter().map(attack).collect();
    for attacker in attackers {
        attacker.await.expect("no panic");
    }
    other.abort();
    (answers.load(Ordering::Relaxed) - before, most.load(Ordering::Relaxed))
}

/// A client whose session lets others have their turn whenever it looks at the clock.
async fn connect(server: &Arc<Server>) -> TcpStream {
    let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let listener = TcpListener::bind((localhost, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (socket, server) = (accepted.expect("it has come").0, Arc::clone(server));
    tokio::spawn(async move {
        let mut session = Session::new(&server, 0, localhost);
        session.slice = Duration::ZERO;
        session.run(socket, CancellationToken::new()).await
    });
    client.expect("it listens")
}
