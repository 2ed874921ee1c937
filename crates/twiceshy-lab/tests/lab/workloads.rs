//! Every generator against the distribution that it states, and what all
//! workloads promise.
//!
//! Counts are sums of independent or negatively associated indicators, so that
//! Bernstein's inequality bounds the probability that one is `SIGMAS` standard
//! deviations off by `2 exp(-64 / (2 + 16 / (3 sigma)))`: below 2.2 * 10^-11 for
//! the sigma of 10 that `near` insists on. There are fewer than 5000 checks in
//! this file, so that under random seeds correct generators fail with
//! probability below 1.1 * 10^-7 in all.

use std::collections::{HashMap, HashSet};

use twiceshy_lab::workload::{
    ActiveSet, Error, Flows, Key, MAX_ABSENT, Order, Permutation, PowerLaw, Repeats, Size, Source,
    Trace, Workload, Zipf,
};

const SIGMAS: f64 = 8.0;

/// A count of `trials` indicators that are 1 with this probability.
#[track_caller]
fn near(what: &str, count: u64, trials: u64, probability: f64) {
    let mean = trials as f64 * probability;
    near_mean(what, count, mean, mean * (1.0 - probability));
}

/// A count with this mean and at most this variance.
#[track_caller]
fn near_mean(what: &str, count: u64, mean: f64, variance: f64) {
    let sigma = variance.sqrt();
    assert!(sigma >= 10.0, "{what}: a sigma of {sigma} makes no test");
    let off = (count as f64 - mean) / sigma;
    assert!(off.abs() < SIGMAS, "{what}: {count} is {off:.1} sigma off {mean}");
}

/// How often each key comes.
fn counts(keys: impl Iterator<Item = Key>) -> HashMap<Key, u64> {
    let mut counts = HashMap::new();
    for key in keys {
        *counts.entry(key).or_default() += 1;
    }
    counts
}

/// 1,000,000 draws of 1000 ranks: every rank that comes 200 times on average,
/// and the sum of all others.
#[test]
fn zipf_ranks_have_their_probabilities() {
    const COUNT: u64 = 1000;
    const DRAWS: u64 = 1_000_000;
    for exponent in [0.0, 0.5, 1.0, 1.1, 2.0] {
        let drawn = counts(Zipf::new(COUNT, exponent, 7).take(DRAWS as usize));
        let drawn = |rank: u64| drawn.get(&rank).copied().unwrap_or(0);
        let weight = |rank: u64| (rank as f64 + 1.0).powf(-exponent);
        let total: f64 = (0..COUNT).map(weight).sum();
        let often = (0..COUNT)
            .take_while(|&rank| weight(rank) / total * DRAWS as f64 >= 200.0)
            .inspect(|&rank| {
                let what = format!("exponent {exponent}, rank {rank}");
                near(&what, drawn(rank), DRAWS, weight(rank) / total);
            })
            .count() as u64;
        assert!(often >= 50, "exponent {exponent}: only {often} ranks were checked");
        if often < COUNT {
            let rest: f64 = (often..COUNT).map(weight).sum();
            let drawn = (often..COUNT).map(drawn).sum();
            near(&format!("exponent {exponent}, the rest"), drawn, DRAWS, rest / total);
        }
    }
}

#[test]
fn extreme_zipf_distributions_stay_in_range() {
    for exponent in [0.0, 1.0, 1.0 + f64::EPSILON, 1.1, 300.0, f64::MAX] {
        for count in [1, 2, 1000, MAX_ABSENT] {
            let mut ranks = Zipf::new(count, exponent, 7).take(1000);
            assert!(ranks.all(|rank| rank < count), "{count}, {exponent}");
        }
    }
}

#[test]
fn a_permutation_takes_every_place_once() {
    for len in (0..300).chain([1000, 4096, 4097, 65_537]) {
        for seed in 0..4 {
            let permutation = Permutation::new(len, seed);
            let places: HashSet<u64> = (0..len).map(|index| permutation.get(index)).collect();
            assert_eq!(places.len() as u64, len);
            assert!(places.iter().all(|&place| place < len), "{len}, seed {seed}");
        }
    }
    assert!(Permutation::new(1 << 63, 1).get((1 << 63) - 1) < 1 << 63);
}

