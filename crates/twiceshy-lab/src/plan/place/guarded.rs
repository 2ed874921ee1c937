//! A filter in front of a store: that of `twiceshy serve`, or of a Rust program.

use std::cmp::Ordering;

use twiceshy::guard::GuardOptions;
use twiceshy_filters::{Spec, WhenFull};

use super::{Advice, Place, SIZED_KEYS, Wish, bytes_of, grouped, percent, short, size};
use crate::design::Design;
use crate::entrants;
use crate::plan::predict::{Built, Stream};
use crate::plan::{Choice, fewer_reads, hostile, predicted};

/// Shards of a guard.
const SHARDS: usize = 64;

/// A filter as a shard of a guard has it.
#[derive(Clone, Copy)]
struct Shard {
    spec: Spec,
    load: f64,
    bits_per_key: f64,
}

impl Shard {
    /// One of a guard that was built from its store: an eighth of its room is free for new keys.
    /// `None` if there is no such filter.
    fn new(spec: Spec, keys: usize) -> Option<Self> {
        let keys = keys.div_ceil(SHARDS);
        spec.check_capacity(keys + keys / 8).ok()?;
        let keys = keys.min(SIZED_KEYS);
        // Shards are not equally full.
        let room = (keys + 4 * keys.isqrt() + 1).max(keys + keys / 8);
        let stats = spec.when_full(WhenFull::Error).build(room).ok()?.stats();
        let each = keys as f64;
        Some(Shard {
            spec,
            load: each / stats.cells as f64,
            bits_per_key: stats.bits as f64 / each,
        })
    }

    fn first_pass_rate(&self) -> f64 {
        self.spec.first_pass_rate(self.load)
    }

    fn built(&self) -> Built {
        Built { design: Design::Library(self.spec), load: self.load, cached: 0.0 }
    }

    /// What the models say of a guard with such shards.
    fn predict(&self, wish: &Wish) -> Choice {
        predicted(&wish.question(), &self.built(), self.bits_per_key)
    }

    /// Whether no adversary breaks it, were there one.
    fn always_holds(&self, wish: &Wish) -> bool {
        hostile::breaks_at(&self.built(), wish.keys as f64).is_none()
    }
}

/// The server has one filter.
pub(super) fn server(wish: &Wish) -> Result<Advice, String> {
    let shard =
        Shard::new(GuardOptions::default().spec, wish.keys).ok_or_else(|| wish.too_many())?;
    let choice = shard.predict(wish);
    if !wish.allows(choice.first_pass_rate) || !wish.has_room(choice.bits_per_key) {
        return Err(format!(
            "the server has one filter, with a rate of {} in {:.1} bits per key, not {}. \
             Repeated mistakes are adapted to, so a lower rate gains little; for another filter \
             use --for store",
            percent(choice.first_pass_rate),
            choice.bits_per_key,
            wish.words()
        ));
    }
    let paste = "twiceshy serve --dir shield --store postgres://me@db/shop --table users --key \
                 email --follow";
    Ok(in_front(Place::Server, wish, choice, "`twiceshy serve`", paste.to_string()))
}

/// The filters that can stand in front of a store, each as long as was asked for.
pub(super) fn store(wish: &Wish) -> Result<Advice, String> {
    let usual = GuardOptions::default().spec;
    let specs: Vec<Spec> = if wish.rate.is_none() && wish.bits.is_none() {
        vec![usual]
    } else {
        let all = entrants::all().into_iter().filter_map(|entrant| entrant.design.library());
        all.filter(Spec::guards_a_store).collect()
    };
    let mut choices: Vec<(Choice, bool)> = std::thread::scope(|scope| {
        let choice = |spec| {
            let shard = fitting(spec, wish)?;
            Some((shard.predict(wish), shard.always_holds(wish)))
        };
        let threads: Vec<_> =
            specs.into_iter().map(|spec| scope.spawn(move || choice(spec))).collect();
        threads.into_iter().filter_map(|thread| thread.join().expect("no panic")).collect()
    });
    let question = wish.question();
    choices.retain(|(choice, _)| choice.survives(&question));
    choices.sort_by(|(a, a_holds), (b, b_holds)| {
        let by_reads = fewer_reads(&question, a, b);
        let smaller = a.bits_per_key.total_cmp(&b.bits_per_key);
        // Where queries repeat, a rate that no query ever lowers is not worth its memory.
        let repeats = wish.stream.popularity.repeats() > 1.0;
        let adapts = if repeats { b.adapts.cmp(&a.adapts) } else { Ordering::Equal };
        let order =
            if wish.rate.is_some() { adapts.then(smaller).then(by_reads) } else { by_reads };
        // Of equals one that also holds against adversaries.
        order.then(b_holds.cmp(a_holds))
    });
    let Some((choice, holds)) = choices.into_iter().next() else {
        return Err(wish.impossible("no filter in front of a store"));
    };
    let spec: Spec = choice.spec.parse().expect("what it printed itself");
    let named = match spec.when_full(WhenFull::Error) == usual.when_full(WhenFull::Error) {
        true => String::new(),
        false => format!("\n    .spec(\"{}\".parse()?)", short(&spec)),
    };
    let paste = format!(
        "let store: twiceshy::store::GuardedStore = twiceshy::store::Options::default(){named}\n    \
         .capacity({})\n    .open(\"data\")?;",
        grouped(wish.keys, '_')
    );
    let usually = if named.is_empty() { "its usual filter, " } else { "the filter " };
    let name = format!("a store with {usually}{}", choice.filter);
    let mut advice = in_front(Place::Store, wish, choice, &name, paste);
    if !holds {
        advice.sentence += " An attacker can defeat it: add --hostile for one that holds.";
    }
    Ok(advice)
}

