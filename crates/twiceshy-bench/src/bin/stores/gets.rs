//! Guarded gets beside bare ones, warm, in turns.

use std::hint::black_box;
use std::path::Path;

use fjall::config::FilterPolicy;
use twiceshy::store::{Durability, Engine, Fjall, GuardedStore, Options, Redb};
use twiceshy_filters::Spec;

use crate::Outcome;
use crate::bare::{BareFjall, BareRedb, in_batches};
use crate::keys::{KEY, middle, missing, mix, processor, stored, value};

const FJALL_FILTERS: &str = "fjall, its filters on";

const ROUNDS: u64 = 9;

/// Gets of a round for each so many keys: enough to warm caches that another store
/// has had to itself.
const KEYS_A_GET: u64 = 20;

/// A store with a guard.
pub fn guarded<E: Engine>(directory: &Path, keys: u64, cache: usize) -> Outcome<GuardedStore<E>> {
    guarded_by(Spec::default(), directory, keys, cache)
}

/// A store with a guard of this filter.
pub fn guarded_by<E: Engine>(
    filter: Spec,
    directory: &Path,
    keys: u64,
    cache: usize,
) -> Outcome<GuardedStore<E>> {
    let store = Options::default()
        .spec(filter)
        .capacity(keys as usize)
        .shard_bits(shard_bits(keys))
        .durability(Durability::Process)
        .cache(cache)
        .open::<E>(directory)?;
    in_batches(keys, |range| {
        let records: Vec<_> = range.map(|index| (stored(index), value(index))).collect();
        store.put_many(&records)?;
        Ok(())
    })?;
    Ok(store)
}

/// 64 shards, or fewer where they would have less than 4,096 keys: each has a last block that is
/// not full.
fn shard_bits(keys: u64) -> u32 {
    (keys >> 12).max(1).ilog2().min(6)
}

/// With caches of this many bytes each, `fjall` beside `redb` or not, and a guarded `redb` for
/// each filter.
pub fn table(directory: &Path, keys: u64, cache: usize, fjall: bool, filters: &[Spec]) -> Outcome {
    let redb = BareRedb::filled(&directory.join("bare.redb"), keys, cache)?;
    let mut guarded_redb = Vec::new();
    for (index, &filter) in filters.iter().enumerate() {
        let path = directory.join(format!("guarded-redb-{index}"));
        let store = guarded_by::<Redb>(filter, &path, keys, cache)?;
        guarded_redb.push((format!("redb guarded by {}", short(&filter)), store));
    }
    let bare_fjall = |name: &str, filters: Option<FilterPolicy>| {
        fjall.then(|| BareFjall::filled(&directory.join(name), keys, filters, cache)).transpose()
    };
    let fjall_off = bare_fjall("fjall-off", Some(FilterPolicy::disabled()))?;
    let fjall_on = bare_fjall("fjall-on", None)?;
    let guarded_fjall = fjall
        .then(|| guarded::<Fjall>(&directory.join("guarded-fjall"), keys, cache))
        .transpose()?;

    let gets = keys.div_ceil(KEYS_A_GET);
    type Get<'a> = Box<dyn Fn([u8; KEY]) -> Outcome<Option<Vec<u8>>> + 'a>;
    let mut stores: Vec<(&str, Get<'_>)> = vec![
        ("redb, table kept open", Box::new(|key| redb.get(key))),
        ("redb, a transaction each", Box::new(|key| redb.get_alone(key))),
    ];
    for (name, store) in &guarded_redb {
        stores.push((name, Box::new(|key| Ok(store.get(key)?))));
    }
    if let (Some(off), Some(on), Some(guarded)) = (&fjall_off, &fjall_on, &guarded_fjall) {
        stores.push(("fjall, its filters off", Box::new(|key| off.get(key))));
        stores.push((FJALL_FILTERS, Box::new(|key| on.get(key))));
        stores.push(("guarded fjall", Box::new(|key| Ok(guarded.get(key)?))));
    }
    let first_guard = stores.iter().position(|(name, _)| name.starts_with("redb guarded"));
    let first_guard = first_guard.ok_or("name at least one of --filters")?;
    let fjall_filters = stores.iter().position(|(name, _)| *name == FJALL_FILTERS);
    // [store][hit or miss][round]
    let mut times = vec![[Vec::new(), Vec::new()]; stores.len()];
    for round in 0..=ROUNDS {
        for (which, (_, get)) in stores.iter().enumerate() {
            let key = |index: u64| mix(index + round * gets);
            let hit = processor(gets, |index| {
                let found = get(stored(key(index) % keys))?;
                assert!(black_box(found).is_some());
                Ok(())
            })?;
            let miss = processor(gets, |index| {
                let found = get(missing(key(index) >> 16))?;
                assert!(black_box(found).is_none());
                Ok(())
            })?;
            // The first round is for the caches.
            if round > 0 {
                times[which][0].push(hit);
                times[which][1].push(miss);
            }
        }
    }
    println!("### Gets, {keys} records of 16 + 32 bytes, caches of {} MiB\n", cache >> 20);
    println!("Nanoseconds of processor time, the system's included; medians of {ROUNDS} rounds.\n");
    println!(
        "| store | hit | against redb | against the first guard | miss | against redb | \
         against the first guard | against fjall's filters |"
    );
    println!("| --- |{}", " ---: |".repeat(7));
    for (which, (name, _)) in stores.iter().enumerate() {
        let time = |kind: usize| middle(times[which][kind].clone());
        let against = |kind: usize, other: usize| {
            let pairs = times[which][kind].iter().zip(&times[other][kind]);
            middle(pairs.map(|(ours, theirs)| ours / theirs).collect())
        };
        let filters = fjall_filters.map(|other| format!("{:.2}", against(1, other)));
        println!(
            "| {name} | {:.0} | {:.2} | {:.2} | {:.0} | {:.3} | {:.2} | {} |",
            time(0),
            against(0, 0),
            against(0, first_guard),
            time(1),
            against(1, 0),
            against(1, first_guard),
            filters.as_deref().unwrap_or("-")
        );
    }
    for (name, store) in &guarded_redb {
        let bits = store.stats().bytes as f64 * 8.0 / keys as f64;
        println!("\n{name}: the filters take {bits:.2} bits per key.");
    }
    println!();
    Ok(())
}

/// A description without the parameters that are as usual.
pub fn short(spec: &Spec) -> String {
    let usual = Spec::all().into_iter().find(|other| other.name() == spec.name());
    let usual = usual.map_or_else(String::new, |usual| usual.to_string());
    let usual: Vec<&str> = usual.split([':', ',']).collect();
    let text = spec.to_string();
    let kept = text.split([':', ',']).skip(1).filter(|part| !usual.contains(part));
    let kept: Vec<&str> = kept.collect();
    if kept.is_empty() {
        spec.name().to_string()
    } else {
        format!("{}:{}", spec.name(), kept.join(","))
    }
}
