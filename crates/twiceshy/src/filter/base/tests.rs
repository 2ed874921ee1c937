use twiceshy_filters::internals::Rng;

use super::*;

fn base(kind: Kind, bits: u32, capacity: usize) -> Base {
    Base::new(Fingerprints { kind, bits }, capacity).expect("a small filter")
}

/// The sum in [`SPARE_BINS`]' documentation.
fn failure_bound(keys: usize, bins: usize) -> f64 {
    let mut choices = 1.0;
    let mut sum = 0.0;
    for k in 1..bins {
        choices *= (bins - k + 1) as f64 / k as f64;
        let share = (k as f64 / bins as f64).powi(2);
        sum += choices * binomial_tail(keys, share, 4 * k + 1);
    }
    sum
}

/// The probability that at least `least` of `n` events happen, each with probability `p`.
fn binomial_tail(n: usize, p: f64, least: usize) -> f64 {
    if least > n {
        return 0.0;
    }
    let choices: f64 = (0..least).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum();
    let first = choices + least as f64 * p.ln() + (n - least) as f64 * (-p).ln_1p();
    let mut term = first.exp();
    let mut sum = 0.0;
    for i in least..=n {
        sum += term;
        term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
    }
    sum
}

/// What the documentation of [`SPARE_BINS`] says of every capacity up to 600.
#[test]
fn small_filters_have_bins_enough() {
    let without = failure_bound(38, 10);
    assert!(without > 0.1, "{without}");
    for capacity in 1..=600 {
        let filter = base(Kind::Plain, 12, capacity);
        let bound = failure_bound(capacity, filter.stats().cells / 4);
        assert!(bound < 6e-7, "{capacity}: {bound}");
    }
}

/// Each of 30,000 filters fails with probability below 6 * 10^-7 (above). The number of
/// failures is therefore below a Poisson variable of mean 0.018, which is 3 or more with
/// probability 10^-6. Without spare bins hundreds fail.
#[test]
fn small_filters_take_as_many_keys_as_they_are_made_for() {
    let mut rng = Rng::new(21);
    let mut failures = 0;
    for capacity in [5, 19, 38, 57, 76, 114] {
        for _ in 0..5000 {
            let mut filter = base(Kind::Plain, 12, capacity);
            while filter.stats().len < capacity {
                let digest = Digest::new([rng.next(), rng.next()]);
                if !filter.contains(digest) && !filter.add(digest) {
                    failures += 1;
                    break;
                }
            }
        }
    }
    assert!(failures < 3, "{failures} of 30,000 had no room within their capacity");
}

/// The bound assumes independent bins. Short fingerprints have few pairs of bins, each stored
/// once, so it is not proven for them; from a fixed seed, none may fail more often. Without
/// spare bins 50 fail. A quotient filter has a slot for every key and never fails.
#[test]
fn so_do_filters_with_short_fingerprints() {
    let mut rng = Rng::new(22);
    let mut failures = 0;
    for (kind, bits) in [(Kind::Plain, 4), (Kind::Plain, 5), (Kind::Plain, 7), (Kind::Rsqf, 1)] {
        for capacity in [5, 19, 38, 76, 300] {
            for _ in 0..300 {
                let mut filter = base(kind, bits, capacity);
                for _ in 0..capacity {
                    let digest = Digest::new([rng.next(), rng.next()]);
                    if !filter.contains(digest) && !filter.add(digest) {
                        failures += 1;
                        break;
                    }
                }
            }
        }
    }
    assert!(failures < 3, "{failures} of 6,000 had no room within their capacity");
}

/// Line filters fail when a chain of moves is too long; `docs/line-filter.md` has the
/// probability, which is far below one failure in all of these.
#[test]
fn so_do_line_filters_and_none_is_crowded() {
    let mut rng = Rng::new(23);
    for bits in [9, 10, 11, 12, 16] {
        for capacity in [1, 22, 25, 26, 36, 41, 42, 44, 45, 60, 83, 200, 1000, 5000] {
            let full_rate = Fingerprints { kind: Kind::Line, bits }.full_rate();
            for _ in 0..if capacity < 1000 { 300 } else { 30 } {
                let mut filter = base(Kind::Line, bits, capacity);
                let Stats { cells, .. } = filter.stats();
                let rate = filter.fingerprints().rate(capacity as f64 / cells as f64);
                assert!(rate <= 1.0001 * full_rate, "f={bits}, {capacity} keys: {rate}");
                for _ in 0..capacity {
                    let digest = Digest::new([rng.next(), rng.next()]);
                    assert!(filter.add(digest), "f={bits}: no room for {capacity} keys");
                }
            }
        }
    }
}

#[test]
fn a_file_says_which_kind_it_is() {
    for kind in [Kind::Line, Kind::Plain, Kind::Rsqf] {
        let mut filter = base(kind, 9, 50);
        let cells = filter.stats().cells;
        assert!(filter.add(Digest::new([1, 2])));
        let mut loaded = Base::load(&filter.save()).expect("its own file");
        assert_eq!(loaded.fingerprints(), Fingerprints { kind, bits: 9 });
        assert!(loaded.contains(Digest::new([1, 2])));
        loaded.clear();
        assert_eq!((loaded.stats().len, loaded.stats().cells), (0, cells));
        assert_eq!(loaded.stats().capacity, 50);
        // The sizes are those that the builder computes with.
        let large = base(kind, 9, 1_000_000);
        let (of, large) = (large.fingerprints(), large.stats());
        let bits = large.bits as f64 / 1e6;
        assert!((bits - of.bits_per_key()).abs() < 0.01, "{kind:?}: {bits}");
        assert!((large.capacity as f64 / large.cells as f64 - of.target_load()).abs() < 1e-3);
    }
    let other = twiceshy_filters::Spec::all()[2].build(10).expect("a filter").save();
    assert!(Base::load(&other).is_err());
}
