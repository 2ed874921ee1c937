//! A demonstration: a store of users, a crowd that looks them up, and an attacker who looks up
//! missing ones.
//!
//! The attack is a cache penetration: queries for missing keys, chosen so that they reach the
//! store. The attacker tries new keys, keeps the false positives, and repeats them. It is told
//! what a real attacker finds out by timing: which of its queries were wasted reads. Everything
//! else goes over the network like any client's requests.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tracing::warn;

use crate::server::Server;

/// The most users of a demonstration: some 16 GB, and a quarter of an hour to store.
pub const MOST_USERS: u64 = 100_000_000;

/// The most disk space per user: 135 bytes with 10^6 users, 84 with 10^5, since the file grows
/// in steps.
pub const BYTES_PER_USER: u64 = 160;

/// The records of users 0 to `keys`.
pub fn records(keys: u64) -> impl Iterator<Item = (String, String)> {
    (0..keys).map(|index| (user(index), format!("{{\"id\":{index}}}")))
}

fn user(index: u64) -> String {
    format!("user:{index}")
}

/// What the page of a demonstration shows beside the numbers of every server.
#[derive(Debug, Default)]
pub struct Demo {
    attacking: AtomicBool,
}

impl Demo {
    /// Whether the attacker is at work, or pauses.
    #[must_use]
    pub fn is_attacking(&self) -> bool {
        self.attacking.load(Ordering::Relaxed)
    }
}

/// The crowd and the attacker at work, in a thread of their own.
pub struct Attack {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Attack {
    /// Starts the traffic to a server that stores `keys` users.
    #[must_use]
    pub fn start(address: SocketAddr, server: Arc<Server>, keys: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            keep_playing(server.demo.as_ref(), &stopped, || play(address, &server, keys, &stopped));
        });
        Attack { stop, thread }
    }

    /// Stops it.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic was reported where it happened.
        let _ = self.thread.join();
    }
}

/// Between two bursts.
const TICK: Duration = Duration::from_millis(10);

/// Keys per burst: 10,000 per second of each.
const BURST: u64 = 100;

/// The attacker attacks for so long, and then pauses, so that both can be seen.
const ATTACK: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_secs(10);

/// After a failure.
const AGAIN: Duration = Duration::from_secs(1);

/// Plays until it is stopped. On a machine that is busy or sleeps, clients may lose the server.
fn keep_playing(demo: Option<&Demo>, stop: &AtomicBool, mut play: impl FnMut() -> io::Result<()>) {
    while let Err(error) = play() {
        if let Some(demo) = demo {
            demo.attacking.store(false, Ordering::Relaxed);
        }
        if stop.load(Ordering::Relaxed) {
            return;
        }
        warn!(%error, "the demonstration was interrupted; it begins again");
        thread::sleep(AGAIN);
    }
}

fn play(address: SocketAddr, server: &Server, keys: u64, stop: &AtomicBool) -> io::Result<()> {
    let (mut crowd, mut attacker) = (Client::connect(address)?, Client::connect(address)?);
    let mut random = Random(keys);
    let mut loot = Loot::new(keys);
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        let asked: Vec<String> = (0..BURST).map(|_| wish(&mut random, keys)).collect();
        crowd.get_all(&asked)?;
        let attacking = is_attack(start.elapsed());
        if let Some(demo) = &server.demo {
            demo.attacking.store(attacking, Ordering::Relaxed);
        }
        if attacking {
            let asked = loot.burst();
            attacker.get_all(&asked)?;
            loot.keep(asked, |key| server.backend.was_adapted(key));
        }
        thread::sleep(TICK.saturating_sub(began.elapsed()));
    }
    Ok(())
}

/// Whether the attacker attacks at a time since the beginning.
fn is_attack(since: Duration) -> bool {
    since.as_secs() % (ATTACK + PAUSE).as_secs() < ATTACK.as_secs()
}

/// What one of the crowd looks up: a user, the first ones most often, or one time in four a
/// guest, who is not stored.
fn wish(random: &mut Random, keys: u64) -> String {
    if random.next().is_multiple_of(4) {
        return format!("guest:{}", random.next() % (4 * keys));
    }
    // A user's chance is about one over its number.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "which user it is does not matter"
    )]
    let index = ((keys as f64).powf(random.fraction()) - 1.0) as u64;
    user(index)
}

/// Numbers that look random: SplitMix64 of Steele, Lea and Flood.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1.
    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Keys that caused wasted reads, to be repeated.
struct Loot {
    keys: Vec<String>,
    turn: usize,
    next_new: u64,
}

/// The most keys that the attacker keeps.
const LOOT: usize = 4096;

