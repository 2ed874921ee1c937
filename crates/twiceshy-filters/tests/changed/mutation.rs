//! Changes to a file that keep it a file: lengths and checksums are made right afterwards,
//! so that the code behind them is reached.

/// Bytes that say what to do: a fuzzer's, or a generator's. When they are used up, it is
/// zeros.
pub struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Choices { bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    fn number(&mut self) -> u64 {
        (0..8).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        let number = usize::from(self.byte()) << 16 | usize::from(self.byte()) << 8;
        (number | usize::from(self.byte())) % end.max(1)
    }
}

/// Numbers that lengths, counts and places go wrong with.
const EDGES: [u64; 12] =
    [0, 1, 2, 63, 64, 255, u16::MAX as u64, 1 << 31, u32::MAX as u64, 1 << 40, 1 << 63, u64::MAX];

/// Changes some bytes: one bit, one byte, a number, a few bytes more or fewer.
pub fn mutate(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    let at = choices.below(bytes.len());
    match choices.byte() % 8 {
        0 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << (choices.byte() % 8);
            }
        }
        1 => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = choices.byte();
            }
        }
        // Most fields are eight bytes at a multiple of four from the end of the kind.
        kind @ 2..=5 => {
            let width = if kind == 5 { 4 } else { 8 };
            let Some(field) = bytes.get_mut(at..at + width) else { return };
            let mut number = [0; 8];
            number[..width].copy_from_slice(field);
            let old = u64::from_le_bytes(number);
            let new = match choices.byte() % 4 {
                0 => EDGES[usize::from(choices.byte()) % EDGES.len()],
                1 => old.wrapping_add(1),
                2 => old.wrapping_sub(1),
                _ => choices.number(),
            };
            field.copy_from_slice(&new.to_le_bytes()[..width]);
        }
        6 => {
            let end = (at + 1 + choices.below(32)).min(bytes.len());
            bytes.drain(at.min(end)..end);
        }
        _ => {
            let count = 1 + choices.below(32);
            let added: Vec<u8> = (0..count).map(|_| choices.byte()).collect();
            bytes.splice(at..at, added);
        }
    }
}

/// Appends a block: its length and its bytes.
pub fn push_block(bytes: &mut Vec<u8>, block: &[u8]) {
    bytes.extend((block.len() as u64).to_le_bytes());
    bytes.extend(block);
}

/// The block at a place: its bytes, and where it ends.
pub fn block(bytes: &[u8], at: usize) -> (&[u8], usize) {
    let length = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let end = at + 8 + usize::try_from(length).expect("a file of ours");
    (&bytes[at + 8..end], end)
}
