//! Eight threads for ten seconds, or for `TWICESHY_STRESS_SECONDS`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use twiceshy::Guard;
use twiceshy::guard::{Opened, Store};

use crate::options;
use crate::random::Random;
use crate::stores::{Call, Hooked, SPECS, When, hasher, is_adaptive};

/// How much longer the stress test waits for what it is to see.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long the stress test takes at least.
fn patience() -> Duration {
    let seconds = std::env::var("TWICESHY_STRESS_SECONDS").ok();
    Duration::from_secs_f64(seconds.map_or(10.0, |text| text.parse().expect("seconds")))
}

const THREADS: u64 = 8;
const KEYS: usize = 4096;

/// What is known of a key, by who owns it: a number that counts its changes, and
/// how it is. Who reads it before and after a query, and finds it the same and
/// not changing, knows what the answer had to be.
#[derive(Default)]
struct Known(AtomicU64);

const ABSENT: u64 = 0;
const CHANGING: u64 = 1;
const PRESENT: u64 = 2;

impl Known {
    fn state(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn set(&self, count: u64, state: u64) {
        self.0.store(count << 2 | state, Ordering::SeqCst);
    }
}

/// What a key has while its state is this.
fn value(state: u64) -> Option<Vec<u8>> {
    (state & 3 == PRESENT).then(|| (state >> 2).to_le_bytes().to_vec())
}

struct Stress<S> {
    guard: Guard<S>,
    known: Vec<Known>,
    /// Keys below this are used: it rises, so that shards grow all the time.
    used: AtomicU64,
    /// Answers that were compared with what is known.
    compared: AtomicU64,
    stop: AtomicBool,
}

fn stress_key(index: usize) -> Vec<u8> {
    format!("stress {index}").into_bytes()
}

impl<S: Store> Stress<S> {
    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Compares an answer with what was known all along.
    fn compare(&self, index: usize, before: u64, found: Option<&[u8]>) {
        if before & 3 != CHANGING && self.known[index].state() == before {
            assert_eq!(found, value(before).as_deref(), "key {index} of {}", self.guard.spec());
            self.compared.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn get(&self, index: usize) {
        let before = self.known[index].state();
        let found = self.guard.get(stress_key(index)).expect("in memory");
        self.compare(index, before, found.as_deref());
    }

    fn get_many(&self, indices: &[usize]) {
        let before: Vec<u64> = indices.iter().map(|&index| self.known[index].state()).collect();
        let keys: Vec<_> = indices.iter().map(|&index| stress_key(index)).collect();
        let found = self.guard.get_many(&keys).expect("in memory");
        for ((&index, before), found) in indices.iter().zip(before).zip(found) {
            self.compare(index, before, found.as_deref());
        }
    }

    /// Changes keys of this thread: no other changes them.
    fn change(&self, indices: &[usize], put: bool) {
        let states: Vec<u64> = indices.iter().map(|&index| self.known[index].state()).collect();
        for (&index, state) in indices.iter().zip(&states) {
            self.known[index].set((state >> 2) + 1, CHANGING);
        }
        let after = |state: u64| ((state >> 2) + 1) << 2 | if put { PRESENT } else { ABSENT };
        if put {
            let records: Vec<_> = indices
                .iter()
                .zip(&states)
                .map(|(&index, &state)| (stress_key(index), value(after(state)).expect("present")))
                .collect();
            let new = self.guard.put_many(&records).expect("in memory");
            assert_eq!(new, states.iter().filter(|state| *state & 3 == ABSENT).count());
        } else {
            for (&index, state) in indices.iter().zip(&states) {
                let was = self.guard.remove(stress_key(index)).expect("in memory");
                assert_eq!(was, state & 3 == PRESENT);
            }
        }
        for (&index, &state) in indices.iter().zip(&states) {
            self.known[index].0.store(after(state), Ordering::SeqCst);
        }
    }

    /// Whether everything has happened that this is to be right in spite of.
    fn has_seen_all(&self, snapshots: u32) -> bool {
        let stats = self.guard.stats();
        let adapts = is_adaptive(&self.guard.spec().to_string());
        self.compared.load(Ordering::Relaxed) > 100
            && snapshots > 3
            && stats.growths > 3
            && (stats.adapted > 0) == adapts
    }

    fn run(&self, thread: u64, seed: u64) {
        let mut random = Random(seed);
        while !self.stop.load(Ordering::Relaxed) {
            let used = self.used();
            let any = (random.next() % used) as usize;
            let own = (any as u64 / THREADS * THREADS + thread) as usize;
            match random.next() % 100 {
                0..30 => self.change(&[own], true),
                30..45 => self.change(&[own], false),
                45..49 => {
                    let group = own / 64 * 64 + thread as usize;
                    let indices: Vec<_> =
                        (0..4).map(|more| group + more * THREADS as usize).collect();
                    self.change(&indices, true);
                }
                49..53 => {
                    let indices: Vec<_> =
                        (0..10).map(|_| (random.next() % used) as usize).collect();
                    self.get_many(&indices);
                }
                53..90 => self.get(any),
                _ => {
                    // Misses, again and again the same.
                    let missing = format!("missing {}", random.next() % 500);
                    assert_eq!(self.guard.get(missing).expect("in memory"), None);
                }
            }
        }
    }
}

/// One filter for a while, under eight threads that change and ask, one that takes
/// snapshots, and a store that dawdles.
fn stress(text: &str, time: Duration, seed: u64) {
    let ticks = AtomicU64::new(seed);
    let memory = Arc::new(Hooked::new(move |_: Call, _: When| {
        match Random(ticks.fetch_add(1, Ordering::Relaxed)).next() % 64 {
            0..16 => thread::yield_now(),
            16 => thread::sleep(Duration::from_micros(5)),
            _ => {}
        }
        Ok(())
    }));
    let options = options(text, 16, (seed % 4) as u32);
    let stress = Stress {
        guard: Guard::open(memory.clone(), hasher(), &options).expect("an empty store"),
        known: (0..KEYS).map(|_| Known::default()).collect(),
        used: AtomicU64::new(64),
        compared: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let mut snapshots = 0;
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let stress = &stress;
            scope.spawn(move || {
                // Whoever fails ends it for all.
                let stop = Stop(&stress.stop);
                stress.run(thread, seed << 8 | thread);
                drop(stop);
            });
        }
        let begin = Instant::now();
        // A slow machine takes longer until everything has happened.
        let is_over = |snapshots| {
            let elapsed = begin.elapsed();
            elapsed >= time && (stress.has_seen_all(snapshots) || elapsed >= time + DEADLINE)
        };
        while !is_over(snapshots) && !stress.stop.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(3));
            let share = begin.elapsed().as_secs_f64() / time.as_secs_f64();
            let used = (KEYS as f64 * share) as u64 / 64 * 64;
            stress.used.store(used.clamp(64, KEYS as u64), Ordering::Relaxed);
            assert!(!stress.guard.snapshot().expect("in memory").is_empty());
            snapshots += 1;
        }
        stress.stop.store(true, Ordering::Relaxed);
    });
    let guard = &stress.guard;
    assert_eq!(guard.check(), Ok(0), "{text}");
    println!(
        "{text}: {} answers compared, {snapshots} snapshots, {:?}",
        stress.compared.load(Ordering::Relaxed),
        stress.guard.stats()
    );
    // It proves little where nothing happened.
    assert!(stress.has_seen_all(snapshots), "{text}: {snapshots}, {:?}", stress.guard.stats());

    // All of it is there, also for who opens it again.
    let snapshot = guard.snapshot().expect("in memory");
    let again = Guard::open_with(memory, hasher(), &options, Some(&snapshot), &mut |_, _| ());
    let again = again.expect("in memory");
    assert_eq!(*again.opened(), Opened::Snapshot);
    for (index, known) in stress.known.iter().enumerate() {
        for guard in [guard, &again] {
            assert_eq!(guard.get(stress_key(index)).expect("in memory"), value(known.state()));
        }
    }
}

/// Sets a flag when it goes, also when it goes in a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn eight_threads_agree_with_what_each_knows() {
    let time = patience() / SPECS.len() as u32;
    for (seed, text) in (1..).zip(SPECS) {
        stress(text, time, seed);
    }
}