/// Over many seeds, all pairs of places are equally likely for a pair of indices,
/// by eighths of the range and by remainders, and in a tiny range each by each.
#[test]
fn a_permutation_sends_pairs_everywhere() {
    fn check(len: u64, seeds: u64, pairs: &[(u64, u64)], bins: u64, bin: fn(u64) -> u64) {
        let mut seen = HashMap::new();
        for seed in 0..seeds {
            let permutation = Permutation::new(len, seed);
            for &(one, two) in pairs {
                let places = (bin(permutation.get(one)), bin(permutation.get(two)));
                *seen.entry((one, two, places)).or_default() += 1;
            }
        }
        let in_bin = len / bins;
        for &(one, two) in pairs {
            for (a, b) in (0..bins).flat_map(|a| (0..bins).map(move |b| (a, b))) {
                let ways = in_bin * (if a == b { in_bin - 1 } else { in_bin });
                let count = seen.get(&(one, two, (a, b))).copied().unwrap_or(0);
                if ways == 0 {
                    assert_eq!(count, 0);
                } else {
                    let what = format!("{one} and {two} of {len} to {a} and {b}");
                    near(&what, count, seeds, ways as f64 / (len * (len - 1)) as f64);
                }
            }
        }
    }
    let pairs = [(0, 1), (0, 64), (4095, 1), (2048, 2049)];
    check(4096, 100_000, &pairs, 8, |place| place / 512);
    check(4096, 100_000, &pairs, 8, |place| place % 8);
    // A network of narrow halves is 10 sigma off here.
    check(12, 150_000, &[(0, 1)], 12, |place| place);
}

/// 1000 keys, each 1000 times: exactly as often, and spread like a shuffle.
/// In a shuffle a key has a hypergeometric number of places in the first tenth,
/// and the place after it is its own again with probability 999 / 999,999.
#[test]
fn repeats_are_exact_and_shuffled() {
    const COUNT: u64 = 1000;
    const TIMES: u64 = 1000;
    let stream: Vec<Key> = Repeats::new(COUNT, TIMES, 3).collect();
    let all = counts(stream.iter().copied());
    assert_eq!(all.len() as u64, COUNT);
    assert!(all.iter().all(|(&key, &count)| key < COUNT && count == TIMES));
    let early = counts(stream[..100_000].iter().copied());
    for key in (0..COUNT).step_by(10) {
        // The variance of draws without replacement is below the binomial one.
        near_mean(&format!("key {key}"), early[&key], 100.0, 100.0);
    }
    let pairs = stream.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
    near("neighbours", pairs, COUNT * TIMES - 1, 999.0 / 999_999.0);
    let rising = stream.windows(2).filter(|pair| pair[0] < pair[1]).count() as u64;
    // Descents of a shuffle have less variance than independent ones.
    near("ascents", rising, COUNT * TIMES - 1, 0.5 * (1.0 - 999.0 / 999_999.0));
}

/// Yule-Simon probabilities by the Gamma function, given that an index is in
/// the range.
fn power_law() -> Vec<f64> {
    const RHO: f64 = 0.5;
    let log_beta = |a: f64, b: f64| libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let mass =
        |index: u64| if index == 0 { 0.0 } else { RHO * log_beta(index as f64, RHO + 1.0).exp() };
    let masses: Vec<f64> = (0..PowerLaw::RANGE).map(mass).collect();
    let total: f64 = masses.iter().sum();
    // The share that is drawn again.
    assert!((total - 0.9972).abs() < 0.00005, "{total}");
    masses.into_iter().map(|mass| mass / total).collect()
}

#[test]
fn the_power_law_has_its_shares() {
    const DRAWS: u64 = 3_000_000;
    let probabilities = power_law();
    let share = |top: usize| probabilities[..=top].iter().sum::<f64>();
    // As stated: 33.4 %, 73 %, 97.5 %.
    for (top, stated, digits) in [(1, 0.334, 0.0005), (10, 0.73, 0.005), (1000, 0.975, 0.0005)] {
        assert!((share(top) - stated).abs() < digits, "top {top}: {}", share(top));
    }
    let drawn = counts(PowerLaw::new(5).take(DRAWS as usize));
    let of = |index: u64| drawn.get(&(PowerLaw::FIRST + index)).copied().unwrap_or(0);
    for index in 1..=200 {
        near(&format!("index {index}"), of(index), DRAWS, probabilities[index as usize]);
    }
    for top in [10, 1000, 10_000] {
        near(&format!("top {top}"), (0..=top).map(of).sum(), DRAWS, share(top as usize));
    }
    // Keys that occur are negatively associated.
    let missing = |p: &f64| libm::pow(1.0 - p, DRAWS as f64);
    let unique: f64 = probabilities.iter().map(|p| 1.0 - missing(p)).sum();
    let variance = probabilities.iter().map(|p| missing(p) * (1.0 - missing(p))).sum();
    near_mean("unique keys", drawn.len() as u64, unique, variance);
    let range = PowerLaw::FIRST + 1..PowerLaw::FIRST + PowerLaw::RANGE;
    assert!(drawn.keys().all(|key| range.contains(key)));
}

