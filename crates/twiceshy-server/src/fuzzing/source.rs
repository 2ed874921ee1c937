//! Choices, from the bytes of a fuzzer.

/// Bytes that decide what is made; zeros when they have ended.
pub(crate) struct Source<'a>(pub(crate) &'a [u8]);

impl Source<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// A number below `end`, which is at most 2^16.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % end
    }

    pub(crate) fn one_in(&mut self, count: u8) -> bool {
        self.byte() % count == count - 1
    }

    pub(crate) fn choose<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        items[self.below(items.len())]
    }

    pub(crate) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.byte()).collect()
    }

    /// Damages some bytes: changed, inserted, removed or repeated ones.
    pub(crate) fn damage(&mut self, bytes: &mut Vec<u8>, tokens: &[&[u8]]) {
        for _ in 0..1 + self.below(4) {
            let at = self.below(bytes.len() + 1);
            let end = (at + self.below(20)).min(bytes.len());
            match self.below(5) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => drop(bytes.drain(at..end)),
                2 => {
                    let again = bytes[at..end].to_vec();
                    drop(bytes.splice(at..at, again));
                }
                3 => {
                    let new = self.bytes(8);
                    drop(bytes.splice(at..at, new));
                }
                _ => drop(bytes.splice(at..at, self.choose(tokens).to_vec())),
            }
        }
    }
}
