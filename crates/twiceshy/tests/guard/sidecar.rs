//! A guard beside a store that it does not own.

use std::cell::Cell;
use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use twiceshy::guard::{AsyncLookup, GuardOptions, Lookup, MemoryStore, Store};
use twiceshy::{Guard, Sidecar};

use crate::stores::{Call, Hooked, When, hasher};

/// A store with its own keys and order, which counts and can be unplugged.
#[derive(Default)]
struct Users {
    names: HashMap<Vec<u8>, String>,
    lookups: AtomicU64,
    unplugged: AtomicBool,
}

impl Users {
    fn find(&self, key: &[u8]) -> Result<Option<String>, &'static str> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        if self.unplugged.load(Ordering::Relaxed) {
            return Err("unplugged");
        }
        Ok(self.names.get(key).cloned())
    }
}

impl Lookup for Users {
    type Value = String;
    type Error = &'static str;

    fn lookup(&self, key: &[u8]) -> Result<Option<String>, &'static str> {
        self.find(key)
    }
}

/// The same, which has to be waited for.
struct Slow(Users);

impl AsyncLookup for Slow {
    type Value = String;
    type Error = &'static str;

    async fn lookup(&self, key: &[u8]) -> Result<Option<String>, &'static str> {
        later().await;
        self.0.find(key)
    }
}

/// Ready the second time.
fn later() -> impl Future<Output = ()> + Send {
    let mut asked = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut asked, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Runs a future that is always ready to go on. Returns how often it was not done.
fn block_on<T>(future: impl Future<Output = T>) -> (T, u32) {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut pending = 0;
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return (value, pending),
            Poll::Pending => pending += 1,
        }
    }
}

fn options(text: &str) -> GuardOptions {
    crate::options(text, 500, 1)
}

/// The way to ask: blocking or not.
type Ask<'a, S> = &'a dyn Fn(&Sidecar<S>, &str) -> Result<Option<String>, &'static str>;

/// 500 keys, then misses: each reaches the store once at most.
fn play(text: &str, users: &dyn Fn() -> u64, unplug: &dyn Fn(bool), ask: Ask<Arc<MemoryStore>>) {
    let own = Arc::new(MemoryStore::default());
    let guard = Guard::open(own.clone(), hasher(), &options(text)).expect("an empty store");
    let sidecar = Sidecar::new(guard);
    let keys: Vec<String> = (0..500).map(name).collect();
    assert_eq!(sidecar.added_many(&keys[..400]).expect("in memory"), 400);
    assert_eq!(sidecar.added_many(&keys[300..]).expect("in memory"), 100);
    assert!(!sidecar.added(&keys[0]).expect("in memory"));
    sidecar.built();
    for key in &keys {
        assert_eq!(ask(&sidecar, key), Ok(Some(key.to_uppercase())));
    }
    assert_eq!(users(), 500);
    let reads = own.accesses().reads;
    let missing: Vec<String> = (500..3000).map(name).collect();
    for key in &missing {
        assert_eq!(ask(&sidecar, key), Ok(None));
    }
    let passed = users() - 500;
    assert!(passed > 100, "{text}: {passed} of 2500");
    let spent = sidecar.guard().stats().spent;
    let made = own.accesses().reads - reads;
    assert!((passed..=passed + spent).contains(&made), "one read each, {made} for {passed}");
    // Each number is of the store that it names.
    let stats = sidecar.guard().stats();
    assert_eq!(stats.store_reads, users());
    assert_eq!(stats.queries, 500 + 2500);
    assert_eq!(stats.false_positives, passed);
    // An opponent repeats each at once, and gets no further.
    for key in &missing {
        let _ = ask(&sidecar, key);
        let before = users();
        assert_eq!(ask(&sidecar, key), Ok(None));
        assert_eq!(users(), before, "{text}: {key} again");
    }

    // An error of the store is the store's; the guard does not adapt to it.
    let before = sidecar.guard().stats();
    unplug(true);
    assert_eq!(ask(&sidecar, &keys[7]), Err("unplugged"));
    let other = (3000..).map(name).find(|key| sidecar.guard().contains(key)).expect("one");
    assert_eq!(ask(&sidecar, &other), Err("unplugged"));
    assert_eq!(sidecar.guard().stats().false_positives, before.false_positives);
    unplug(false);
    assert_eq!(ask(&sidecar, &other), Ok(None));
    assert_eq!(sidecar.guard().stats().false_positives, before.false_positives + 1);

    // A key that the store has lost is a false positive, and the sidecar keeps it: it may have
    // been reported and not be stored yet.
    sidecar.added("reported").expect("in memory");
    let before = sidecar.guard().stats();
    for _ in 0..2 {
        assert_eq!(ask(&sidecar, "reported"), Ok(None));
    }
    let stats = sidecar.guard().stats();
    assert_eq!(stats.false_positives, before.false_positives + 2);
    assert_eq!((stats.store_reads, stats.vanished), (before.store_reads + 2, 0));
    assert!(sidecar.removed("reported").expect("in memory"));

    // What is no longer stored is not asked for.
    assert!(sidecar.removed(&keys[7]).expect("in memory"));
    assert!(!sidecar.removed(&keys[7]).expect("in memory"));
    assert_eq!(sidecar.guard().check(), Ok(0));
    // 16 bytes a key: a digest, and nothing beside it.
    own.read(twiceshy_filters::remote::EVERY_DIGEST, &mut |_, record| assert!(record.is_empty()))
        .expect("memory");
}

