//! Whole runs, against slow and obvious ones.

use std::collections::{HashMap, HashSet};

use super::oracle::Key;
use super::partition::{Member, Shape};
use super::*;
use crate::random::{hasher, mix};

/// A small run, a second of traffic long.
fn small() -> Setting {
    Setting {
        partitions: 12,
        keys: 6000,
        queries: 20_000,
        first_pass: 20_000,
        rounds: 3,
        times: "failover=200ms,restart=100ms".parse().expect("times"),
        seed: 7,
        ..Setting::default()
    }
}

fn events(text: &str) -> Vec<Event> {
    text.split(',').map(|event| event.parse().expect("an event")).collect()
}

fn play(setting: &Setting) -> Vec<Row> {
    setting.check().expect("a good setting");
    run(setting, &(), &mut |_| ()).expect("a run")
}

fn phases(rows: &[Row]) -> Vec<&PhaseRow> {
    rows.iter().filter_map(|row| if let Row::Phase(row) = row { Some(row) } else { None }).collect()
}

fn event_rows(rows: &[Row]) -> Vec<&EventRow> {
    rows.iter().filter_map(|row| if let Row::Event(row) = row { Some(row) } else { None }).collect()
}

fn nodes(rows: &[Row]) -> Vec<&NodeRow> {
    rows.iter().filter_map(|row| if let Row::Node(row) = row { Some(row) } else { None }).collect()
}

fn total(rows: &[Row]) -> &RunRow {
    let Some(Row::Run(row)) = rows.last() else { panic!("the run comes last") };
    row
}

/// Whatever happens, every lookup is counted once, and nothing is denied without a reason.
#[test]
fn every_lookup_is_a_hit_avoided_wasted_unfiltered_or_explained() {
    let all = "100ms:lose:1,350ms:restart:0,400ms:reshard:4,600ms:lose:3,800ms:reshard:2";
    for remote in [Remote::None, Remote::Memory] {
        for replicas in [true, false] {
            let setting = Setting { remote, replicas, events: events(all), claims: 0.5, ..small() };
            let rows = play(&setting);
            let phases = phases(&rows);
            assert_eq!(
                phases.iter().map(|of| of.phase).collect::<Vec<_>>(),
                ["traffic", "collect", "replay"]
            );
            for PhaseRow { phase, counts, store_reads, .. } in phases {
                let explained = counts.hits
                    + counts.avoided
                    + counts.wasted
                    + counts.unfiltered
                    + counts.denied_lost
                    + counts.denied_hidden;
                assert_eq!(counts.lookups, explained, "{remote:?} {phase}: {counts:?}");
                assert_eq!(*store_reads, counts.hits + counts.wasted + counts.unfiltered);
                assert!(counts.repeated <= counts.wasted);
                assert_eq!(counts.unfiltered > 0, *phase == "traffic", "{counts:?}");
            }
            let run = total(&rows);
            assert_eq!((run.false_negatives, run.nodes), (0, 2));
            assert_eq!(event_rows(&rows).len(), 5);
            let traffic = &phases_of(&rows, "traffic").counts;
            assert_eq!(traffic.lookups + traffic.inserts, setting.queries);
            let keys: u64 = nodes(&rows).iter().map(|node| node.keys).sum();
            assert!(keys > setting.keys && keys <= setting.keys + traffic.inserts);
        }
    }
}

fn phases_of<'a>(rows: &'a [Row], name: &str) -> &'a PhaseRow {
    phases(rows).into_iter().find(|row| row.phase == name).expect(name)
}

#[test]
fn a_seed_decides_everything() {
    let setting = Setting { events: events("200ms:lose:0,300ms:reshard:5"), ..small() };
    assert_eq!(play(&setting), play(&setting));
    assert_ne!(play(&setting), play(&Setting { seed: 8, ..setting }));
}

