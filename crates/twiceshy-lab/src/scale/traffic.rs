//! Requests of clients, in order of time.

use rand::RngExt as _;

use super::oracle::{ABSENT, Key, Oracle};
use super::queue::Time;
use super::setting::Setting;
use crate::random::{Rng, mix, rng};
use crate::workload::{MAX_ABSENT, Zipf};

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Lookup(Key),
    Insert(Key),
}

/// Moments of a Poisson process.
pub(super) struct Arrivals {
    rng: Rng,
    gap: f64,
    pub(super) now: Time,
}

impl Arrivals {
    pub(super) fn new(setting: &Setting) -> Self {
        Arrivals { rng: rng(mix(setting.seed ^ 1)), gap: 1e9 / setting.per_second, now: 0 }
    }

    pub(super) fn next(&mut self) -> Time {
        // libm's logarithm is the same on every platform.
        let gap = -libm::log(1.0 - self.rng.random::<f64>()) * self.gap;
        self.now += gap as Time;
        self.now
    }
}

/// Lookups and insertions.
pub(super) struct Traffic {
    rng: Rng,
    /// Ranks of loaded and of absent keys.
    loaded: Zipf,
    absent: Zipf,
    hits: f64,
    inserts: f64,
    claims: f64,
    next_key: Key,
}

impl Traffic {
    pub(super) fn new(setting: &Setting) -> Self {
        let &Setting { keys, zipf, seed, hits, inserts, claims, .. } = setting;
        let absent = (keys as f64 * setting.absent).round() as u64;
        let ranks =
            |count: u64, stream| Zipf::new(count.clamp(1, MAX_ABSENT), zipf, mix(seed ^ stream));
        let (loaded, absent) = (ranks(keys, 2), ranks(absent, 3));
        Traffic { rng: rng(mix(seed ^ 4)), loaded, absent, hits, inserts, claims, next_key: keys }
    }

    /// The next request. A key that was inserted is as likely as any that was loaded to be the one
    /// that is asked for; Zipf's law decides among the latter.
    pub(super) fn next(&mut self, oracle: &Oracle) -> Request {
        if self.rng.random::<f64>() < self.inserts {
            return Request::Insert(match self.rng.random::<f64>() < self.claims {
                true => self.absent(),
                false => {
                    self.next_key += 1;
                    self.next_key - 1
                }
            });
        }
        if self.rng.random::<f64>() >= self.hits {
            return Request::Lookup(self.absent());
        }
        let later = oracle.inserted.len();
        let place = self.rng.random_range(0..oracle.loaded() + later as u64);
        Request::Lookup(match place.checked_sub(oracle.loaded()) {
            Some(place) => oracle.inserted[place as usize],
            None => self.loaded.next().expect("it never ends"),
        })
    }

    fn absent(&mut self) -> Key {
        ABSENT + self.absent.next().expect("it never ends")
    }
}
