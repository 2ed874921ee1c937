use alloc::vec;

use super::*;
use crate::rng::Rng;

/// Three blocks with random contents in every field.
fn random(width: u32, state: usize, rng: &mut Rng) -> Blocks {
    let mut blocks = Blocks::new(3, width, state);
    let len = blocks.bytes.len() - PADDING;
    blocks.bytes[..len].iter_mut().for_each(|byte| *byte = rng.next() as u8);
    blocks
}

#[test]
fn a_block_written_by_hand() {
    let mut blocks = Blocks::new(2, 12, 1);
    blocks.set_occupied(64 + 9, true);
    blocks.set_runend(64 + 63, true);
    blocks.set_offset(1, 200);
    blocks.set_remainder(64, 0xabc);
    blocks.set_remainder(65, 0x123);
    let bytes = blocks.as_bytes();
    let stride = 8 + 8 + 1 + 64 * 12 / 8 + 1;
    assert_eq!(bytes.len(), 2 * stride);
    assert!(bytes[..stride].iter().all(|&byte| byte == 0));
    let mut expected = vec![0; stride];
    expected[1] = 0b10; // quotient 9
    expected[15] = 0b1000_0000; // slot 63
    expected[16] = 200;
    expected[17..20].copy_from_slice(&[0xbc, 0x3a, 0x12]);
    assert_eq!(&bytes[stride..], expected);
    assert!(Blocks::from_bytes(bytes, 12, 1) == Some(blocks.clone()));
    assert!(Blocks::from_bytes(&bytes[1..], 12, 1).is_none());
}

/// The slow obvious version: all slots as lists.
fn slots(blocks: &Blocks) -> (Vec<bool>, Vec<u64>) {
    let is_runend = |slot| blocks.runends(slot / SLOTS) >> (slot % SLOTS) & 1 == 1;
    (0..blocks.slots()).map(|slot| (is_runend(slot), blocks.remainder(slot))).unzip()
}

#[test]
fn insertions_and_removals_by_words_agree_with_lists() {
    let mut rng = Rng::new(5);
    for width in 1..=32 {
        for _ in 0..if cfg!(miri) { 2 } else { 300 } {
            let state = (width % 3) as usize;
            let mut blocks = random(width, state, &mut rng);
            let (mut runends, mut remainders) = slots(&blocks);
            let at = rng.below(192) as usize;
            let to = at + rng.below(192 - at as u64) as usize;
            let (runend, remainder) = (rng.below(2) == 1, rng.next() & mask(width));
            // The fields that nothing has touched.
            let rest = |blocks: &Blocks| -> Vec<(u64, u8, Vec<u8>)> {
                let all = blocks.as_bytes().chunks(blocks.stride).enumerate();
                all.map(|(block, bytes)| {
                    let own = bytes[blocks.stride - state..].to_vec();
                    (blocks.occupieds(block), blocks.offset(block), own)
                })
                .collect()
            };
            let untouched = rest(&blocks);

            runends.remove(to);
            runends.insert(at, runend);
            blocks.insert_runend(at, to, runend);
            remainders.remove(to);
            remainders.insert(at, remainder);
            blocks.insert_remainder(at, to, remainder);
            let expected = (runends.clone(), remainders.clone());
            assert!(slots(&blocks) == expected, "width {width}, {at} to {to}");

            runends.remove(at);
            runends.insert(to, false);
            blocks.remove_runend(at, to);
            remainders.remove(at);
            remainders.insert(to, 0);
            blocks.remove_remainder(at, to);
            assert!(slots(&blocks) == (runends, remainders), "width {width}, {at} to {to}");
            assert_eq!(rest(&blocks), untouched, "width {width}, {at} to {to}");
        }
    }
}

#[test]
fn every_width_agrees_with_a_vector_of_numbers() {
    let mut rng = Rng::new(6);
    for width in 1..=32 {
        let mut blocks = Blocks::new(2, width, 7);
        let mut plain = vec![0; 128];
        for _ in 0..500 {
            let slot = rng.below(128) as usize;
            plain[slot] = rng.next() & mask(width);
            blocks.set_remainder(slot, plain[slot]);
        }
        blocks.push(0);
        let held: Vec<u64> = (0..128).map(|slot| blocks.remainder(slot)).collect();
        assert_eq!(held, plain, "width {width}");
        assert_eq!(blocks.count(), 3);
        assert_eq!(blocks.remainder(191), 0);
        assert_eq!([blocks.runends(1), blocks.occupieds(1)], [0, 0], "nothing else changed");
    }
}