fn name(number: u32) -> String {
    format!("user {number}")
}

fn users() -> Users {
    let names = (0..500).map(name).map(|key| (key.clone().into_bytes(), key.to_uppercase()));
    Users { names: names.collect(), ..Users::default() }
}

const ADAPTIVE: [&str; 3] =
    ["telescoping:f=3,budget=56,spent=reseed", "telescoping:f=3", "uncompressed:f=2"];

#[test]
fn a_sidecar_keeps_repeated_misses_from_a_blocking_store() {
    for text in ADAPTIVE {
        let users = users();
        play(
            text,
            &|| users.lookups.load(Ordering::Relaxed),
            &|unplugged| users.unplugged.store(unplugged, Ordering::Relaxed),
            &|sidecar, key| sidecar.get(key, &users),
        );
    }
}

#[test]
fn a_sidecar_keeps_repeated_misses_from_an_async_store() {
    for text in ADAPTIVE {
        let users = Slow(users());
        let waited = Cell::new(0);
        play(
            text,
            &|| users.0.lookups.load(Ordering::Relaxed),
            &|unplugged| users.0.unplugged.store(unplugged, Ordering::Relaxed),
            &|sidecar, key| {
                let (answer, pending) = block_on(sidecar.get_async(key, &users));
                waited.set(waited.get() + u64::from(pending));
                answer
            },
        );
        // The store is all that is waited for.
        assert_eq!(waited.get(), users.0.lookups.load(Ordering::Relaxed));
    }
}

/// The future can go from thread to thread, as executors want.
#[test]
fn waiting_can_go_on_in_another_thread() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let guard = Guard::open(MemoryStore::default(), hasher(), &options("telescoping:f=8"));
    let sidecar = Sidecar::new(guard.expect("an empty store"));
    let users = Slow(users());
    sidecar.added("user 3").expect("in memory");
    let (answer, pending) = block_on(is_send(sidecar.get_async("user 3", &users)));
    assert_eq!((answer, pending), (Ok(Some("USER 3".into())), 1));
}

