//! Lookups of the same absent keys again and again, as one after the other has them, but faster.

use twiceshy_filters::Digest;

use super::Oracle;
use crate::workload::Key;

/// Lookups that wait for memory at the same time.
const MOST_AT_ONCE: usize = 64;

impl Oracle<'_> {
    /// Looks up keys that were never stored, in their order, and all of them so many times. Says which
    /// of them were ever false positives.
    ///
    /// A pass that has not changed the filter is like all that come after it: those are only counted.
    pub fn lookup_absent(&mut self, keys: &[Key], passes: usize) -> Vec<bool> {
        let mut found = vec![false; keys.len()];
        let digests: Vec<Digest> = keys.iter().map(|key| self.digest_of_absent(*key)).collect();
        self.round.queries += (keys.len() * passes) as u64;
        let mut maybe = [false; MOST_AT_ONCE];
        let mut at_once = MOST_AT_ONCE;
        for pass in 1..=passes {
            let (mut next, mut false_positives, mut changed) = (0, 0, false);
            while next < keys.len() {
                let batch = &digests[next..keys.len().min(next + at_once)];
                self.filter.screen(batch, &mut maybe[..batch.len()]);
                let may = maybe[..batch.len()].iter().position(|&maybe| maybe);
                // Where many are false positives, few are looked up in vain.
                at_once = if may.is_some() { 1 } else { MOST_AT_ONCE.min(2 * at_once) };
                let looked = may.map_or(batch.len(), |at| at + 1);
                next += looked;
                if may.is_some() && self.filter.contains(digests[next - 1]) {
                    changed |=
                        self.filter.adapt(digests[next - 1]).expect("its remote is in memory");
                    false_positives += 1;
                    found[next - 1] = true;
                }
            }
            self.round.false_positives += false_positives;
            if !changed {
                self.round.false_positives += false_positives * (passes - pass) as u64;
                break;
            }
        }
        found
    }

    fn digest_of_absent(&self, key: Key) -> Digest {
        assert!(!self.is_stored(key), "key {key} is stored");
        self.hasher.digest(key.to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adversary::game::Round;
    use crate::entrants;

    const PASSES: usize = 10;

    fn one_after_the_other(oracle: &mut Oracle<'_>, keys: &[Key]) -> Vec<bool> {
        let mut found = vec![false; keys.len()];
        for _ in 0..PASSES {
            let answers = keys.iter().map(|&key| oracle.lookup(key));
            found.iter_mut().zip(answers).for_each(|(found, now)| *found |= now);
        }
        found
    }

    /// The same false positives in the same order as one lookup after the other has them: of filters
    /// that adapt well, of those that give in and of those that never adapt, over and over.
    #[test]
    fn passes_are_lookups_one_after_the_other() {
        for text in [
            "plain:f=5",
            "cyclic:f=6,s=1,k=4,b=1",
            "swapping:f=5",
            "swapping:f=4,retry=0",
            "cuckooing:f=7",
            "telescoping:f=6",
            "telescoping:f=6,spent=reseed",
            "extension:f=6",
            "broom:f=6",
            "line:f=9",
            "cached:f=6",
            "aqf:f=5",
            "aqf:f=8,load=94",
            "whitelist",
        ] {
            let entrant = entrants::parse(text).expect("a filter").0.remove(0);
            let played = [false, true].map(|one_by_one| {
                let mut filter = entrant.build(600).expect("a capacity");
                let mut watch = |_: &[Round]| ();
                let mut oracle = Oracle::new(&mut filter, 600, 7, &mut watch).expect("room");
                let mut keys: Vec<Key> = oracle.fresh(36_000).collect();
                let mut rounds = Vec::new();
                let mut play = |oracle: &mut Oracle<'_>, keys: &mut Vec<Key>| {
                    let mut found = match one_by_one {
                        true => one_after_the_other(oracle, keys),
                        false => oracle.lookup_absent(keys, PASSES),
                    }
                    .into_iter();
                    keys.retain(|_| found.next() == Some(true));
                    rounds.push((oracle.end_round(), keys.clone()));
                };
                for _ in 0..4 {
                    play(&mut oracle, &mut keys);
                }
                // Alone, a key shows what a change was that did not fix it.
                for key in oracle.fresh(3_000) {
                    play(&mut oracle, &mut vec![key]);
                }
                rounds
            });
            assert!(played[0][0].0.false_positives > 50, "{text}: {:?}", played[0][0].0);
            let differ = (0..played[0].len()).find(|&at| played[0][at] != played[1][at]);
            assert_eq!(differ, None, "{text}: the first round that differs");
        }
    }
}
