//! The guard under many threads: interleavings that are set up one by one, and
//! whatever comes in ten seconds (`TWICESHY_STRESS_SECONDS` for longer).

#[path = "../../twiceshy-filters/tests/harness/random.rs"]
mod random;
mod stores;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use random::Random;
use stores::{Call, Hooked, SPECS, When, hasher, is_adaptive, spec};
use twiceshy::Guard;
use twiceshy::guard::{GuardOptions, Opened, Store};
use twiceshy_filters::RemoteError;

/// Where a call of the store is stopped: the first of its kind, or a later one.
#[derive(Clone, Copy)]
struct Halt {
    call: Call,
    when: When,
    skipped: u32,
}

/// Stops one call of the store until it may go on.
struct Gate {
    halt: Mutex<Option<Halt>>,
    arrived: SyncSender<()>,
    go_on: Mutex<Receiver<()>>,
}

/// The other side of a [`Gate`].
struct Keeper {
    gate: Arc<Gate>,
    arrived: Receiver<()>,
    go_on: SyncSender<()>,
}

impl Gate {
    fn pass(&self, call: Call, when: When) -> Result<(), RemoteError> {
        if self.stops(call, when) {
            self.arrived.send(())?;
            self.go_on.lock().expect("no panic").recv()?;
        }
        Ok(())
    }

    fn stops(&self, call: Call, when: When) -> bool {
        let mut halt = self.halt.lock().expect("no panic");
        match &mut *halt {
            Some(at) if (at.call, at.when) == (call, when) => {
                if at.skipped > 0 {
                    at.skipped -= 1;
                    return false;
                }
                *halt = None;
                true
            }
            _ => false,
        }
    }
}

impl Keeper {
    fn new() -> Self {
        let (arrived, arrivals) = sync_channel(1);
        let (go_on, waits) = sync_channel(1);
        let gate = Gate { halt: Mutex::new(None), arrived, go_on: Mutex::new(waits) };
        Keeper { gate: Arc::new(gate), arrived: arrivals, go_on }
    }

    /// Runs `slow` in a thread of its own, and `meanwhile` while the call of the
    /// store where `slow` is stopped waits. `false` when there was no such call.
    fn interleave(&self, halt: Halt, slow: impl FnOnce() + Send, meanwhile: impl FnOnce()) -> bool {
        *self.gate.halt.lock().expect("no panic") = Some(halt);
        let stopped = thread::scope(|scope| {
            let slow = scope.spawn(slow);
            let stopped = loop {
                match self.arrived.recv_timeout(Duration::from_micros(100)) {
                    Ok(()) => break true,
                    Err(_) if slow.is_finished() => break false,
                    Err(_) => {}
                }
            };
            if stopped {
                // Also when that fails, or the other would wait for ever.
                let outcome = catch_unwind(AssertUnwindSafe(meanwhile));
                self.go_on.send(()).expect("it waits");
                outcome.unwrap_or_else(|panic| resume_unwind(panic));
            }
            stopped
        });
        *self.gate.halt.lock().expect("no panic") = None;
        stopped
    }
}

/// The first call of a kind.
fn first(call: Call, when: When) -> Halt {
    Halt { call, when, skipped: 0 }
}

/// Keys whose digests begin with the same 16 bits: in a small filter they have
/// one quotient and mostly one remainder.
fn likes() -> Vec<[Vec<u8>; 3]> {
    let mut by_prefix = std::collections::BTreeMap::<u64, Vec<Vec<u8>>>::new();
    for number in 0..200_000 {
        let key = format!("key {number}").into_bytes();
        let prefix = hasher().digest(&key).words()[0] >> 48;
        // A few prefixes, far from each other.
        if prefix % 512 == 17 {
            by_prefix.entry(prefix).or_default().push(key);
        }
    }
    let triples = by_prefix.into_values().flat_map(|keys| {
        keys.chunks_exact(3)
            .map(|three| three.to_vec().try_into().expect("three"))
            .collect::<Vec<_>>()
    });
    triples.collect()
}

fn gated(text: &str) -> (Keeper, Guard<impl Store>) {
    let keeper = Keeper::new();
    let gate = keeper.gate.clone();
    let store = Hooked::new(move |call: Call, when: When| gate.pass(call, when));
    let options = GuardOptions { spec: spec(text), capacity: 40, shard_bits: 1 };
    (keeper, Guard::open(store, hasher(), &options).expect("an empty store"))
}

/// A change of one of two keys.
#[derive(Clone, Copy)]
enum Step {
    Put(usize),
    Remove(usize),
}