/// How long a key lives is drawn before its first use and acts after it, so the
/// first distinct keys of a stream have lives that are drawn from the table.
/// The second use is at most half a cycle after the first, and 2,000,000
/// queries are several cycles.
#[test]
fn keys_of_the_active_set_live_as_long_as_the_table_says() {
    const KEYS: usize = 131_072;
    let stream: Vec<Key> = ActiveSet::new(ActiveSet::FIREHOSE, 9).take(2_000_000).collect();
    let uses = counts(stream.iter().copied());
    let mut seen = HashSet::new();
    let first: Vec<Key> = stream.into_iter().filter(|key| seen.insert(*key)).take(KEYS).collect();
    let least = 65_536_f64.powf(-1.5);
    let life = |entry: f64| 1 + (65_536.0 * (entry.powf(-1.5) - least) / (1.0 - least)) as u64;
    let lives: Vec<u64> = (1..=65_536).map(|entry| life(f64::from(entry))).collect();
    for wanted in 1..=3 {
        let share = lives.iter().filter(|life| **life == wanted).count() as f64 / 65_536.0;
        let count = first.iter().filter(|key| uses[key] == wanted).count() as u64;
        near(&format!("{wanted} uses"), count, KEYS as u64, share);
    }
}

/// The telescoping filter's paper: 10 million queries, about 57 a key. Ours is
/// of another generator of random numbers, and the paper rounds: 10 % is what
/// "about" may mean. A tenth of the size has the same shape.
#[test]
fn the_active_set_repeats_keys_as_often_as_in_the_paper() {
    const QUERIES: usize = 1_000_000;
    let keys = ActiveSet::scaled(ActiveSet::TELESCOPING, 0.1, 4).take(QUERIES);
    let repeats = QUERIES as f64 / counts(keys).len() as f64;
    assert!((repeats / 57.0 - 1.0).abs() < 0.1, "{repeats} uses a key");
}

/// The published reference has 34,885,815 unique keys in 50 million with the
/// C library's `rand_r`; another generator may be 1 % off.
#[test]
#[ignore = "takes 20 s and 2 GB"]
fn the_active_set_of_firehose_has_as_many_keys_as_the_reference() {
    let keys: HashSet<Key> = ActiveSet::new(ActiveSet::FIREHOSE, 1).take(50_000_000).collect();
    assert!((keys.len() as f64 / 34_885_815.0 - 1.0).abs() < 0.01, "{}", keys.len());
}

/// Mitzenmacher et al., section 4.2: flows and packets (18.5, 14.6 and 37.4 million) of three traces,
/// the largest flow, and that the largest thousand of Chicago A have more than 10,000 packets each.
#[test]
fn traces_have_what_the_paper_says_of_them() {
    for (trace, flows, packets) in [
        (Trace::ChicagoA, 691_371, 18.5),
        (Trace::ChicagoB, 632_543, 14.6),
        (Trace::SanJose, 2_313_092, 37.4),
    ] {
        let sizes: Vec<u64> = trace.sizes(1.0).map(u64::from).collect();
        let total: u64 = sizes.iter().sum();
        assert_eq!(sizes.len(), flows, "{trace}");
        assert!((total as f64 / 1e6 - packets).abs() < 1e-4, "{trace}: {total}");
        assert_eq!(sizes[0], 130_675, "{trace}");
        assert!(sizes.is_sorted_by(|a, b| a >= b) && sizes[flows - 1] == 1, "{trace}");
        // A thousand of 18.5 million packets' flows, and as many per packet.
        let large = sizes.iter().filter(|&&size| size > 10_000).count() as f64;
        assert!((large / total as f64 * 18.5e6 - 1000.0).abs() < 1.0, "{trace}: {large}");
    }
}

