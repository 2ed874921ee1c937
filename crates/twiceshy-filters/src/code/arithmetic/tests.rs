use super::*;
use crate::rng::Rng;

/// True with probability 1/4.
#[derive(Clone)]
struct Coin;

impl Alphabet for Coin {
    type SlotState = bool;

    fn others<W: Word>(&self, range: W) -> W {
        range.part(2)
    }

    fn encode<W: Word>(&self, _: bool, interval: &mut Interval<W>) -> Option<()> {
        interval.bit(true, 2)
    }

    fn decode<W: Word>(&self, point: &mut Point<W>) -> bool {
        point.bit(2)
    }

    fn bits(&self, state: bool) -> f64 {
        if state { 2.0 } else { 2.0 - 3f64.log2() }
    }
}

#[test]
fn words_written_by_hand() {
    // 256 = 192 + 64; 64 = 48 + 16; 48 = 36 + 12.
    let coder = Coder::new(Coin, 8, 3);
    for (word, expected) in [
        (0, [false, false, false]),
        (191, [false, true, true]),
        (192, [true, false, false]),
        (227, [true, false, false]),
        (228, [true, false, true]),
        (240, [true, true, false]),
        (255, [true, true, true]),
    ] {
        assert_eq!(coder.decode(word), expected, "{word}");
    }
    assert_eq!(coder.encode(&[true, false, true]), Some(228));
    assert_eq!(coder.encode(&[true, true, true]), Some(252));
    // Four states of two bits fill the 8 bits; there is no fifth.
    let coder = Coder::new(Coin, 8, 6);
    assert_eq!(coder.encode(&[true, true, true, true, false, false]), Some(255));
    assert_eq!(coder.encode(&[true, true, true, true, false, true]), None);
}

#[test]
fn every_word_of_a_small_code() {
    for slots in 1..=8 {
        for budget in 8..=12 {
            laws::all_words_and_blocks(&Coder::new(Coin, budget, slots), &[false, true]);
        }
    }
}

#[test]
fn random_words_of_every_budget() {
    for coder in laws::every_budget(Coin) {
        laws::random_words_decode(&coder, coder.budget().into());
    }
}

#[test]
fn both_word_sizes_give_one_code() {
    let mut rng = Rng::new(1);
    for coder in laws::every_budget(Coin).into_iter().filter(Coder::is_narrow) {
        for _ in 0..300 {
            let word = rng.next() & rng.next() & rng.next();
            let states: [bool; SLOTS] = core::array::from_fn(|slot| word >> slot & 1 == 1);
            assert_eq!(
                coder.encode_in::<u64>(&states),
                coder.encode_in::<u128>(&states),
                "{word:x} in {} bits",
                coder.budget
            );
        }
    }
}

#[test]
fn bits_above_the_budget_are_ignored() {
    let coder = Coder::new(Coin, 56, SLOTS);
    let states: [bool; SLOTS] = coder.decode(0xab_cdef_0123_4567);
    assert!(states.contains(&true));
    assert_eq!(coder.decode(0xffab_cdef_0123_4567), states);
}

#[test]
fn numbers_divide_any_range() {
    for last in (0..40).chain([255, 256, 1000]) {
        for range in 1..=300u64 {
            let mut counts = vec![0u64; last as usize + 1];
            for offset in 0..range {
                let mut point = Point { offset, range };
                let number = point.number(last);
                counts[number as usize] += 1;
                let mut interval = Interval { low: 0, range };
                interval.number(number, last).expect("it has this word");
                assert_eq!((interval.low, interval.range), (offset - point.offset, point.range));
            }
            for number in 0..=last {
                let mut interval = Interval { low: 0, range };
                let found = interval.number(number, last).map_or(0, |()| interval.range);
                assert_eq!(found, counts[number as usize], "{number} of {last} in {range}");
            }
        }
    }
}
