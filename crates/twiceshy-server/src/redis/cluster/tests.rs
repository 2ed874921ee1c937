//! Against nodes that answer as a test says.

use std::io;
use std::sync::Mutex;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::super::slot::SLOTS;
use super::super::{RedisServer, pipeline};
use super::*;
use crate::upstream::Upstream as _;

const TIMEOUT: Duration = Duration::from_secs(2);

/// What a node answers to a command, in RESP; nothing, and it closes the connection.
type Answer = dyn Fn(&Fake, &str) -> Option<String> + Send + Sync;

/// A node; the first of two has the first half of the slots.
struct Fake {
    /// Of both nodes.
    ports: [u16; 2],
    number: usize,
    /// What it has received, but for the questions about itself.
    seen: Mutex<Vec<String>>,
    answer: Box<Answer>,
}

/// Two nodes, and the cluster that they are.
async fn fakes(
    first: impl Fn(&Fake, &str) -> Option<String> + Send + Sync + 'static,
    second: impl Fn(&Fake, &str) -> Option<String> + Send + Sync + 'static,
) -> (Cluster, [Arc<Fake>; 2]) {
    let listeners = [listener().await, listener().await];
    let ports = listeners.each_ref().map(|(_, port)| *port);
    let fake = |number, answer| Arc::new(Fake { ports, number, seen: Mutex::default(), answer });
    let fakes = [fake(0, Box::new(first) as Box<Answer>), fake(1, Box::new(second))];
    for ((listener, _), fake) in listeners.into_iter().zip(&fakes) {
        let fake = Arc::clone(fake);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let fake = Arc::clone(&fake);
                tokio::spawn(async move { fake.serve(socket).await });
            }
        });
    }
    let given = Client::open(format!("redis://127.0.0.1:{}", ports[0])).expect("an address");
    (Cluster::new(given, TIMEOUT), fakes)
}

async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

impl Fake {
    async fn serve(&self, socket: TcpStream) -> io::Result<()> {
        let mut socket = BufReader::new(socket);
        loop {
            let mut words = Vec::new();
            for _ in 0..number(&mut socket).await? {
                let mut word = vec![0; number(&mut socket).await? + 2];
                socket.read_exact(&mut word).await?;
                word.truncate(word.len() - 2);
                words.push(String::from_utf8(word).expect("text"));
            }
            let line = words.join(" ");
            let answer = match &words[0][..] {
                "CLIENT" => Some("+OK\r\n".into()),
                "CLUSTER" => (self.answer)(self, &line).or_else(|| Some(self.nodes(SLOTS / 2))),
                _ => {
                    self.seen.lock().expect("no panic").push(line.clone());
                    (self.answer)(self, &line)
                }
            };
            let Some(answer) = answer else { return Ok(()) };
            socket.write_all(answer.as_bytes()).await?;
        }
    }

    /// What CLUSTER NODES answers if the second one has the slots from this one on.
    fn nodes(&self, split: u16) -> String {
        let line = |number: usize, slots: String| {
            format!(
                "n{number} 127.0.0.1:{}@1 master - 0 0 1 connected {slots}\n",
                self.ports[number]
            )
        };
        let first = if split == 0 { String::new() } else { format!("0-{}", split - 1) };
        let second = format!("{split}-{}", SLOTS - 1);
        bulk(&format!("{}{}", line(0, first).replace(" \n", "\n"), line(1, second)))
    }

    fn redirect(&self, code: &str, to: usize) -> String {
        format!("-{code} 0 127.0.0.1:{}\r\n", self.ports[to])
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("no panic").clone()
    }
}

/// The number after a sign.
async fn number(socket: &mut BufReader<TcpStream>) -> io::Result<usize> {
    let mut line = String::new();
    match socket.read_line(&mut line).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(line[1..].trim_end().parse().expect("a number")),
    }
}

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// Its number, and what it was asked.
fn echo(fake: &Fake, line: &str) -> Option<String> {
    (!line.starts_with("CLUSTER")).then(|| bulk(&format!("{} {line}", fake.number)))
}

/// Refuses to answer for keys, however often.
fn never(code: &'static str) -> impl Fn(&Fake, &str) -> Option<String> {
    move |_, line| (!line.starts_with("CLUSTER")).then(|| format!("-{code} for a test\r\n"))
}

