use super::*;
use crate::rng::Rng;

/// The slow obvious version: a list of remainders and strings for each
/// quotient, and a list of ghosts for each group.
#[derive(Clone)]
struct Lists {
    runs: Vec<Vec<(u64, Text)>>,
    ghosts: Vec<Vec<(usize, bool, Text)>>,
}

impl Lists {
    fn new(quotients: usize) -> Self {
        let groups = quotients.div_ceil(SLOTS);
        Lists { runs: vec![Vec::new(); quotients], ghosts: vec![Vec::new(); groups] }
    }

    fn quotients(&self, group: usize) -> Range<usize> {
        group * SLOTS..((group + 1) * SLOTS).min(self.runs.len())
    }

    fn slots(&self, group: usize) -> usize {
        self.quotients(group).map(|quotient| self.runs[quotient].len()).sum()
    }

    fn bits(&self, group: usize) -> u32 {
        let runs = self.runs[self.quotients(group)].iter().flatten();
        let strings = runs.map(|(_, string)| string);
        let ghosts = self.ghosts[group].iter().map(|(.., string)| string);
        strings.chain(ghosts).map(|string| u32::from(string.length)).sum()
    }

    fn start(&self, quotient: usize) -> u32 {
        let before = quotient / SLOTS * SLOTS..quotient;
        before.map(|quotient| self.runs[quotient].len() as u32).sum()
    }

    /// The slots of a quotient that `pick` likes.
    fn bitmap(&self, quotient: usize, pick: impl Fn(u64, Text) -> bool) -> u64 {
        let slots = self.start(quotient)..;
        slots
            .zip(&self.runs[quotient])
            .filter(|(_, (remainder, string))| pick(*remainder, *string))
            .fold(0, |bitmap, (slot, _)| bitmap | 1 << slot)
    }

    fn compare(&self, level: &Level) {
        level.check().unwrap_or_else(|broken| panic!("{broken}"));
        assert_eq!(level.len(), self.runs.iter().map(Vec::len).sum::<usize>());
        let mut slots = level.iter();
        for (quotient, list) in self.runs.iter().enumerate() {
            let start = self.start(quotient);
            assert_eq!(level.run(quotient), start..start + list.len() as u32);
            for (slot, &(remainder, string)) in (start..).zip(list) {
                assert_eq!(slots.next(), Some((quotient, slot)));
                assert_eq!(level.remainder(quotient, slot), remainder);
                assert_eq!(level.string(quotient, slot), string);
            }
            let ghosts = self.ghosts[quotient / SLOTS].iter();
            let ghosts = ghosts.filter(|ghost| ghost.0 == quotient);
            let ghosts: Vec<_> = ghosts.map(|&(_, tag, string)| (tag, string)).collect();
            assert_eq!(level.ghosts(quotient).collect::<Vec<_>>(), ghosts);
        }
        assert_eq!(slots.next(), None);
        for (group, ghosts) in self.ghosts.iter().enumerate() {
            assert_eq!(level.ghost_count(group) as usize, ghosts.len());
            assert_eq!(level.used_bits(group), self.bits(group));
        }
    }
}

fn shapes() -> impl Iterator<Item = Shape> {
    (1..=32).flat_map(|head| (0..=32 - head).map(move |tail| Shape { head, tail }))
}

/// Often empty, and few different ones.
fn random_string(rng: &mut Rng) -> Text {
    let bits = [rng.next(), 0, u64::MAX][rng.below(3) as usize];
    let longest = [1, 4, 12, 65][rng.below(4) as usize];
    Text::prefix(bits, rng.below(longest) as u8)
}

/// Few different ones, and such that heads or tails alone are often equal.
fn random_remainder(rng: &mut Rng, shape: Shape) -> u64 {
    let high = rng.below(3) & low_bits(shape.head);
    let low = rng.below(3) & low_bits(shape.tail);
    high << shape.tail | low
}