/// A miss reads the store, which has had the steps `before`. Ahead of its lesson come
/// the steps `meanwhile`, with keys of the same fingerprint: what was read is no
/// longer true, and the store is read again.
fn overtaken_read_is_made_again(before: &[Step], meanwhile: &[Step]) {
    for text in SPECS.iter().filter(|text| is_adaptive(text)) {
        let mut tried = 0;
        for [first_key, second_key, missing] in likes() {
            let keys = [first_key, second_key];
            let (keeper, guard) = gated(text);
            let make = |steps: &[Step]| {
                for step in steps {
                    let news = match *step {
                        Step::Put(which) => guard.put(&keys[which], "value"),
                        Step::Remove(which) => guard.remove(&keys[which]),
                    };
                    assert!(news.expect("in memory"), "{text}");
                }
            };
            make(before);
            if !guard.may_contain(&missing) {
                continue;
            }
            tried += 1;
            let stopped = keeper.interleave(
                first(Call::Read, When::After),
                || assert_eq!(guard.get(&missing).expect("in memory"), None),
                || make(meanwhile),
            );
            assert!(stopped, "a miss that passes the filter reads");
            let mut stored = [false; 2];
            for step in before.iter().chain(meanwhile) {
                match *step {
                    Step::Put(which) => stored[which] = true,
                    Step::Remove(which) => stored[which] = false,
                }
            }
            for (key, stored) in keys.iter().zip(stored) {
                assert!(guard.may_contain(key) || !stored, "{text}: a false negative");
            }
            assert_eq!(guard.stats().postponed, 0, "{text}");
            assert_eq!(guard.check(), Ok(0), "{text}");
            for (key, stored) in keys.iter().zip(stored) {
                let value = guard.get(key).expect("in memory");
                assert_eq!(value, stored.then(|| b"value".to_vec()), "{text}");
            }
            assert_eq!(guard.get(&missing).expect("in memory"), None);
        }
        assert!(tried >= 3, "{text}: {tried}");
    }
}

/// The new key's slot would be taken for one without an owner.
#[test]
fn a_read_that_a_put_has_overtaken_is_made_again() {
    overtaken_read_is_made_again(&[Step::Put(0)], &[Step::Put(1)]);
}

/// A key goes and another comes: the number of keys is the same.
#[test]
fn a_read_that_a_removal_and_a_put_have_overtaken_is_made_again() {
    overtaken_read_is_made_again(&[Step::Put(0)], &[Step::Remove(0), Step::Put(1)]);
}

/// What was read shows a key more than there are slots.
#[test]
fn a_read_that_a_removal_has_overtaken_is_made_again() {
    overtaken_read_is_made_again(&[Step::Put(0), Step::Put(1)], &[Step::Remove(1)]);
}

/// Lessons and snapshots change no key: what was read before them is as true as
/// ever, and is learned.
#[test]
fn a_read_that_another_lesson_has_overtaken_teaches() {
    let key = |number: u32| format!("key {number}");
    for text in SPECS.iter().filter(|text| is_adaptive(text)) {
        let mut learned = 0;
        for round in 0..20 {
            let (keeper, guard) = gated(text);
            let stored: Vec<_> = (0..20).map(|number| key(100 * round + number)).collect();
            stored.iter().for_each(|key| assert!(guard.put(key, "").expect("in memory")));
            // Two that pass, in one shard.
            let mut misses = (1_000_000 * (1 + round)..).map(key).filter(|miss| {
                hasher().digest(miss).words()[0] >> 63 == 0 && guard.may_contain(miss)
            });
            let [missing, other] = [(); 2].map(|()| misses.next().expect("one of many"));
            let stopped = keeper.interleave(
                first(Call::Read, When::After),
                || assert_eq!(guard.get(&missing).expect("in memory"), None),
                || {
                    assert_eq!(guard.get(&other).expect("in memory"), None);
                    assert!(!guard.snapshot().expect("in memory").is_empty());
                },
            );
            assert!(stopped, "a miss that passes the filter reads");
            assert_eq!(guard.stats().postponed, 0, "{text}");
            assert_eq!(guard.check(), Ok(0), "{text}");
            // A change may happen to collide again.
            learned += u32::from(!guard.may_contain(&missing));
        }
        assert!(learned > 0, "{text}");
    }
}

