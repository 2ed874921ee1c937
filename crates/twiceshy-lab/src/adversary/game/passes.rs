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
    /// Once it has looked up all of them and none was one, the filter stays as it is: what is left is
    /// only counted.
    pub fn lookup_absent(&mut self, keys: &[Key], passes: usize) -> Vec<bool> {
        let mut found = vec![false; keys.len()];
        let digests: Vec<Digest> = keys.iter().map(|key| self.digest_of_absent(*key)).collect();
        self.round.queries += (keys.len() * passes) as u64;
        let mut maybe = [false; MOST_AT_ONCE];
        let (mut at_once, mut unchanged) = (MOST_AT_ONCE, 0);
        for _ in 0..passes {
            let mut next = 0;
            while next < keys.len() {
                let batch = &digests[next..keys.len().min(next + at_once)];
                self.filter.screen(batch, &mut maybe[..batch.len()]);
                let may = maybe[..batch.len()].iter().position(|&maybe| maybe);
                // Where many are false positives, few are looked up in vain.
                at_once = if may.is_some() { 1 } else { MOST_AT_ONCE.min(2 * at_once) };
                let looked = may.map_or(batch.len(), |at| at + 1);
                unchanged += looked;
                next += looked;
                if may.is_some() && self.filter.contains(digests[next - 1]) {
                    self.filter.adapt(digests[next - 1]).expect("its remote is in memory");
                    self.round.false_positives += 1;
                    found[next - 1] = true;
                    unchanged = 0;
                }
                if unchanged >= keys.len() {
                    return found;
                }
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

    /// The same false positives in the same order as one lookup after the other has them: of filters
    /// that adapt well, of those that give in and of those that never adapt, over and over.
    #[test]
    fn passes_are_lookups_one_after_the_other() {
        for text in [
            "plain:f=5",
            "cyclic:f=6,s=1,k=4,b=1",
            "swapping:f=5",
            "cuckooing:f=7",
            "telescoping:f=6",
            "telescoping:f=6,spent=reseed",
            "extension:f=6",
            "broom:f=6",
            "line:f=9",
            "cached:f=6",
            "aqf:f=5",
        ] {
            let entrant = entrants::parse(text).expect("a filter").0.remove(0);
            let mut played = [false, true].map(|one_by_one| {
                let mut filter = entrant.build(600).expect("a capacity");
                let mut watch = |_: &[Round]| ();
                let mut oracle = Oracle::new(&mut filter, 600, 7, &mut watch).expect("room");
                let mut keys: Vec<Key> = oracle.fresh(36_000).collect();
                let mut rounds = Vec::new();
                for _ in 0..4 {
                    let found = if one_by_one {
                        let mut found = vec![false; keys.len()];
                        for _ in 0..10 {
                            let answers = keys.iter().map(|&key| oracle.lookup(key));
                            found.iter_mut().zip(answers).for_each(|(found, now)| *found |= now);
                        }
                        found
                    } else {
                        oracle.lookup_absent(&keys, 10)
                    };
                    let mut found = found.into_iter();
                    keys.retain(|_| found.next() == Some(true));
                    rounds.push((oracle.end_round(), keys.clone()));
                }
                rounds
            });
            assert!(played[0][0].0.false_positives > 50, "{text}: {:?}", played[0][0].0);
            assert_eq!(played[0].pop(), played[1].pop(), "{text}, the last round");
            assert_eq!(played[0], played[1], "{text}");
        }
    }
}
