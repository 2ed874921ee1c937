//! Lemma 29's remaining operations, which the filter does not need: lengths of matches, and
//! updates of many strings at once. They take as many steps as a word has bits at most, however
//! many strings there are.

use core::ops::Range;

use super::Strings;
use crate::bits::word::low_bits_wide;

impl Strings {
    /// How far each string of these ranks agrees with `query`, in unary: of each string's bits,
    /// the first ones that agree are set. [`Strings::length`] counts them.
    pub(crate) fn prefix_lengths(self, ranks: Range<u32>, query: u64) -> u128 {
        self.agreeing(ranks, query)
    }

    /// How many bits of string `rank` a bitmap of positions has.
    pub(crate) fn length(self, rank: u32, positions: u128) -> u32 {
        let string = low_bits_wide(self.start(rank + 1)) & !low_bits_wide(self.start(rank));
        (positions & string).count_ones()
    }

    /// All strings with up to `count` bits less at the front, and which of them still have bits,
    /// by rank. The others are gone.
    pub(crate) fn splice_all(self, count: u8) -> (Self, u128) {
        let mut front = self.starts();
        let mut dropped = 0;
        for _ in 0..count {
            dropped |= front;
            front = (front & !self.last) << 1;
        }
        (self.kept(!dropped), compress(!dropped, self.last))
    }

    /// The strings without those of a bitmap of ranks.
    pub(crate) fn remove_all(self, ranks: u128) -> Self {
        // From each first bit to its last one: the sum of `2 last - first`, which are apart.
        let lasts = expand(ranks, self.last);
        let firsts = expand(ranks, self.starts());
        self.kept(!(lasts << 1).wrapping_sub(firsts))
    }

    /// The strings of a bitmap of ranks, each as one with its next. Two in a row make one of
    /// three. The last has no next.
    pub(crate) fn concat_all(self, ranks: u128) -> Self {
        let count = self.count();
        let joints = expand(ranks & low_bits_wide(count.saturating_sub(1)), self.last);
        Strings { last: self.last & !joints, ..self }
    }

    /// The first bit of each string.
    fn starts(self) -> u128 {
        (self.last << 1 | 1) & low_bits_wide(self.used())
    }

    fn kept(self, positions: u128) -> Self {
        let positions = positions & low_bits_wide(self.used());
        Strings { data: compress(self.data, positions), last: compress(self.last, positions) }
    }
}

/// Steps of [`compress`] and [`expand`]: a bit moves by less than `2^STEPS`.
const STEPS: usize = u128::BITS.ilog2() as usize;

/// In step `i`, the bits that move by `2^i` so that those of a mask come together (Warren,
/// "Hacker's Delight", section 7-4).
fn moves(mut mask: u128) -> [u128; STEPS] {
    let mut right = !mask << 1;
    core::array::from_fn(|step| {
        let odd = (0..STEPS).fold(right, |odd, shift| odd ^ odd << (1 << shift));
        let moving = odd & mask;
        mask = mask ^ moving | moving >> (1 << step);
        right &= !odd;
        moving
    })
}

/// The bits of `word` at the positions of `mask`, side by side.
fn compress(word: u128, mask: u128) -> u128 {
    moves(mask).iter().enumerate().fold(word & mask, |word, (step, moving)| {
        let those = word & moving;
        word ^ those | those >> (1 << step)
    })
}

/// The lowest bits of `word` at the positions of `mask`.
fn expand(word: u128, mask: u128) -> u128 {
    let spread = moves(mask)
        .iter()
        .enumerate()
        .rev()
        .fold(word, |word, (step, moving)| word & !moving | word << (1 << step) & moving);
    spread & mask
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::super::Text;
    use super::*;
    use crate::rng::Rng;

    fn wide(rng: &mut Rng) -> u128 {
        let word = u128::from(rng.next()) << 64 | u128::from(rng.next());
        [word, word & word >> 7, 0, u128::MAX][rng.below(4) as usize]
    }

    #[test]
    fn bits_are_compressed_and_expanded_in_order() {
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            let (word, mask) = (wide(&mut rng), wide(&mut rng));
            let positions = (0..128).filter(|at| mask >> at & 1 == 1);
            let (mut together, mut apart) = (0, 0);
            for (index, at) in positions.enumerate() {
                together |= (word >> at & 1) << index;
                apart |= (word >> index & 1) << at;
            }
            assert_eq!(compress(word, mask), together, "{word:b} {mask:b}");
            assert_eq!(expand(word, mask), apart, "{word:b} {mask:b}");
        }
    }

    /// Strings of which few are different, and the list of them.
    fn random(rng: &mut Rng) -> (Strings, Vec<Text>) {
        let (mut strings, mut list) = (Strings::default(), Vec::new());
        let longest = [1, 3, 12, 64][rng.below(4) as usize];
        loop {
            let bits = [rng.next(), 0, u64::MAX][rng.below(3) as usize];
            let text = Text::prefix(bits, 1 + rng.below(longest) as u8);
            match strings.insert(strings.count(), text) {
                Some(more) => strings = more,
                None => return (strings, list),
            }
            list.push(text);
        }
    }

    fn held(strings: Strings) -> Vec<Text> {
        strings.check().expect("it holds together");
        (0..strings.count()).map(|rank| strings.get(rank)).collect()
    }

    #[test]
    fn many_strings_at_once_agree_with_one_after_the_other() {
        let mut rng = Rng::new(2);
        for _ in 0..500 {
            let (strings, list) = random(&mut rng);
            let count = list.len() as u32;

            let query = [rng.next(), 0, u64::MAX][rng.below(3) as usize];
            let from = rng.below(u64::from(count) + 1) as u32;
            let lengths = strings.prefix_lengths(from..count, query);
            for (rank, text) in (0..).zip(&list) {
                let common = if rank < from { 0 } else { u32::from(text.common(query)) };
                assert_eq!(strings.length(rank, lengths), common, "string {rank}");
            }

            let cut = rng.below(14) as u8;
            let (spliced, left) = strings.splice_all(cut);
            let longer = list.iter().filter(|text| text.length > cut);
            let expected = longer.map(|text| Text::prefix(text.bits << cut, text.length - cut));
            assert_eq!(held(spliced), expected.collect::<Vec<_>>());
            let still = (0..).zip(&list).filter(|(_, text)| text.length > cut);
            assert_eq!(left, still.fold(0, |left, (rank, _)| left | 1 << rank));

            let chosen = wide(&mut rng) & low_bits_wide(count);
            let others = (0..).zip(&list).filter(|(rank, _)| chosen >> rank & 1 == 0);
            let others: Vec<Text> = others.map(|(_, &text)| text).collect();
            assert_eq!(held(strings.remove_all(chosen)), others);

            // No two in a row, and none too long.
            let short = (0..).zip(list.windows(2)).filter(|(_, pair)| {
                u32::from(pair[0].length) + u32::from(pair[1].length) <= u64::BITS
            });
            let short = short.fold(0, |short, (rank, _)| short | 1_u128 << rank);
            let chosen = chosen & short & 0x5555_5555_5555_5555_5555_5555_5555_5555;
            let one_by_one = (0..count).rev().filter(|rank| chosen >> rank & 1 == 1);
            let expected = one_by_one
                .fold(strings, |strings, rank| strings.concat(rank).expect("short enough"));
            assert_eq!(held(strings.concat_all(chosen)), held(expected));
        }
    }
}