/// Without delays, a run is a loop: ask the filter, ask the store, report.
#[test]
fn without_delays_a_run_is_a_simple_loop() {
    for remote in [Remote::None, Remote::Memory] {
        let mut times = Times::default();
        times.named().into_iter().for_each(|(_, time)| *time = 0);
        times.snapshot = 1;
        let setting = Setting { remote, times, claims: 0.3, inserts: 0.2, ..small() };
        let shape = Shape { remote, capacity: setting.capacity(), rate: None, exceptions: None };
        let mut filters: HashMap<String, Member> = (0..setting.partitions)
            .map(|index| {
                let hasher = hasher(mix(setting.seed).wrapping_add(index as u64));
                (format!("filter:{{{index}}}"), Member::new(&shape, hasher).expect("a filter"))
            })
            .collect();
        let mut store: HashSet<String> = HashSet::new();
        let mut counts = [0; 5];
        let mut first_positives = 0;
        let mut loop_ = |record: Record<'_>| {
            if record.command == "reserve" || ["collect", "replay"].contains(&record.phase) {
                return;
            }
            let filter = filters.get_mut(record.filter).expect("a partition");
            assert_eq!(record.stored, store.contains(record.key), "{record:?}");
            if record.command == "add" {
                counts[4] += u64::from(record.phase == "traffic");
                filter.insert(record.key).expect("there is room");
                store.insert(record.key.to_string());
                return;
            }
            let (maybe, stored) = (filter.contains(record.key), store.contains(record.key));
            if record.phase == "first pass" {
                first_positives += u64::from(maybe);
                return;
            }
            counts[usize::from(maybe) * 2 + usize::from(stored)] += 1;
            if maybe && !stored {
                filter.adapt(record.key).expect("no failure");
            }
        };
        let rows = run(&setting, &(), &mut loop_).expect("a run");
        let traffic = &phases_of(&rows, "traffic").counts;
        let [avoided, denied, wasted, hits, inserts] = counts;
        assert_eq!(denied, 0);
        assert_eq!(
            [traffic.avoided, traffic.wasted, traffic.hits, traffic.inserts],
            [avoided, wasted, hits, inserts]
        );
        assert!(wasted > 0 && avoided > wasted && hits > 0, "{traffic:?}");
        assert_eq!(total(&rows).first_pass_per_million, first_positives as f64 * 50.0);
    }
}

/// A replica that has received nothing lacks all that was inserted since the load, on its node; one
/// without a lag lacks nothing.
#[test]
fn a_takeover_loses_what_was_not_replicated() {
    for (lag, loses) in [("lag=5m", true), ("lag=0s", false)] {
        let times = format!("failover=200ms,{lag}").parse().expect("times");
        let mut setting = Setting { times, attack: Some(0), ..small() };
        setting.events = events("10s:lose:0"); // when the traffic is over
        let mut inserted = HashSet::new();
        let rows = run(&setting, &(), &mut |record| {
            if (record.phase, record.command) == ("traffic", "add")
                && slot(record.filter.as_bytes()) <= 5460
            {
                inserted.insert(record.key.to_string());
            }
        });
        let rows = rows.expect("a run");
        let (event, run) = (event_rows(&rows)[0], total(&rows));
        assert_eq!(event.lost_keys, if loses { inserted.len() as u64 } else { 0 });
        assert_eq!(event.lost_adaptations > 0, loses);
        // Some of them are "maybe" by chance, with probability 0.002 each.
        assert!(run.denied_lost <= event.lost_keys && run.denied_lost * 10 >= event.lost_keys * 9);
        assert_eq!((run.false_negatives, inserted.len() > 100), (0, true));
    }
}

