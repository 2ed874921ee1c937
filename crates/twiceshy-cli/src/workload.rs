//! What all filters face: the stored keys, the absent ones, and a skewed stream
//! of queries for those. Made once, from a seed, and shared.

use std::fmt;

use rand_distr::{Distribution, Zipf};
use twiceshy::Digest;
use twiceshy_lab::random::{Rng, hasher, mix, rng};

use crate::progress::Progress;

/// The numbers that a workload follows from.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Keys to store.
    pub keys: u64,
    /// Absent keys for each stored one.
    pub distinct: u64,
    /// Queries in the stream.
    pub queries: u64,
    /// The stream's exponent.
    pub zipf: f64,
    /// Seed of everything random.
    pub seed: u64,
}

/// Absent keys that a rank of 32 bits can tell apart.
pub const MAX_NEGATIVES: u64 = 1 << 32;

/// Why a workload cannot be made.
#[derive(Debug)]
pub enum TooLarge {
    /// More absent keys than [`MAX_NEGATIVES`].
    Negatives { keys: u64, distinct: u64 },
    /// More than the memory holds.
    Memory { what: &'static str, count: u64 },
}

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TooLarge::Negatives { keys, distinct } => write!(
                f,
                "{keys} keys with {distinct} absent keys each are more than the 2^32 absent keys \
                 of a race; ask for less with --keys or --distinct"
            ),
            TooLarge::Memory { what, count } => write!(
                f,
                "no memory for {count} {what}; ask for less with --keys, --distinct or --queries"
            ),
        }
    }
}

impl std::error::Error for TooLarge {}

impl Parameters {
    /// Whether there are few enough absent keys.
    ///
    /// # Errors
    /// [`TooLarge::Negatives`].
    pub fn check(&self) -> Result<(), TooLarge> {
        match self.keys.checked_mul(self.distinct) {
            Some(0..=MAX_NEGATIVES) => Ok(()),
            _ => Err(TooLarge::Negatives { keys: self.keys, distinct: self.distinct }),
        }
    }

    /// Absent keys.
    pub fn negatives(&self) -> u64 {
        self.keys * self.distinct
    }

    /// Steps of making the workload.
    pub fn steps(&self) -> u64 {
        self.keys + self.negatives() + self.queries
    }
}

/// Keys and queries.
pub struct Workload {
    /// What it follows from.
    pub parameters: Parameters,
    /// The stored keys.
    pub stored: Vec<Digest>,
    /// The absent keys.
    pub absent: Vec<Digest>,
    /// The queries: places in `absent`.
    pub stream: Vec<u32>,
}

impl Workload {
    /// Makes keys and queries.
    ///
    /// # Errors
    /// [`TooLarge`].
    pub fn new(parameters: &Parameters, progress: &Progress) -> Result<Self, TooLarge> {
        parameters.check()?;
        let Parameters { keys, queries, zipf, seed, .. } = *parameters;
        let hasher = hasher(seed);
        // Keys are numbered, stored ones first, and mix() is a bijection: no
        // absent key equals a stored one.
        let digest = |number: u64| hasher.digest(mix(number).to_le_bytes());

        progress.phase("keys");
        let mut stored = reserve(keys, "stored keys")?;
        stored.extend(progress.watch(0..keys).map(digest));
        let end = keys + parameters.negatives();
        let mut absent = reserve(parameters.negatives(), "absent keys")?;
        absent.extend(progress.watch(keys..end).map(digest));

        progress.phase("stream");
        let ranks = Ranks::new(parameters.negatives(), zipf);
        let mut rng = rng(seed);
        let mut stream = reserve(queries, "queries")?;
        stream.extend(progress.watch(0..queries).map(|_| ranks.draw(&mut rng)));

        Ok(Workload { parameters: *parameters, stored, absent, stream })
    }
}

fn reserve<T>(count: u64, what: &'static str) -> Result<Vec<T>, TooLarge> {
    let mut items = Vec::new();
    let reserved = usize::try_from(count).is_ok_and(|count| items.try_reserve_exact(count).is_ok());
    if reserved { Ok(items) } else { Err(TooLarge::Memory { what, count }) }
}

/// Zipf-distributed ranks from 0: rank `r` has a probability proportional to
/// `1 / (r + 1)^exponent`.
struct Ranks {
    zipf: Zipf<f64>,
    last: u32,
}

