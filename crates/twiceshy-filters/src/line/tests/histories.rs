//! Everything at once: any operation in any order, on few lines, with keys that pile up and a
//! remote that fails.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::*;
use crate::line::lanes::Twin;

/// What happened in all histories together: a test of rare things has to see them.
#[derive(Debug, Default)]
struct Seen {
    growing: usize,
    failures: usize,
    refusals: usize,
    redrawn: u64,
    copies: usize,
    moved: u64,
}

struct History {
    play: Filled,
    /// Digests that are stored from time to time.
    universe: Vec<Digest>,
    text: String,
}

impl History {
    /// As many keys as it is made for, or as have room: anywhere, or in a few places.
    fn new(text: &str, rng: &mut Rng) -> Self {
        let text = format!("{text},full={}", ["rebuild", "grow"][rng.below(2) as usize]);
        let most = [3, 60, 400][rng.below(3) as usize];
        let capacity = 1 + rng.below(most) as usize;
        let mut play = filled(&text, capacity, 0, rng);
        let twins = Twin::all(&play.filter.table.shape);
        play.filter.table.twin = twins[rng.below(twins.len() as u64) as usize];
        let places: Vec<u64> = (0..1 + rng.below(4)).map(|_| rng.next()).collect();
        let is_piled = rng.below(2) == 0;
        // A place is as wide as two buckets.
        let width = 1 << 59;
        let universe = (0..2 * capacity + 20).map(|_| {
            let place = places[rng.below(places.len() as u64) as usize];
            let near = place.saturating_add(rng.below(width / capacity as u64));
            Digest::new([if is_piled { near } else { rng.next() }, rng.next()])
        });
        let universe: Vec<Digest> = universe.collect();
        for &key in &universe[..capacity] {
            if let Ok(true) = play.filter.insert(key, &mut play.remote) {
                play.keys.push(key);
            }
        }
        History { play, universe, text }
    }

    fn step(&mut self, rng: &mut Rng, seen: &mut Seen) {
        let Filled { filter, remote, keys } = &mut self.play;
        let digest = self.universe[rng.below(self.universe.len() as u64) as usize];
        let at = keys.iter().position(|&key| key == digest);
        remote.fuse = rng.below(4) * rng.below(4);
        let outcome = match rng.below(20) {
            0..8 => filter.insert(digest, remote).map(|new| {
                assert_eq!(new, at.is_none(), "{}", self.text);
                keys.extend(new.then_some(digest));
            }),
            8..12 => filter.remove(digest, remote).map(|removed| {
                assert_eq!(removed, at.is_some(), "{}", self.text);
                at.map(|at| keys.swap_remove(at));
            }),
            12..18 => match keys.first().and_then(|&near| false_positive(filter, near, rng)) {
                Some(query) => filter.adapt(query, remote).map(|_| keys.rotate_left(1)),
                None => Ok(()),
            },
            18 => match rng.below(8) {
                0 => filter.rebuild(remote),
                1 => filter.grow(1 + rng.below(2 * keys.len() as u64 + 20) as usize, remote),
                _ => Ok(()),
            },
            _ => {
                let loaded = LineFilter::load(&filter.save())
                    .unwrap_or_else(|error| panic!("{}: {error}", self.text));
                assert_eq!(loaded.save(), filter.save(), "{}", self.text);
                *filter = loaded;
                Ok(())
            }
        };
        match outcome {
            Ok(()) => {}
            Err(Error::Full { .. } | Error::Spec { .. }) => seen.refusals += 1,
            Err(error) => {
                assert_unplugged(&error);
                seen.failures += 1;
            }
        }
        remote.fuse = 0;
        let stats = filter.clone().stats();
        assert!(stats.bits <= filter.stats().bits, "{}", self.text);
        seen.growing += usize::from(filter.growing.is_some());
        let used = |table: &Table| -> usize {
            table.lines.iter().map(|line| line.used(&table.shape)).sum()
        };
        seen.copies += filter.tables().map(used).sum::<usize>() - keys.len();
        self.play.check(&self.text);
    }
}

#[test]
fn any_operation_in_any_order_denies_no_key() {
    let mut rng = Rng::new(1);
    for text in FILTERS {
        let mut seen = Seen::default();
        for _ in 0..if text == "line:f=16" { 10 } else { 60 } {
            let mut history = History::new(text, &mut rng);
            for _ in 0..150 {
                history.step(&mut rng, &mut seen);
            }
            let stats = history.play.filter.stats();
            seen.redrawn += stats.spent;
            seen.moved += stats.kicks;
        }
        let Seen { growing, failures, refusals, redrawn, copies, moved } = seen;
        let least = [growing, failures, refusals, copies].into_iter().min().expect("four");
        assert!(least > 10 && redrawn > 10 && moved > 10, "{text}: {seen:?}");
    }
}
