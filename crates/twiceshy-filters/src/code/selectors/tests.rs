use alloc::vec;

use super::super::arithmetic::laws;
use super::*;
use crate::rng::Rng;

/// `Pr[v >= k]` for keys, for all `k` that matter, by the sum over Poisson
/// probabilities.
fn at_least(remainder: u32, queries_per_key: f64) -> Vec<f64> {
    let mean = Steps::LOAD * queries_per_key;
    let unequal = 1.0 - (-f64::from(remainder)).exp2();
    let mut at_least = vec![0.0; 200];
    let (mut probability, mut equal) = ((-mean).exp(), 1f64);
    for queries in 1..2000 {
        (0..200).for_each(|k| at_least[k] += probability * (1.0 - equal).powi(k as i32));
        probability *= mean / f64::from(queries);
        equal *= unequal;
    }
    at_least
}

/// Probabilities of a slot's selectors: of its key's, at this load.
fn slot(remainder: u32, queries_per_key: f64) -> Vec<f64> {
    let at_least = at_least(remainder, queries_per_key);
    let mut slot: Vec<f64> =
        at_least.windows(2).map(|two| Steps::LOAD * (two[0] - two[1])).collect();
    slot[0] += 1.0 - Steps::LOAD;
    slot
}

fn draw_block(draw: &laws::Draw, rng: &mut Rng) -> [u16; SLOTS] {
    core::array::from_fn(|_| draw.next(rng) as u16)
}

/// The probabilities a code assumes, for the selectors up to 40.
fn assumed(alphabet: &impl Alphabet<SlotState = u16>) -> Vec<f64> {
    (0..40).map(|selector| (-alphabet.bits(selector)).exp2()).collect()
}

#[test]
fn tuned_probabilities_are_the_papers() {
    let units = |numerator: u32, shift: u32| numerator << (Tuned::SCALE - shift);
    let expected =
        [1 << 23, units(7, 5), units(11, 9), units(1, 9), units(1, 11), units(27, 16), 3431];
    assert_eq!(Tuned::AT_LEAST, expected);
    assert!((Tuned.bits(0).exp2().recip() - 0.78125).abs() < 1e-12);
    assert!((Tuned.bits(3).exp2().recip() - 0.001_464_843_75).abs() < 1e-12);
    // Even a block that never adapted has an ideal length of 22.8 bits.
    let empty = Coder::new(Tuned, 56, SLOTS).bits(&[0; SLOTS]);
    assert!((22.7..22.9).contains(&empty), "{empty}");
}

#[test]
fn words_written_by_hand() {
    // A 1 leaves 101/512 from 25/32 on; of that a 0 leaves 25/32, and a 2
    // begins 501/512 on.
    let tuned = Coder::new(Tuned, 32, 3);
    let (ones, zeros) = (101u128 << 23, (25 * 101u128) << 18);
    let code = (25u128 << 27) + 501 * (zeros >> 9);
    assert_eq!(ones - 7 * (ones >> 5), zeros);
    assert_eq!(tuned.encode(&[1, 0, 2]), Some(code));
    assert_eq!(tuned.decode(code), [1, 0, 2]);
    assert_eq!(tuned.decode(code - 1), [1, 0, 1]);
    let [largest, ..]: [u16; 3] = tuned.decode((1 << 32) - 1);
    assert_eq!(largest, u16::MAX);
    // From 6 on: 3431/2^23, of which half are 6 and 7.
    let (first, rest) = ((1u128 << 32) - (3431 << 9), 3431u128 << 9);
    for (selector, before) in [(6, 0), (7, rest / 4), (8, rest / 2), (9, rest / 2 + rest / 16)] {
        assert_eq!(tuned.encode(&[selector, 0, 0]), Some(first + before), "{selector}");
    }

    // x = 2, y = 3: at least 1, 2, 3 are 1/4, 1/32, 1/256.
    let general = Coder::new(General { x: 2, y: 3 }, 16, 2);
    let code = (1 << 16) - (1 << 11) + ((3 * ((1 << 11) - (1 << 8))) >> 2);
    assert_eq!(general.encode(&[2, 1]), Some(code));
    assert_eq!(general.decode(code), [2, 1]);
}