/// A tenth of the flows, with the same distribution of sizes.
#[test]
fn a_smaller_trace_has_the_same_shape() {
    let full: Vec<u32> = Trace::ChicagoA.sizes(1.0).collect();
    let tenth: Vec<u32> = Trace::ChicagoA.sizes(0.1).collect();
    assert_eq!(tenth.len(), 69_137);
    for size in [1, 2, 10, 100, 1000] {
        let share = |sizes: &[u32]| {
            sizes.iter().filter(|s| **s >= size).count() as f64 / sizes.len() as f64
        };
        assert!((share(&full) - share(&tenth)).abs() < 2.0 / 69_137.0, "{size}");
    }
}

/// Both orders hold exactly the packets of the sizes; in a shuffle the packets
/// of a flow in the first tenth are hypergeometric.
#[test]
fn flows_come_in_their_order() {
    let sizes: Vec<u64> = Trace::ChicagoB.sizes(0.05).map(u64::from).collect();
    for order in [Order::Shuffled, Order::Trains] {
        let packets: Vec<Key> = Flows::new(Trace::ChicagoB, order, 0.05, 8).unwrap().collect();
        let all = counts(packets.iter().copied());
        assert_eq!(all.len(), sizes.len(), "{order:?}");
        assert!(sizes.iter().enumerate().all(|(flow, size)| all[&(flow as u64)] == *size));
        if order == Order::Shuffled {
            let tenth = packets.len() / 10;
            let early = counts(packets[..tenth].iter().copied());
            // Those of enough packets.
            for flow in 0..39 {
                let share = tenth as f64 / packets.len() as f64;
                near(&format!("flow {flow}"), early[&flow], sizes[flow as usize], share);
            }
        }
    }
}

/// Of the flows that first appear in the first half of all first appearances, a
/// shuffle has all large ones: half of the flows have appeared after 38 % of the packets, and one of
/// 33 packets, as the least of the 500 has, comes wholly after that with probability 10^-7. With
/// uniform starts half of them are among the first.
#[test]
fn only_a_shuffle_begins_with_the_large_flows() {
    let large = |order| {
        let mut seen = HashSet::new();
        let packets = Flows::new(Trace::SanJose, order, 0.05, 8).unwrap();
        let first: Vec<Key> = packets.filter(|&flow| seen.insert(flow)).collect();
        // Flows are numbered by size: these are the largest 500.
        first[..first.len() / 2].iter().filter(|&&flow| flow < 500).count() as u64
    };
    assert!(large(Order::Shuffled) >= 499);
    near("trains", large(Order::Trains), 500, 0.5);
}

fn sources() -> Vec<Source> {
    let names = [
        "uniform",
        "zipf:1.1",
        "repeats:7",
        "firehose:active",
        "firehose:active:-1.5",
        "firehose:power",
        "flows:chicago-a",
        "flows:san-jose:trains",
    ];
    names.iter().map(|name| name.parse().expect(name)).collect()
}

fn small(source: &Source, ratio: f64, seed: u64) -> Workload {
    let synthetic = matches!(source, Source::Uniform | Source::Zipf(_) | Source::Repeats(_));
    let (keys, queries) = if synthetic { (Some(1000), Some(20_000)) } else { (None, None) };
    source.workload(&Size { keys, ratio, queries, scale: 0.01 }, seed).expect("it is small")
}

#[test]
fn no_query_is_for_a_stored_key_and_counts_are_exact() {
    for source in sources() {
        for ratio in [1.0, 4.5, 30.0] {
            let workload = small(&source, ratio, 1);
            let stored: HashSet<Key> = workload.stored.iter().copied().collect();
            let absent: HashSet<Key> = workload.absent().collect();
            let asked: HashSet<Key> = workload.queries().collect();
            assert_eq!(stored.len(), workload.stored.len(), "{source}: stored twice");
            assert_eq!(absent.len(), workload.absent().len(), "{source}: absent twice");
            assert!(stored.is_disjoint(&absent), "{source}");
            assert!(asked.is_subset(&absent), "{source}");
            assert_eq!(asked.len() as u64, workload.distinct(), "{source}");
            assert_eq!(workload.queries().count() as u64, workload.len(), "{source}");
            let wanted = stored.len() as f64 * ratio;
            assert!((absent.len() as f64 - wanted).abs() <= 1.0 + ratio, "{source} {ratio}");
            let by_rank: Vec<Key> = workload.absent().collect();
            let ranks = workload.ranks().map(|rank| by_rank[rank as usize]);
            assert!(ranks.eq(workload.queries()), "{source}");
        }
    }
}