fn replied(text: &str) -> Value {
    Value::BulkString(text.into())
}

/// Keys of the first node, and of the second.
const KEYS: [&str; 2] = ["bar", "foo"];

#[tokio::test]
async fn replies_are_in_the_order_of_their_commands() {
    assert_eq!(KEYS.map(|key| slot(key.as_bytes()) / (SLOTS / 2)), [0, 1]);
    let (cluster, fakes) = fakes(echo, echo).await;
    let mut commands = Pipeline::new();
    let mut expected = Vec::new();
    for n in 0..100 {
        let key = format!("key:{n}");
        let node = slot(key.as_bytes()) / (SLOTS / 2);
        expected.push(replied(&format!("{node} GET {key}")));
        commands.cmd("GET").arg(key);
    }
    assert_eq!(cluster.send(&commands).await, Ok(expected));
    let counts = fakes.map(|fake| fake.seen().len());
    assert!(counts[0] > 20 && counts[1] > 20 && counts[0] + counts[1] == 100, "{counts:?}");
}

#[tokio::test]
async fn a_slot_that_has_moved_is_learned() {
    // The first one says that all slots are the second one's, but only after it was asked for one.
    let first = |fake: &Fake, line: &str| match line.starts_with("CLUSTER") {
        true if fake.seen().is_empty() => None,
        true => Some(fake.nodes(0)),
        false => Some(fake.redirect("MOVED", 1)),
    };
    let second = |fake: &Fake, line: &str| match line.starts_with("CLUSTER") {
        true => Some(fake.nodes(0)),
        false => echo(fake, line),
    };
    let (cluster, fakes) = fakes(first, second).await;
    let get = pipeline(&["GET", KEYS[0]]);
    let reply = || Ok(vec![replied("1 GET bar")]);
    assert_eq!(cluster.send(&get).await, reply());
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(cluster.send(&get).await, reply());
    let before = fakes[0].seen().len();
    assert_eq!(cluster.send(&get).await, reply());
    assert_eq!(fakes[0].seen().len(), before, "it is asked no more");
}

#[tokio::test]
async fn a_slot_that_is_moving_is_asked_for_once() {
    let first = |fake: &Fake, line: &str| match line.starts_with("CLUSTER") {
        true => None,
        false => Some(fake.redirect("ASK", 1)),
    };
    let second = |fake: &Fake, line: &str| {
        let seen = fake.seen();
        match (line, &seen[..]) {
            ("ASKING", _) => Some("+OK\r\n".into()),
            (_, [.., asking, _]) if asking == "ASKING" => echo(fake, line),
            _ => Some(fake.redirect("MOVED", 0)),
        }
    };
    let (cluster, fakes) = fakes(first, second).await;
    let mut commands = pipeline(&["GET", KEYS[0]]);
    commands.cmd("GETRANGE").arg(KEYS[0]).arg(0).arg(1);
    for _ in 0..2 {
        let replies = [replied("1 GET bar"), replied("1 GETRANGE bar 0 1")];
        assert_eq!(cluster.send(&commands).await, Ok(replies.into()));
    }
    let both = ["GET bar", "GETRANGE bar 0 1"];
    assert_eq!(fakes[0].seen(), [both, both].concat());
    let asked = ["ASKING", both[0], "ASKING", both[1]];
    assert_eq!(fakes[1].seen(), [asked, asked].concat());
}

#[tokio::test]
async fn a_command_that_was_refused_for_now_is_sent_again() {
    for code in NOT_YET {
        let first = move |fake: &Fake, line: &str| {
            let refused = never(code)(fake, line);
            if fake.seen().len() < 5 { refused } else { echo(fake, line) }
        };
        let (cluster, fakes) = fakes(first, echo).await;
        let incr = pipeline(&["INCR", KEYS[0]]);
        assert_eq!(cluster.send(&incr).await, Ok(vec![replied("0 INCR bar")]), "{code}");
        assert_eq!(fakes[0].seen().len(), 5);
    }
}