/// New keys of a burst; the others are old ones as soon as there are some.
const NEW: u64 = BURST / 5;

impl Loot {
    fn new(first_missing: u64) -> Self {
        Loot { keys: Vec::new(), turn: 0, next_new: first_missing }
    }

    fn burst(&mut self) -> Vec<String> {
        (0..BURST)
            .map(|index| {
                if index < NEW || self.keys.is_empty() {
                    self.next_new += 1;
                    return user(self.next_new);
                }
                self.turn = (self.turn + 1) % self.keys.len();
                self.keys[self.turn].clone()
            })
            .collect()
    }

    /// Keeps the new keys of a burst that caused wasted reads.
    fn keep(&mut self, asked: Vec<String>, was_read: impl Fn(&str) -> bool) {
        let new = if self.keys.is_empty() { asked.len() } else { NEW as usize };
        for key in asked.into_iter().take(new) {
            if self.keys.len() < LOOT && was_read(&key) {
                self.keys.push(key);
            }
        }
    }
}

/// A client that can only get.
struct Client {
    socket: BufReader<TcpStream>,
}

/// After this silence the server counts as gone.
const SILENCE: Duration = Duration::from_secs(10);

impl Client {
    fn connect(address: SocketAddr) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(SILENCE))?;
        socket.set_write_timeout(Some(SILENCE))?;
        Ok(Client { socket: BufReader::new(socket) })
    }

    /// Asks for many keys in one pipeline; returns how many are stored.
    fn get_all(&mut self, keys: &[String]) -> io::Result<usize> {
        let mut requests = Vec::new();
        for key in keys {
            write!(requests, "*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len())?;
        }
        self.socket.get_mut().write_all(&requests)?;
        let mut found = 0;
        for _ in keys {
            found += usize::from(self.skip_value()?);
        }
        Ok(found)
    }

    /// Reads a reply; `false` for nil.
    fn skip_value(&mut self) -> io::Result<bool> {
        let mut line = String::new();
        if self.socket.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().strip_prefix('$').map(str::parse::<i64>) {
            Some(Ok(-1)) => Ok(false),
            Some(Ok(length @ 0..)) => {
                let bytes = length.unsigned_abs() + 2;
                io::copy(&mut self.socket.by_ref().take(bytes), &mut io::sink())?;
                Ok(true)
            }
            _ => Err(io::Error::other(format!("expected a value, not {:?}", line.trim_end()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attacker_repeats_what_was_read_for_nothing() {
        let mut loot = Loot::new(1000);
        let first = loot.burst();
        assert_eq!((&*first[0], &*first[99]), ("user:1001", "user:1100"));
        loot.keep(first, |key| key.ends_with('7'));
        let second = loot.burst();
        assert_eq!((&*second[0], &*second[19]), ("user:1101", "user:1120"));
        assert!(second[20..].iter().all(|key| key.ends_with('7')));
        let distinct: std::collections::HashSet<_> = second[20..].iter().collect();
        assert_eq!(distinct.len(), 10);
        // Old ones are not kept twice.
        loot.keep(second, |key| key.ends_with('7'));
        assert_eq!(loot.keys.len(), 12);
    }

    #[test]
    fn an_interrupted_demonstration_begins_again() {
        let (demo, stop) = (Demo::default(), AtomicBool::new(false));
        let mut played = 0;
        keep_playing(Some(&demo), &stop, || {
            assert!(!demo.is_attacking(), "the page says that it attacks, and it does not");
            demo.attacking.store(true, Ordering::Relaxed);
            played += 1;
            if played == 1 { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
        });
        assert_eq!(played, 2);
        stop.store(true, Ordering::Relaxed);
        keep_playing(Some(&demo), &stop, || Err(io::ErrorKind::TimedOut.into()));
    }

    #[test]
    fn attacks_and_pauses_take_turns() {
        let attacks = [0, 39, 40, 49, 50, 89, 90].map(|at| is_attack(Duration::from_secs(at)));
        assert_eq!(attacks, [true, true, false, false, true, true, false]);
    }

    #[test]
    fn the_crowd_asks_for_all_users_and_for_guests() {
        let mut random = Random(1);
        let wishes: Vec<String> = (0..10_000).map(|_| wish(&mut random, 1000)).collect();
        let guests = wishes.iter().filter(|key| key.starts_with("guest:")).count();
        // Binomial with mean 2500 and deviation 43: beyond 6 of them below 1e-8.
        assert!((2240..=2760).contains(&guests), "{guests}");
        let numbers = wishes.iter().filter_map(|key| key.strip_prefix("user:")?.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        assert_eq!(numbers.iter().min(), Some(&0));
        assert!(numbers.iter().all(|&number| number < 1000));
    }
}
