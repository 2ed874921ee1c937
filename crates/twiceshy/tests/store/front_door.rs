//! Opening, closing, opening again.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use metrics::{Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder};
use metrics::{SharedString, Unit};
use twiceshy::guard::Opened;
use twiceshy::store::{Durability, Engine, Kept, Options, Redb};
use twiceshy::{Guard, Sidecar};

use crate::harness::{open, small};

#[test]
fn three_lines() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("new/and/deep");

    let store = twiceshy::open(&path)?;
    store.put("k", "v")?;
    assert_eq!(store.get("k")?.as_deref(), Some(&b"v"[..]));

    assert_eq!(store.get("other")?, None);
    assert_eq!(*store.opened(), Opened::Empty);
    store.close()?;
    let store = twiceshy::open(&path)?;
    assert_eq!(*store.opened(), Opened::Snapshot);
    assert_eq!(store.get("k")?.as_deref(), Some(&b"v"[..]));
    assert!(store.remove("k")?);
    assert_eq!(store.get("k")?, None);
    Ok(())
}

/// Threads share stores, and send their errors.
#[test]
fn stores_and_errors_are_send_and_sync() {
    fn assert_send_and_sync<T: Send + Sync>() {}
    assert_send_and_sync::<Kept<Guard<Redb>>>();
    assert_send_and_sync::<Kept<Sidecar<Redb>>>();
    assert_send_and_sync::<twiceshy::Error>();
}

/// One function opens a directory, uses its guard and a filter, and has one error for `?`.
#[test]
fn one_error_takes_them_all() -> twiceshy::Result<()> {
    let directory = tempfile::tempdir().expect("a directory");
    let store = twiceshy::open(directory.path())?;
    store.put("k", "v")?;
    "telescoping:f=8".parse::<twiceshy::Spec>()?;
    store.close()?;
    Ok(())
}

#[test]
fn a_store_is_built_of_many_records() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let records = (0..5000).map(|n| (format!("key {}", n % 4000), format!("value {n}")));
    let mut told = Vec::new();
    let progress = &mut |done, total| told.push((done, total));
    let store = small().build::<Redb, _, _>(directory.path(), records, progress)?;
    // Of how many is not known before the filters are built.
    assert_eq!((told.first(), told.last()), (Some(&(5000, 0)), Some(&(4000, 4000))));
    assert_eq!(store.check(), Ok(0));
    assert_eq!(store.stats().keys, 4000);
    let value = |n| store.get(format!("key {n}"));
    // Of two records with one key the last counts.
    assert_eq!(value(999)?.as_deref(), Some(&b"value 4999"[..]));
    assert_eq!(value(1000)?.as_deref(), Some(&b"value 1000"[..]));
    assert_eq!(value(4000)?, None);
    assert!(!store.put("key 7", "new")? && store.remove("key 8")?);
    store.close()?;
    let error = small().build::<Redb, _, _>(directory.path(), [("a", "b")], &mut |_, _| ());
    assert!(error.is_err_and(|error| error.to_string().contains("holds a store already")));
    let store = open::<Redb>(directory.path());
    assert_eq!(*store.opened(), Opened::Snapshot);
    assert_eq!(store.get("key 7")?.as_deref(), Some(&b"new"[..]));
    assert_eq!((store.get("key 8")?, store.get("a")?), (None, None));
    Ok(())
}

/// What every engine has to do.
fn keeps_what_it_was_given<E: Engine>(durability: Durability) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = small().durability(durability);
    let store = options.open::<E>(directory.path()).expect("an empty directory");
    let records: Vec<_> = (0..2000).map(|n| (format!("key {n}"), format!("value {n}"))).collect();
    assert_eq!(store.put_many(&records).expect("written"), 2000);
    // Of two values of a key the last counts, within one write as well.
    assert_eq!(store.put_many(&[("twice", "first"), ("twice", "last")]).expect("written"), 1);
    assert!(!store.put("key 7", "new").expect("written"));
    assert!(store.remove("key 8").expect("written"));
    assert!(store.stats().growths > 0, "2001 keys in room for 16");

    // Misses, twice: what was wrong once is right the second time.
    let missing = |store: &twiceshy::store::GuardedStore<E>| {
        let before = store.stats().store_reads;
        for n in 0..20_000 {
            assert_eq!(store.get(format!("missing {n}")).expect("read"), None);
        }
        store.stats().store_reads - before
    };
    // 9 bits in 256 of 2001 keys at about half the load or more: some 100 are
    // false positives; 20000 misses all at once cannot all be lucky.
    let first = missing(&store);
    assert!((20..2000).contains(&first), "{first} of 20000 misses were read");
    let second = missing(&store);
    assert!(second < first / 2, "{second} reads after {first}");

    store.snapshot().expect("written");
    assert_eq!(store.get("key 7").expect("read").as_deref(), Some(&b"new"[..]));
    drop(store);
    let store = options.open::<E>(directory.path()).expect("a good directory");
    assert_eq!(*store.opened(), Opened::Snapshot);
    assert_eq!(store.check(), Ok(0));
    assert!(missing(&store) <= second, "adaptations are kept");
    for n in (0..2000).filter(|n| ![7, 8].contains(n)) {
        let value = store.get(format!("key {n}")).expect("read");
        assert_eq!(value, Some(format!("value {n}").into_bytes()));
    }
    assert_eq!(store.get("twice").expect("read").as_deref(), Some(&b"last"[..]));
    assert_eq!(store.get("key 8").expect("read"), None);
    assert_eq!(store.stats().keys, 2000);
}