#[test]
fn a_seed_makes_one_workload() {
    for source in sources() {
        let (one, same, other) =
            (small(&source, 5.0, 1), small(&source, 5.0, 1), small(&source, 5.0, 2));
        assert!(one.stored == same.stored && one.queries().eq(same.queries()), "{source}");
        assert!(one.queries().eq(one.queries()), "{source}: the same each time");
        assert!(!one.queries().eq(other.queries()), "{source}");
    }
}

/// The papers' protocol by hand, on the packets of a trace.
#[test]
fn the_first_distinct_keys_of_a_trace_are_stored() {
    let size = Size { ratio: 3.0, scale: 0.01, ..Size::default() };
    let source = Source::Flows { trace: Trace::ChicagoA, order: Order::Shuffled };
    let workload = source.workload(&size, 6).unwrap();
    let packets: Vec<Key> =
        Flows::new(Trace::ChicagoA, Order::Shuffled, 0.01, 6).unwrap().collect();
    let mut numbers = HashMap::new();
    let numbered: Vec<usize> = packets
        .into_iter()
        .map(|flow| {
            let next = numbers.len();
            *numbers.entry(flow).or_insert(next)
        })
        .collect();
    let keys = (numbers.len() as f64 / 4.0).round() as usize;
    assert_eq!(workload.stored.len(), keys);
    let ranks = numbered.into_iter().filter(|&number| number >= keys).map(|number| number - keys);
    assert!(ranks.eq(workload.ranks().map(|rank| rank as usize)));
}

#[test]
fn a_trace_may_be_told_how_many_keys_to_store() {
    let source: Source = "firehose:power".parse().unwrap();
    let size = Size { keys: Some(100), queries: Some(50_000), scale: 0.1, ..Size::default() };
    let workload = source.workload(&size, 1).unwrap();
    assert_eq!(workload.stored.len(), 100);
    let error = source.workload(&Size { keys: Some(60_000), ..size }, 1).unwrap_err();
    assert!(matches!(error, Error::TooFewDistinct { keys: 60_000, .. }), "{error}");
}

#[test]
fn names_are_read_and_printed() {
    for source in sources() {
        assert_eq!(source.to_string().parse::<Source>().unwrap(), source);
    }
    let exponent = ActiveSet::TELESCOPING;
    assert_eq!("firehose:active".parse::<Source>().unwrap(), Source::ActiveSet { exponent });
    for (name, reason) in [
        ("", "there are uniform, zipf:EXPONENT,"),
        ("zipf", "there are uniform"),
        ("zipf:-1", "its exponent is 0 or a positive number"),
        ("zipf:inf", "its exponent is"),
        ("repeats:0", "a whole number from 1"),
        ("repeats:2000000000", "a whole number from 1"),
        ("firehose:active:0", "other than 0"),
        ("flows:london", "flows:chicago-a[:trains]"),
        ("flows:chicago-a:sorted", "there are"),
    ] {
        let error = name.parse::<Source>().expect_err(name).to_string();
        assert!(error.contains(reason) && error.contains(&format!("\"{name}\"")), "{error}");
    }
}

#[test]
fn sizes_that_make_no_workload_are_refused() {
    let zipf = Source::Zipf(1.0);
    let sound = Size { keys: Some(10), queries: Some(10), ..Size::default() };
    for (size, reason) in [
        (Size { keys: None, ..sound }, "zipf:1 does not say how many keys"),
        (Size { queries: None, ..sound }, "zipf:1 does not say how many queries"),
        (Size { ratio: 0.0, ..sound }, "a ratio of 0 makes no workload"),
        (Size { ratio: 0.01, ..sound }, "a ratio of 0.01 makes no workload"),
        (Size { ratio: f64::NAN, ..sound }, "a ratio of NaN"),
        (Size { scale: 2.0, ..sound }, "a scale (at most 1) of 2"),
        (Size { keys: Some(1 << 40), ..sound }, "more than the 2^32 absent keys"),
    ] {
        let error = zipf.workload(&size, 1).expect_err(reason).to_string();
        assert!(error.contains(reason), "{error}");
    }
    let most = Size { keys: Some(1 << 16), ratio: 65_536.0, ..sound };
    assert_eq!(zipf.workload(&most, 1).unwrap().absent().len() as u64, MAX_ABSENT);
}