impl Ranks {
    /// Ranks below `count`, which is 1 to [`MAX_NEGATIVES`].
    fn new(count: u64, exponent: f64) -> Self {
        let last = u32::try_from(count - 1).expect("at most 2^32 absent keys");
        let zipf = Zipf::new(f64::from(last) + 1.0, exponent);
        Ranks { zipf: zipf.expect("the exponent is a number and not negative"), last }
    }

    fn draw(&self, rng: &mut Rng) -> u32 {
        // A whole number from 1 on; rounding may carry it past the last.
        let rank = self.zipf.sample(rng) - 1.0;
        (rank as u32).min(self.last)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn small(seed: u64) -> Workload {
        let parameters = Parameters { keys: 1000, distinct: 3, queries: 5000, zipf: 1.1, seed };
        Workload::new(&parameters, &Progress::new(0)).expect("it is small")
    }

    /// 1,000,000 draws of Zipf(s) over 1000 ranks. The count of a rank is
    /// binomial with the rank's exact probability p; every rank with a mean of
    /// at least 999 has to be within 7 sigma of it, and so has the sum of all
    /// others. Bernstein's inequality for sigma^2 >= 998 bounds one such failure
    /// by 2 exp(-49 / (2 + 14 / (3 sigma))) < 2.5 * 10^-10, and the five
    /// exponents make fewer than 1600 checks: under a random seed a correct
    /// sampler fails with probability below 4 * 10^-7.
    #[test]
    fn ranks_have_the_probabilities_of_their_distribution() {
        const COUNT: u64 = 1000;
        const DRAWS: u32 = 1_000_000;
        for exponent in [0.0, 0.5, 1.0, 1.1, 2.0] {
            let ranks = Ranks::new(COUNT, exponent);
            let mut rng = rng(7);
            let mut drawn = [0; COUNT as usize];
            for _ in 0..DRAWS {
                drawn[ranks.draw(&mut rng) as usize] += 1;
            }
            let weight = |rank: usize| (rank as f64 + 1.0).powf(-exponent);
            let total: f64 = (0..drawn.len()).map(weight).sum();
            let check = |rank: usize, probability: f64, drawn: u32| {
                let mean = probability * f64::from(DRAWS);
                let sigma = (mean * (1.0 - probability)).sqrt();
                let off = (f64::from(drawn) - mean) / sigma;
                assert!(off.abs() < 7.0, "exponent {exponent}, rank {rank}: {off} sigma off");
            };
            let often = (0..drawn.len())
                .take_while(|&rank| weight(rank) / total * f64::from(DRAWS) >= 999.0)
                .inspect(|&rank| check(rank, weight(rank) / total, drawn[rank]))
                .count();
            assert!(often >= 20, "exponent {exponent}: only {often} ranks were checked");
            if often < drawn.len() {
                let rest: f64 = (often..drawn.len()).map(weight).sum();
                check(often, rest / total, drawn[often..].iter().sum());
            }
        }
    }

    #[test]
    fn extreme_distributions_stay_in_range() {
        let mut rng = rng(7);
        for exponent in [0.0, 1.0, 1.0 + f64::EPSILON, 1.1, 300.0, f64::MAX] {
            for count in [1, 2, 1000, MAX_NEGATIVES] {
                let ranks = Ranks::new(count, exponent);
                for _ in 0..1000 {
                    assert!(u64::from(ranks.draw(&mut rng)) < count, "{count}, {exponent}");
                }
            }
        }
    }

    #[test]
    fn no_absent_key_is_stored() {
        let workload = small(1);
        let distinct: HashSet<Digest> =
            workload.stored.iter().chain(&workload.absent).copied().collect();
        assert_eq!((workload.stored.len(), workload.absent.len()), (1000, 3000));
        assert_eq!(distinct.len(), 4000);
        assert_eq!(workload.stream.len(), 5000);
    }

    #[test]
    fn a_seed_makes_one_workload() {
        let (one, same, other) = (small(1), small(1), small(2));
        assert_eq!((&one.stored, &one.stream), (&same.stored, &same.stream));
        assert_ne!(one.stored, other.stored);
        assert_ne!(one.stream, other.stream);
    }

    #[test]
    fn too_many_absent_keys_are_refused() {
        for (keys, distinct, fits) in [
            (1 << 16, 1 << 16, true),
            (1 << 16, (1 << 16) + 1, false),
            (MAX_NEGATIVES, MAX_NEGATIVES, false),
        ] {
            let parameters = Parameters { keys, distinct, queries: 1, zipf: 1.0, seed: 1 };
            assert_eq!(parameters.check().is_ok(), fits, "{keys} * {distinct}");
        }
    }
}