/// Random operations on all of a level; a share of quotients is picked more
/// often, so that groups get full.
fn play(quotients: usize, shape: Shape, steps: usize) {
    let mut rng = Rng::new((quotients as u64) << 12 | u64::from(shape.head * 64 + shape.tail));
    let mut level = Level::new(quotients, shape);
    let mut lists = Lists::new(quotients);
    for step in 0..steps {
        let range = if rng.below(2) == 0 { quotients } else { quotients.min(5) };
        let quotient = rng.below(range as u64) as usize;
        let group = quotient / SLOTS;
        let start = lists.start(quotient);
        let slot = start + rng.below(lists.runs[quotient].len() as u64 + 1) as u32;
        let index = (slot - start) as usize;
        let string = random_string(&mut rng);
        let remainder = random_remainder(&mut rng, shape);
        let before = level.clone();
        match rng.below(16) {
            0..8 => {
                let expected = if lists.slots(group) == SLOTS {
                    Err(Full::Slots)
                } else if lists.bits(group) + u32::from(string.length) > 128 {
                    Err(Full::Bits)
                } else {
                    let run = &mut lists.runs[quotient];
                    run.push((remainder, string));
                    Ok(start + run.len() as u32 - 1)
                };
                assert_eq!(level.insert(quotient, remainder, string), expected);
                assert!(expected.is_ok() || level == before, "nothing changed");
            }
            8..11 if index < lists.runs[quotient].len() => {
                let (_, removed) = lists.runs[quotient].remove(index);
                assert_eq!(level.remove(quotient, slot), removed);
            }
            11..13 if index < lists.runs[quotient].len() => {
                let mut changed = lists.clone();
                changed.runs[quotient][index].1 = string;
                if changed.bits(group) <= 128 {
                    lists = changed;
                    assert_eq!(level.set_string(quotient, slot, string), Ok(()));
                } else {
                    assert_eq!(level.set_string(quotient, slot, string), Err(Full::Bits));
                    assert!(level == before, "nothing changed");
                }
            }
            13 => {
                let tag = rng.below(2) == 1;
                let room = lists.bits(group) + u32::from(string.length) <= 128
                    && lists.ghosts[group].len() < 7;
                let fits = string.is_empty() || room;
                assert_eq!(level.add_ghost(quotient, tag, string), fits);
                if !string.is_empty() && room {
                    lists.ghosts[group].push((quotient, tag, string));
                } else {
                    assert!(level == before, "nothing changed");
                }
            }
            14 if rng.below(3) == 0 => {
                let tag = rng.below(2) == 1;
                let count = lists.ghosts[group].len();
                lists.ghosts[group].retain(|ghost| ghost.1 != tag);
                let dropped = count - lists.ghosts[group].len();
                assert_eq!(level.drop_ghosts(group, tag) as usize, dropped);
            }
            _ => {
                level.set_stamp(group, rng.below(2) == 1);
                level.set_overflowed(group, !level.overflowed(group));
                assert_ne!(level.overflowed(group), before.overflowed(group));
            }
        }
        let bits = random_string(&mut rng).bits;
        let head = |remainder: u64| remainder >> shape.tail;
        let same = lists.bitmap(quotient, |held, _| head(held) == head(remainder));
        assert_eq!(level.same_head(quotient, remainder), same);
        let equal = lists.bitmap(quotient, |held, _| held == remainder);
        assert_eq!(level.equal(quotient, remainder), equal);
        let matches =
            lists.bitmap(quotient, |held, string| held == remainder && string.is_prefix_of(bits));
        assert_eq!(level.matches(quotient, remainder, bits), matches);
        if step % 61 == 0 || step + 1 == steps {
            lists.compare(&level);
            let again = Level::from_bytes(&level.as_bytes(), quotients, shape);
            assert!(again.is_ok_and(|again| again == level));
        }
    }
}

#[test]
fn levels_of_every_shape_agree_with_lists() {
    let steps = if cfg!(miri) { 5 } else { 400 };
    for (index, shape) in shapes().enumerate() {
        play([1, 2, 63, 64, 65, 200][index % 6], shape, steps);
    }
}

#[test]
fn long_plays_agree_with_lists() {
    let steps = if cfg!(miri) { 100 } else { 20_000 };
    for (quotients, head, tail) in [(64, 8, 0), (130, 5, 0), (3, 6, 10), (64, 13, 19)] {
        play(quotients, Shape { head, tail }, steps);
    }
}

/// A level with something of everything, and what it was made of.
fn sample(shape: Shape) -> Level {
    let mut level = Level::new(100, shape);
    for (quotient, length) in [(3, 0), (3, 5), (40, 1), (99, 0), (99, 64)] {
        let string = Text::prefix(0x6666_6666_6666_6666, length);
        level.insert(quotient, 1, string).expect("there is room");
    }
    assert!(level.add_ghost(7, true, Text::prefix(1 << 63, 2)));
    level
}