#[test]
fn without_a_replica_filters_are_rebuilt_from_the_store() {
    // At this rate, one in twenty of the node's misses is adapted to before the node is lost.
    let (rate, events) = (Some(0.05), events("500ms:lose:2"));
    let rows = play(&Setting { replicas: false, rate, events, attack: Some(0), ..small() });
    let event = event_rows(&rows)[0];
    assert_eq!((event.lost_keys, total(&rows).denied_lost), (0, 0));
    assert!(event.lost_adaptations > 0 && event.rebuilt_keys > 1000, "{event:?}");
    let seconds = 0.1 + event.rebuilt_keys as f64 * 1.2e-6;
    assert!((event.seconds - seconds).abs() < 1e-9, "{event:?}");
}

/// From three nodes to four: a quarter of the slots, and the filters in them, move one by one.
#[test]
fn resharding_moves_filters_and_keeps_their_answers() {
    // Filters of 1.4 KiB, and nodes a thousand times slower than by default: 24 ms each.
    let times = "migrate=17.5s".parse().expect("times");
    let setting = Setting { attack: Some(0), times, ..small() };
    let before = play(&setting);
    let rows = play(&Setting { events: events("200ms:reshard:4"), ..setting });
    let event = event_rows(&rows)[0];
    assert!(nodes(&rows).iter().all(|node| node.slots == 4096));
    let moved = nodes(&rows)[3].partitions;
    assert!(moved > 0 && event.partitions >= moved, "{event:?}");
    // 4096 slots of 115 us, and the bytes of the filters. Before the next filter moves, the nodes
    // answer those who waited: at most 20,000 requests of 1.2 us per second.
    let seconds = 4096.0 * 115e-6 + event.bytes as f64 / f64::from(1 << 20) * 17.5;
    assert!(
        event.seconds >= seconds - 1e-3 && event.seconds < seconds * 1.05,
        "{event:?}, {seconds}"
    );
    let counts = |rows: &[Row]| phases_of(rows, "traffic").counts.clone();
    assert_eq!(
        (counts(&before).hits, counts(&before).inserts),
        (counts(&rows).hits, counts(&rows).inserts)
    );
    // Nothing is lost on the way, but a filter that moves keeps its clients waiting.
    assert_eq!(total(&rows).false_negatives, 0);
    let most = |rows: &[Row]| phases_of(rows, "traffic").most_us;
    assert!(most(&rows) > most(&before) + 10_000.0, "{} and {}", most(&rows), most(&before));
}

/// A client reads the store, another one stores the key, and the first one reports it as absent:
/// exceptions hide the key, and a remote in memory knows better.
#[test]
fn late_reports_hide_keys_from_filters_without_a_remote() {
    for (remote, hides) in [(Remote::None, true), (Remote::Memory, false)] {
        let rate = hides.then_some(0.2);
        let times = "store-read=300ms".parse().expect("times");
        let setting = Setting { remote, rate, times, claims: 1.0, inserts: 0.3, ..small() };
        let rows = play(&Setting { attack: Some(0), ..setting });
        let run = total(&rows);
        assert_eq!((run.denied_hidden > 0, run.false_negatives), (hides, 0), "{remote:?}");
    }
}

/// The oracle notices a filter that has lost a key: without the notes of takeovers, each key that a
/// takeover has lost would count as a false negative.
#[test]
fn the_oracle_calls_an_unexplained_denial_a_false_negative() {
    let mut oracle = oracle::Oracle::new(10);
    let key: Key = 12;
    assert!(
        oracle.store(key) && !oracle.store(key) && oracle.is_stored(9) && !oracle.is_stored(10)
    );
    assert_eq!(oracle.explain(key), oracle::Denied::Unexplained);
    oracle.lose(key);
    assert_eq!(oracle.explain(key), oracle::Denied::Lost);
    oracle.store(key);
    oracle.hide(key);
    assert_eq!(oracle.explain(key), oracle::Denied::Hidden);
    oracle.recover(key);
    assert_eq!(oracle.explain(key), oracle::Denied::Unexplained);
    let mut counts = row::Counts::default();
    counts.deny(oracle.explain(key));
    assert_eq!(counts.false_negatives, 1);
}