#[test]
fn every_word_and_block_of_small_codes() {
    let selectors = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 400];
    for budget in [8, 13, 16] {
        for slots in [1, 3] {
            laws::all_words_and_blocks(&Coder::new(Tuned, budget, slots), &selectors);
        }
    }
    for (x, y) in [(1, 1), (2, 2), (3, 2), (4, 3), (1, 4), (8, 8)] {
        for budget in [8, 13] {
            let coder = Coder::new(General { x, y }, budget, 4);
            laws::all_words_and_blocks(&coder, &[0, 1, 2, 3, 5, 6, 9, 400]);
        }
    }
}

#[test]
fn random_words_of_every_budget() {
    for coder in laws::every_budget(Tuned) {
        laws::random_words_decode(&coder, coder.budget().into());
    }
    for (x, y) in [(1, 1), (2, 2), (3, 3), (8, 8)] {
        for coder in laws::every_budget(General { x, y }) {
            laws::random_words_decode(&coder, coder.budget().into());
        }
    }
}

#[test]
fn an_untouched_block_takes_any_selector_anywhere() {
    let code = SelectorCode::tuned(56);
    for selector in 1..=u16::MAX {
        for slot in [0, usize::from(selector) % SLOTS, SLOTS - 1] {
            let mut selectors = [0; SLOTS];
            selectors[slot] = selector;
            let word = code.encode(&selectors).expect("room for one");
            assert_eq!(code.decode_one(word, slot), selector);
            assert_eq!(code.decode(word), selectors);
        }
    }
}

/// Blocks as filters have them, and blocks as they never should be.
#[test]
fn blocks_come_back_or_are_within_two_bits_of_the_budget() {
    let mut rng = Rng::new(4);
    let mut draws: Vec<_> =
        [5.0, 10.0, 20.0, 60.0].map(|c| laws::Draw::new(slot(8, c))).into_iter().collect();
    let weights: [&[f64]; 5] = [
        &[0.0, 1.0],
        &[0.5, 0.5],
        &[0.9, 0.0, 0.0, 0.0, 0.0, 0.1],
        &[0.97, 0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.01, 0.01],
        &[0.7, 0.1, 0.1, 0.05, 0.02, 0.01, 0.01, 0.01],
    ];
    draws.extend(weights.map(|weights| laws::Draw::new(weights.iter().copied())));
    let general = [(1, 1), (2, 2), (3, 3), (2, 4)].map(|(x, y)| General { x, y });
    for draw in &draws {
        for round in 0..1000 {
            let mut block = draw_block(draw, &mut rng);
            // Zeros before and behind, so that heavy blocks come close to
            // the budget from both sides.
            let (from, to) = (rng.below(65) as usize, rng.below(65) as usize);
            if round % 2 == 0 {
                block[..from].fill(0);
                block[to..].fill(0);
            }
            if round % 100 == 0 {
                block[rng.below(64) as usize] = rng.next() as u16;
            }
            laws::comes_back_near_its_length(Tuned, &block);
            laws::comes_back_near_its_length(general[round % general.len()], &block);
            laws::comes_back(&Coder::new(Tuned, 56, SLOTS), &block);
        }
    }
}

/// 2,000 blocks from the probabilities that the code assumes. A block's
/// ideal length has a standard deviation below 13 bits, so the mean is
/// within 1.5 bits of the entropy but for an error probability below 1e-6.
#[test]
fn lengths_are_near_the_entropy() {
    fn check<A: Alphabet<SlotState = u16> + Clone>(alphabet: A) {
        let probabilities = assumed(&alphabet);
        let surprise = |(selector, p): (usize, &f64)| p * alphabet.bits(selector as u16);
        let slot: f64 = probabilities.iter().enumerate().map(surprise).sum();
        let entropy = slot * SLOTS as f64;
        let draw = laws::Draw::new(probabilities);
        let coders = laws::every_budget(alphabet);
        let mut rng = Rng::new(5);
        let mut sum = 0.0;
        for _ in 0..2000 {
            let block = draw_block(&draw, &mut rng);
            let length = laws::length(&coders, &block);
            assert!(length < coders[0].bits(&block).max(6.0) + 3.0, "{block:?}");
            sum += length;
        }
        let difference = sum / 2000.0 - entropy;
        assert!(difference.abs() < 0.02 * entropy + 2.0 + 1.5, "{difference} off {entropy}");
    }
    check(Tuned);
    check(General { x: 2, y: 2 });
    check(General { x: 3, y: 3 });
    check(General { x: 4, y: 3 });
}