#[test]
fn damaged_bytes_are_refused_or_give_a_level_that_holds_together() {
    let mut rng = Rng::new(4);
    for shape in [(8, 0), (1, 0), (5, 11), (32, 0)].map(|(head, tail)| Shape { head, tail }) {
        let whole = sample(shape).as_bytes();
        assert_eq!(whole.len() * 8, 2 * Level::group_bits(shape));
        assert!(Level::from_bytes(&whole[1..], 100, shape).is_err());
        assert!(Level::from_bytes(&whole, 99, shape).is_err(), "a quotient too many");
        assert!(Level::from_bytes(&whole, 129, shape).is_err(), "too few groups");
        assert!(Level::from_bytes(&whole, usize::MAX, shape).is_err());
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let mut damaged = whole.clone();
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(whole.len() as u64) as usize;
                damaged[at] ^= 1 << rng.below(8);
            }
            let Ok(mut level) = Level::from_bytes(&damaged, 100, shape) else { continue };
            assert_eq!(level.as_bytes(), damaged);
            for quotient in 0..100 {
                let _ = level.matches(quotient, 1, rng.next());
                assert!(level.ghosts(quotient).count() <= 7);
            }
            let slots: Vec<_> = level.iter().collect();
            for (quotient, slot) in slots.into_iter().rev() {
                let _ = level.remove(quotient, slot);
            }
            for (group, tag) in [(0, true), (0, false), (1, true), (1, false)] {
                level.drop_ghosts(group, tag);
            }
            level.check().expect("nothing is left");
            assert!(level.len() == 0 && level.used_bits(0) + level.used_bits(1) == 0);
        }
    }
    let wide = Shape { head: 32, tail: u32::MAX };
    assert!(Level::from_bytes(&[], 0, wide).is_err());
    assert!(Level::from_bytes(&[], 0, Shape { head: 0, tail: 1 }).is_err());
}

#[test]
fn a_flipped_bit_goes_unnoticed_only_where_any_value_is_right() {
    let shape = Shape { head: 5, tail: 3 };
    let whole = sample(shape).as_bytes();
    let unnoticed = (0..whole.len() * 8).filter(|bit| {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        Level::from_bytes(&flipped, 100, shape).is_ok()
    });
    let remainders = 5 * 8;
    let strings = 5 + 1 + 64 + 2;
    // The ghost's tag and any quotient; two flags for each group.
    let rest = 7 + 2 * 2;
    // A zero of a quotient as a one: a slot more, which holds 0.
    let slots = 100;
    assert_eq!(unnoticed.count(), remainders + strings + rest + slots);
}

#[test]
fn a_remainder_in_an_empty_slot_is_refused() {
    let shape = Shape { head: 8, tail: 0 };
    let mut bytes = sample(shape).as_bytes();
    *bytes.last_mut().expect("the head of slot 63") = 1;
    let error = Level::from_bytes(&bytes, 100, shape).err().unwrap_or_default();
    assert_eq!(error, "group 1: slot 63 is empty and holds a remainder");
}

/// Memory is what the bytes need, up to a line for heads and for tails.
#[test]
fn no_gaps_between_groups() {
    for shape in shapes() {
        let level = Level::new(6400, shape);
        let gaps = level.bits() - 100 * Level::group_bits(shape);
        assert!(gaps < 2 * 512, "{shape:?}: {gaps}");
        assert_eq!(level.groups.as_ptr() as usize % 64, 0, "a group is one line");
    }
}

/// Sections 5.3 and 5.4: a constant number of words, however full the level.
#[test]
fn a_lookup_reads_few_cache_lines() {
    let mut rng = Rng::new(9);
    let quotients = if cfg!(miri) { 300 } else { 64_000 };
    for (head, tail, average) in [(8, 0, 1.6), (12, 0, 1.65), (8, 24, 2.3)] {
        let mut level = Level::new(quotients, Shape { head, tail });
        while level.len() * 10 < level.slots() * 9 {
            let quotient = rng.below(quotients as u64) as usize;
            let _ = level.insert(quotient, 0, Text::default());
        }
        let lines = (0..quotients).map(|quotient| level.lines(quotient));
        assert_eq!(lines.clone().min(), Some(1), "an empty run ends the lookup");
        assert!(lines.clone().max() <= Some(if tail == 0 { 3 } else { 5 }));
        let mean = f64::from(lines.sum::<u32>()) / quotients as f64;
        assert!(mean < average, "{head} + {tail}: {mean}");
    }
    // The most that can be: all slots of a group in one run.
    let mut level = Level::new(64, Shape { head: 8, tail: 24 });
    (0..64).for_each(|_| assert!(level.insert(5, 0, Text::default()).is_ok()));
    assert_eq!(level.lines(5), 1 + 1 + 3);
}