/// A filter adapts while the store writes, which takes the store milliseconds: the
/// keys that are on their way are neither forgotten nor mistaken for orphans.
#[test]
fn a_miss_is_fixed_while_the_store_writes() {
    let put = |guard: &Guard<_>, key: &[u8]| assert!(guard.put(key, "value").expect("in memory"));
    for text in SPECS.iter().filter(|text| is_adaptive(text)) {
        let (mut tried, mut fixed) = (0, 0);
        for [stored, other, missing] in likes() {
            for (removes, when) in [(false, When::Before), (false, When::After)]
                .into_iter()
                .chain([(true, When::Before), (true, When::After)])
            {
                let (keeper, guard) = gated(text);
                put(&guard, &stored);
                if removes {
                    put(&guard, &other);
                }
                if !guard.may_contain(&missing) {
                    continue;
                }
                tried += 1;
                let change = || {
                    let news = if removes { guard.remove(&other) } else { guard.put(&other, "v") };
                    assert!(news.expect("in memory"), "{text}");
                };
                let stopped = keeper.interleave(first(Call::Write, when), change, || {
                    assert_eq!(guard.get(&missing).expect("in memory"), None);
                    fixed += guard.stats().fixed;
                });
                assert!(stopped, "{text}: the store writes");
                assert_eq!(guard.stats().postponed, 0, "{text}");
                assert!(guard.may_contain(&stored), "{text}: a false negative");
                assert!(guard.may_contain(&other) || removes, "{text}: a false negative");
                assert_eq!(guard.check(), Ok(0), "{text}");
                assert_eq!(guard.contains(&other).expect("in memory"), !removes, "{text}");
            }
        }
        // One that stays unfixed found no better fingerprint among so few.
        assert!(tried >= 12 && fixed * 2 > tried, "{text}: {fixed} of {tried}");
    }
}

/// A put has changed the filter and not yet the store: who asks for its key finds
/// none, and must not take the fingerprint for one without an owner.
#[test]
fn a_fingerprint_that_waits_for_its_record_is_not_dropped() {
    for text in SPECS {
        let (keeper, guard) = gated(text);
        for number in 0..200 {
            let key = format!("key {number}");
            let asked = || {
                assert!(guard.may_contain(&key), "{text}: the filter comes first");
                assert_eq!(guard.get(&key).expect("in memory"), None);
            };
            let stopped = keeper.interleave(
                first(Call::Write, When::Before),
                || assert!(guard.put(&key, "value").expect("in memory")),
                asked,
            );
            assert!(stopped, "a put writes");
            let value = guard.get(&key).expect("in memory");
            assert_eq!(value.as_deref(), Some(&b"value"[..]), "{text}: a false negative");
        }
        let stats = guard.stats();
        assert!(stats.growths > 0, "{text}");
        assert_eq!((stats.postponed, stats.false_positives), (0, 0), "{text}: a put is no miss");
        assert_eq!(guard.check(), Ok(0), "{text}");
    }
}

/// A removal has changed the store and not yet the filter.
#[test]
fn a_fingerprint_that_outlives_its_record_is_taken_out_once() {
    for text in SPECS {
        let (keeper, guard) = gated(text);
        for number in 0..200 {
            guard.put(format!("key {number}"), "value").expect("in memory");
        }
        for number in 0..200 {
            let key = format!("key {number}");
            let stopped = keeper.interleave(
                first(Call::Write, When::After),
                || assert!(guard.remove(&key).expect("in memory")),
                || assert_eq!(guard.get(&key).expect("in memory"), None),
            );
            assert!(stopped, "a removal writes");
            assert_eq!(guard.stats().keys, 199 - number, "{text}");
            assert!(!guard.contains(&key).expect("in memory"), "{text}");
        }
        assert_eq!(guard.check(), Ok(0), "{text}");
    }
}

/// A shard that grows reads all its keys: who asks meanwhile is answered.
#[test]
fn a_shard_that_grows_answers() {
    for text in SPECS {
        let (keeper, guard) = gated(text);
        let mut stored = Vec::new();
        let mut answered_while_growing = 0;
        for number in 0..200 {
            let key = format!("key {number}");
            let growths = guard.stats().growths;
            let ask = || {
                for key in &stored {
                    assert!(guard.contains(key).expect("in memory"), "{text}: a false negative");
                }
                assert!(!guard.contains("missing").expect("in memory"), "{text}");
            };
            // The first read is the put's own.
            let halt = Halt { call: Call::Read, when: When::After, skipped: 1 };
            let put = || assert!(guard.put(&key, "value").expect("in memory"));
            let stopped = keeper.interleave(halt, put, ask);
            answered_while_growing += u32::from(stopped && guard.stats().growths > growths);
            stored.push(key);
        }
        assert!(answered_while_growing >= 3, "{text}: {answered_while_growing}");
        assert_eq!(guard.check(), Ok(0), "{text}");
    }
}

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
        let learns = is_adaptive(&self.guard.spec().to_string());
        self.compared.load(Ordering::Relaxed) > 100
            && snapshots > 3
            && stats.growths > 3
            && (stats.fixed > 0) == learns
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
    let options = GuardOptions { spec: spec(text), capacity: 16, shard_bits: (seed % 4) as u32 };
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