#[test]
fn expected_bits_agree_with_the_sum_over_the_distribution() {
    // The checklist's values at 20 queries a key.
    let at_20 = at_least(8, 20.0);
    for (k, expected) in [0.9285, 0.0662, 0.0049].into_iter().enumerate() {
        assert!((at_20[k] - at_20[k + 1] - expected).abs() < 5e-5, "{k}");
    }
    for (remainder, queries) in [(4, 3.0), (8, 20.0), (8, 60.0), (10, 200.0)] {
        let slot = slot(remainder, queries);
        for (x, y) in [(1, 1), (2, 2), (3, 5), (8, 1)] {
            let general = General { x, y };
            let summed: f64 =
                (0u16..).zip(&slot).map(|(selector, p)| p * general.bits(selector)).sum();
            let collisions = Steps::LOAD * queries * (-f64::from(remainder)).exp2();
            let closed = General::steps(remainder, collisions).expected_bits(&general.costs());
            assert!((summed - closed).abs() < 1e-9, "{remainder} {queries}: {summed} {closed}");
        }
    }
}

#[test]
fn chosen_exponents_fill_the_budget_last() {
    // By a program of its own, with the same distribution.
    for (remainder, budget, expected) in [
        (4, 32, (4, 3)),
        (4, 56, (3, 2)),
        (6, 96, (2, 1)),
        (8, 32, (3, 3)),
        (8, 64, (2, 2)),
        (8, 120, (1, 1)),
        (9, 56, (2, 2)),
        (12, 40, (3, 3)),
    ] {
        let General { x, y } = General::best(remainder, budget);
        assert_eq!((x, y), expected, "{remainder} {budget}");
    }
}

/// Shares of blocks that need more than 56 bits, against the table of
/// expected values (`taf_ovf`).
///
/// Slots are independent, with the exact distribution at load 0.95; 300,000
/// blocks. Bounds are 5.5 standard deviations wide, so all eight fail with a
/// probability below 1e-6. The table rounds lengths in a way of its own, and
/// single compositions of a block have up to 1 % of the probability: its
/// values are met between limits of 55.5 and 56.5 bits. The coder refuses
/// fewer blocks, as zeros behind the last other selector are free.
#[test]
fn overflow_at_56_bits_is_that_of_the_table() {
    let code = SelectorCode::tuned(56);
    let bits: Vec<_> = (0..200).map(|selector| Tuned.bits(selector)).collect();
    for (queries, expected) in
        [(20.0, 0.000_372_68), (30.0, 0.012_182), (40.0, 0.087_494), (50.0, 0.274_78f64)]
    {
        let slot = slot(8, queries);
        let blocks = 300_000;
        let fits = |block: &[usize; SLOTS], _: &mut Rng| {
            code.encode(&block.map(|selector| selector as u16)).is_some()
        };
        let ([most, least], refused) = laws::shares_above(blocks, &slot, &bits, [55.5, 56.5], fits);
        let error = 5.5 * (expected / f64::from(blocks)).sqrt();
        assert!(least - error <= expected && expected <= most + error, "{queries}: {least} {most}");
        assert!(refused <= expected + error, "{queries}: {refused} refused");
    }
}

#[test]
fn the_papers_product_by_shifts() {
    for n in 1..=8u32 {
        for m in 0..4096u64 {
            let floor = (m * ((1 << n) - 1)) >> n;
            let (zero, others) = (m - m.part(n), m.part(n));
            assert_eq!(zero, floor + u64::from(m % (1 << n) != 0));
            assert_eq!(zero + others, m);
            // As printed, the last term is `m & (mask != 0)`, the low bit.
            let printed = (m >> n) * ((1 << n) - 1) + (m & ((1 << n) - 1)) - (m & 1);
            let wrong = m % 2 == 0 && m % (1 << n) != 0;
            assert_eq!(printed, floor + u64::from(wrong), "{m} {n}");
        }
    }
}