#[test]
fn redb_keeps_what_it_was_given() {
    keeps_what_it_was_given::<Redb>(Durability::Process);
    keeps_what_it_was_given::<Redb>(Durability::Power);
}

#[cfg(feature = "fjall")]
#[test]
fn fjall_keeps_what_it_was_given() {
    keeps_what_it_was_given::<twiceshy::store::Fjall>(Durability::Process);
    keeps_what_it_was_given::<twiceshy::store::Fjall>(Durability::Power);
}

#[test]
fn a_rebuild_tells_how_far_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open::<Redb>(directory.path());
    let records: Vec<_> = (0..500).map(|n: u32| (n.to_le_bytes(), "")).collect();
    store.put_many(&records).expect("written");
    drop(store);
    std::fs::remove_file(directory.path().join("filter.snapshot")).expect("drop leaves one");
    let mut told = Vec::new();
    let progress = &mut |done, total| told.push((done, total));
    let store = small().open_with::<Redb>(directory.path(), progress).expect("good");
    assert_eq!(*store.opened(), Opened::Rebuilt { reason: "there is none".into() });
    assert_eq!(told.last(), Some(&(500, 500)));
    assert!(told.is_sorted());
}

#[test]
fn nothing_that_is_printed_has_the_secret() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open::<Redb>(directory.path());
    let secret = std::fs::read(directory.path().join("secret")).expect("there is one");
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let printed = format!("{store:?} {:?}", Options::default());
    assert!(printed.contains("telescoping"));
    assert!(!printed.contains(&hex(&secret[1..5])));
    assert!(!printed.contains(&format!("{}, {}, {}", secret[1], secret[2], secret[3])));
}

#[cfg(unix)]
#[test]
fn files_beside_the_data_are_for_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    // Left of a crash, for everybody to read.
    let left = directory.path().join("secret.new");
    std::fs::write(&left, "old").expect("written");
    std::fs::set_permissions(&left, PermissionsExt::from_mode(0o644)).expect("set");
    open::<Redb>(directory.path()).close().expect("written");
    for (name, mode) in [("secret", 0o600), ("filter.snapshot", 0o600)] {
        let metadata = std::fs::metadata(directory.path().join(name)).expect("there is one");
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
    }
    assert!(!left.exists());
}

/// Counters and gauges by name and label.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<BTreeMap<String, f64>>>);

struct Cell(Seen, String);

impl Cell {
    fn set_to(&self, value: f64) {
        self.0.0.lock().expect("one thread").insert(self.1.clone(), value);
    }
}

impl CounterFn for Cell {
    fn increment(&self, _: u64) {
        unreachable!("counts are absolute");
    }

    fn absolute(&self, value: u64) {
        self.set_to(value as f64);
    }
}

impl GaugeFn for Cell {
    fn increment(&self, _: f64) {
        unreachable!("sizes are absolute");
    }

    fn decrement(&self, _: f64) {
        unreachable!("sizes are absolute");
    }

    fn set(&self, value: f64) {
        self.set_to(value);
    }
}

impl Seen {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(Cell(self.clone(), format!("{}[{}]", key.name(), labels.join(","))))
    }
}

impl Recorder for Seen {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn metrics_say_what_the_stats_say() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = open::<Redb>(directory.path());
    store.put("a", "").expect("written");
    for key in ["a", "a", "b"] {
        store.get(key).expect("read");
    }
    let seen = Seen::default();
    metrics::with_local_recorder(&seen, || twiceshy::store::publish("users", &store.stats()));
    let seen = seen.0.lock().expect("one thread");
    assert_eq!(seen["twiceshy_queries_total[guard=users]"], 3.0);
    assert_eq!(seen["twiceshy_keys[guard=users]"], 1.0);
    assert_eq!(seen["twiceshy_filter_bytes[guard=users]"], store.stats().bytes as f64);
    let reads = seen["twiceshy_store_reads_total[guard=users]"];
    assert_eq!(reads, store.stats().store_reads as f64);
    assert_eq!(seen.len(), 14);
}
