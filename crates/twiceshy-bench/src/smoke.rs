//! Every contender runs, and none of ours denies a key.

use twiceshy_filters::Spec;
use twiceshy_lab::entrants;

use crate::bars;
use crate::contender::Entry;
use crate::measure::{Op, Plan, Series, run_with_bulk};
use crate::quotient;
use crate::report::Progress;
use crate::tables;
use crate::workload::{Item, Keys, Workload};

const KEYS: usize = 2_000;

fn once<I: Item>(entries: &[Entry<I>], work: &Workload<I>) -> Vec<Series> {
    let progress = Progress::new();
    run_with_bulk(entries, work, &Plan { rounds: 1, only: &[], progress: &progress })
}

#[test]
fn every_contender_runs_and_none_of_ours_denies_a_key() {
    let keys = Keys::random(KEYS);
    let digests = keys.digests();
    let all = [
        once(&tables::peer_entries(KEYS), &digests),
        once(&tables::shape_entries(), &digests),
        once(&tables::key_entries(), &keys),
        once(&quotient::entries(4096), &digests),
    ];
    for series in all.iter().flatten() {
        let ours = Spec::all().iter().any(|spec| series.name.starts_with(spec.name()));
        if ours {
            assert_eq!((series.stored, series.denied), (KEYS, 0), "{}", series.name);
        } else {
            // So few keys fill some peers past what they can take, and crate
            // `cuckoofilter` then drops a key.
            assert!(series.stored > KEYS * 9 / 10, "{}: {} keys", series.name, series.stored);
        }
        assert!(series.rate < 0.06, "{}: a rate of {}", series.name, series.rate);
        assert!(series.bits_per_key >= 8.0, "{}: {} bits", series.name, series.bits_per_key);
    }
}

#[test]
fn every_bar_names_entries() {
    // At 10^6 keys every peer has a row, the one of half the size included.
    let peers: Vec<String> = names(tables::peer_entries(1_000_000));
    let shapes: Vec<String> = names(tables::shape_entries());
    let quotients: Vec<String> = names(quotient::entries(1 << 20));
    for (known, bars) in [
        (peers, tables::peer_bars()),
        (shapes, tables::shape_bars()),
        (quotients, quotient::bars(1 << 20)),
    ] {
        for name in bars.into_iter().flat_map(|bar| [bar.filter, bar.against]) {
            assert!(known.contains(&name), "{name} is none of {known:?}");
        }
    }
}

fn names<I>(entries: Vec<Entry<I>>) -> Vec<String> {
    entries.into_iter().map(|entry| entry.name).collect()
}

/// Every bar of a filter that adapts has both its times, in every round.
#[test]
fn every_speed_bar_is_measured() {
    let beside = entrants::parse(bars::BESIDE).expect("filters of ours");
    let contenders: Vec<_> = bars::specs(&beside).collect();
    let run = bars::Run { keys: KEYS, rounds: 2, misses: &bars::MISSES };
    let series = bars::measured(&contenders, &run, &Progress::new());
    for of in &series {
        assert_eq!((of.stored, of.denied), (KEYS, 0), "{}", of.name);
    }
    for bar in bars::bars(bars::TELESCOPING, KEYS) {
        for (name, op) in [(&bar.filter, bar.op), (&bar.against, bar.against_op)] {
            let of = series.iter().find(|of| of.name == *name).expect("it takes part");
            // A telescoping filter removes nothing without its remote.
            let remote = op == Op::DeleteAlone && name.starts_with("telescoping");
            assert_eq!(of.times(op).len(), if remote { 0 } else { 2 }, "{name}: {op:?}");
        }
    }
}

#[test]
fn stored_and_absent_keys_are_distinct() {
    let Keys { stored, absent } = Keys::random(KEYS);
    let all: std::collections::HashSet<u64> = stored.into_iter().chain(absent).collect();
    assert_eq!(all.len(), 2 * KEYS);
}