/// The guard's own store fails: told when keys come and go, and no answer hangs
/// on it.
#[test]
fn a_sidecar_tells_when_its_own_store_fails() {
    let unplugged = Arc::new(AtomicBool::new(false));
    let hook = unplugged.clone();
    let own = Hooked::new(move |_: Call, when: When| {
        let fails = when == When::Before && hook.load(Ordering::Relaxed);
        if fails { Err("no disk".into()) } else { Ok(()) }
    });
    let guard = Guard::open(own, hasher(), &options("telescoping:f=2")).expect("an empty store");
    let sidecar = Sidecar::new(guard);
    let users = users();
    for key in users.names.keys() {
        assert!(sidecar.added(key).expect("plugged"));
    }
    sidecar.built();
    unplugged.store(true, Ordering::Relaxed);
    let error = sidecar.added("user 500").expect_err("no disk").to_string();
    assert!(error.contains("no disk"), "{error}");
    let error = sidecar.removed("user 3").expect_err("no disk").to_string();
    assert!(error.contains("no disk"), "{error}");
    for key in users.names.keys() {
        let found = sidecar.get(key, &users).expect("a stored key needs no disk of the guard");
        assert_eq!(found.as_ref(), users.names.get(key));
    }
    // Nor does a missing one; the filter adapts when there is one again.
    let missing = (501..).map(name).find(|key| sidecar.guard().contains(key)).expect("one");
    assert_eq!(sidecar.get(&missing, &users), Ok(None));
    assert!(sidecar.guard().contains(&missing));
    unplugged.store(false, Ordering::Relaxed);
    assert_eq!(sidecar.get(&missing, &users), Ok(None));
    assert!(!sidecar.guard().contains(&missing));
    assert!(sidecar.added("user 500").expect("plugged"));
    assert!(sidecar.guard().contains("user 500"));
    assert!(sidecar.removed("user 3").expect("plugged"));
}

/// Or one that was lost would deny every key of its store.
#[test]
fn a_sidecar_that_is_not_built_denies_nothing() {
    let own = Arc::new(MemoryStore::default());
    let guard = Guard::open(own.clone(), hasher(), &options("telescoping:f=8"));
    let sidecar = Sidecar::new(guard.expect("an empty store"));
    let users = users();
    assert!(!sidecar.is_built());
    for key in users.names.keys() {
        assert!(sidecar.guard().contains(key));
        assert_eq!(sidecar.get(key, &users).as_ref(), Ok(&users.names.get(key).cloned()));
    }
    assert_eq!(sidecar.contains_many(&["a", "b"]), [true; 2]);
    // Its filter is asked nothing, so it makes no mistakes and adapts to none.
    assert_eq!(sidecar.get("nobody", &users), Ok(None));
    let stats = sidecar.guard().stats();
    let lookups = 2 * users.names.len() as u64 + 3;
    assert_eq!((stats.queries, stats.store_reads, stats.reads_avoided), (lookups, lookups, 0));
    assert_eq!((stats.false_positives, own.accesses().reads - stats.sidecar_reads), (0, 2));
    sidecar.added_many(&users.names.keys().collect::<Vec<_>>()).expect("in memory");
    sidecar.built();
    assert!(sidecar.is_built());
    assert!(users.names.keys().all(|key| sidecar.guard().contains(key)));
    let denied = (500..1500).map(name).filter(|key| !sidecar.guard().contains(key)).count();
    assert!(denied > 900, "{denied}");
}

/// A lookup that did not ask the filter is one that it could not avoid.
#[test]
fn unfiltered_lookups_and_further_reads_are_counted() {
    let guard = Guard::open(MemoryStore::default(), hasher(), &options("telescoping"));
    let sidecar = Sidecar::new(guard.expect("an empty store"));
    let before = sidecar.guard().stats();
    sidecar.count_unfiltered(&["one", "two", "three"]);
    let stats = sidecar.guard().stats();
    assert_eq!((stats.queries - before.queries, stats.reads_avoided), (3, 0));
    assert_eq!(stats.store_reads - before.store_reads, 3);
    sidecar.count_read(sidecar.digest("four"));
    let after = sidecar.guard().stats();
    assert_eq!((after.queries, after.store_reads), (stats.queries, stats.store_reads + 1));
}