/// A kind with the shortest fingerprints that have the rate; without a rate, with the longest that
/// fit the memory, or as it is.
fn fitting(spec: Spec, wish: &Wish) -> Option<Shard> {
    let fits = |shard: &Shard| wish.has_room(shard.bits_per_key);
    if wish.rate.is_none() && wish.bits.is_none() {
        return Shard::new(spec, wish.keys);
    }
    let lengths = (1..=32).filter_map(|bits| spec.with_fingerprint(bits).ok());
    // A rate at half of the load is about half: nothing is built that is far from it.
    let near = |spec: &Spec| wish.rate.is_none_or(|rate| spec.first_pass_rate(1.0) <= 4.0 * rate);
    let mut shards = lengths.filter(near).map_while(|spec| Shard::new(spec, wish.keys));
    if wish.rate.is_some() {
        return shards.find(|shard| wish.allows(shard.first_pass_rate())).filter(fits);
    }
    shards.take_while(fits).last()
}

/// The advice for a filter in front of a store.
fn in_front(place: Place, wish: &Wish, choice: Choice, name: &str, paste: String) -> Advice {
    let size = size(wish, choice.bits_per_key);
    let rate = percent(choice.first_pass_rate);
    let reads = grouped((choice.reads_per_query * 1e6).round() as usize, ',');
    let stream = if wish.hostile {
        "against an adversary,".to_string()
    } else {
        let Stream { absent, popularity } = &wish.stream;
        let absent = grouped((absent * wish.keys as f64).round() as usize, ',');
        format!("with {} lookups of each of {absent} absent keys,", popularity.repeats())
    };
    let sentence = format!(
        "Take {name}: {size}, {rate} of first lookups of absent keys read the store for nothing, \
         and {stream} {reads} in a million do."
    );
    Advice {
        place,
        filter: choice.filter,
        spec: Some(choice.spec),
        bits_per_key: choice.bits_per_key,
        bytes: bytes_of(wish, choice.bits_per_key),
        load: Some(choice.load),
        first_pass_rate: choice.first_pass_rate,
        reads_per_query: Some(choice.reads_per_query),
        breaks_at: choice.breaks_at,
        sentence,
        paste,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use twiceshy::Guard;
    use twiceshy::guard::MemoryStore;
    use twiceshy_filters::KeyHasher;

    use super::*;

    /// The memory that is said is that of a guard that was built from its store. The shares of 64
    /// shards of 1600 keys differ by 2.5 %, so some are larger than the mean and none is less than
    /// its room; together within 3 %. The rate is measured with 2,000,000 absent keys, binomial: within
    /// 5 standard deviations (6e-7), and 3 % for the loads of shards.
    #[test]
    fn memory_and_rate_are_those_of_a_guard() {
        const KEYS: usize = 100_000;
        const ABSENT: usize = 2_000_000;
        for spec in [GuardOptions::default().spec, "line".parse().expect("a filter")] {
            let store = Arc::new(MemoryStore::default());
            let options = GuardOptions::default().spec(spec);
            let open = || {
                let hasher = KeyHasher::keyed([1; 16]);
                Guard::open(Arc::clone(&store), hasher, &options.capacity(1)).expect("a guard")
            };
            let guard = open();
            let records: Vec<(String, &str)> =
                (0..KEYS).map(|key| (format!("key {key}"), "")).collect();
            guard.put_many(&records).expect("memory");
            drop(guard);
            let guard = open();
            let bits = guard.stats().bytes as f64 * 8.0 / KEYS as f64;
            let shard = Shard::new(spec, KEYS).expect("a filter");
            let said = shard.bits_per_key;
            assert!((said / bits - 1.0).abs() < 0.03, "{spec}: {said}, not {bits}");
            let wrong = (0..ABSENT).filter(|key| guard.contains(format!("absent {key}"))).count();
            let (wrong, said) = (wrong as f64, shard.first_pass_rate() * ABSENT as f64);
            assert!(
                (wrong - said).abs() < 5.0 * said.sqrt() + 0.03 * said,
                "{spec}: {wrong}, {said}"
            );
        }
    }
}