#[tokio::test]
async fn a_cluster_that_stays_down_costs_no_more_than_the_timeout() {
    let (mut cluster, _fakes) = fakes(never("CLUSTERDOWN"), |fake, line| {
        if line.starts_with("CLUSTER") { None } else { Some(fake.redirect("MOVED", 1)) }
    })
    .await;
    cluster.timeout = Duration::from_millis(300);
    for (key, reason) in KEYS.iter().zip(["CLUSTERDOWN for a test", "redirect requests"]) {
        let begin = Instant::now();
        let failure = cluster.send(&pipeline(&["GET", key])).await.expect_err("it is down");
        assert!(failure.to_string().contains(reason), "{failure}");
        assert!((300..1000).contains(&begin.elapsed().as_millis()), "{:?}", begin.elapsed());
    }
}

/// Closes connections at a command's first time.
fn closes(fake: &Fake, line: &str) -> Option<String> {
    let times = fake.seen().iter().filter(|seen| *seen == line).count();
    if times == 1 { None } else { echo(fake, line) }
}

#[tokio::test]
async fn only_reads_are_sent_again_when_their_connection_breaks() {
    let (cluster, fakes) = fakes(closes, echo).await;
    for name in READS {
        let reply = replied(&format!("0 {name} bar"));
        assert_eq!(cluster.send(&pipeline(&[name, KEYS[0]])).await, Ok(vec![reply]));
    }
    assert_eq!(fakes[0].seen().len(), 2 * READS.len());
    for name in ["INCR", "SET", "SETNX", "GETDEL", "DEL", "EXPIRE"] {
        let before = fakes[0].seen().len();
        let failure = cluster.send(&pipeline(&[name, KEYS[0]])).await.expect_err("it is unknown");
        let unknown = format!("{name} may have been executed or not");
        assert!(failure.to_string().contains(&unknown), "{failure}");
        assert_eq!(fakes[0].seen().len(), before + 1);
        // The next one gets another connection.
        let reply = replied(&format!("0 {name} bar"));
        assert_eq!(cluster.send(&pipeline(&[name, KEYS[0]])).await, Ok(vec![reply]));
    }
}

#[tokio::test]
async fn a_dropped_request_leaves_nothing_locked() {
    // It does not tell of its slots at first, and its connections are silent from then on.
    let first = |fake: &Fake, line: &str| {
        let mut seen = fake.seen.lock().expect("no panic");
        if line.starts_with("CLUSTER") && seen.is_empty() {
            seen.push("a question".into());
            return Some(String::new());
        }
        drop(seen);
        echo(fake, line)
    };
    let (cluster, _fakes) = fakes(first, echo).await;
    let get = pipeline(&["GET", KEYS[0]]);
    let dropped = timeout(Duration::from_millis(50), cluster.send(&get)).await;
    dropped.expect_err("it waits");
    assert_eq!(cluster.send(&get).await, Ok(vec![replied("0 GET bar")]));
}

/// A server that restarts reads its cursors in another way: nobody goes on with an old one.
#[tokio::test]
async fn a_scan_ends_with_its_connection() {
    let first = |_: &Fake, line: &str| match line.split(' ').collect::<Vec<_>>()[..2] {
        ["INFO", _] => Some(bulk("cluster_enabled:0")),
        ["SCAN", "0"] => Some("*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n".into()),
        ["SCAN", _] => Some("*2\r\n$1\r\n0\r\n*0\r\n".into()),
        [_, "closes"] => None,
        _ => Some(":0\r\n".into()),
    };
    let (_, fakes) = fakes(first, echo).await;
    let address = format!("redis://127.0.0.1:{}", fakes[0].ports[0]);
    let server = RedisServer::connect(&address, None, TIMEOUT).await.expect("it answers");
    let (chunks, mut received) = mpsc::channel(1);
    // The scan waits until this is taken.
    chunks.send(Vec::new()).await.expect("there is room");
    let meanwhile = async {
        while !fakes[0].seen().iter().any(|line| line.starts_with("SCAN 0 ")) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        server.exist(&["closes".into()]).await.expect_err("its connection breaks");
        server.exist(&["another".into()]).await.expect("there is another connection");
        while received.recv().await.is_some() {}
    };
    let (scanned, ()) = tokio::join!(server.scan(chunks), meanwhile);
    scanned.expect_err("its connection is gone");
}
