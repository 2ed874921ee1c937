//! A `Filter`'s file whose bytes were changed, with checksums that are right.
//!
//! It is refused, or it is a filter: perhaps not the one that was saved, for whoever makes
//! checksums right can write any filter. It then goes on working, and loading it takes no
//! more memory than its bytes justify.

use twiceshy::filter::Kind;
use twiceshy::{Filter, Frozen, KeyHasher};

use super::allocations::measured;
use super::mutation::{Choices, block, mutate, push_block};

/// Kind, capacity, rate and exceptions of the filters: single ones and chains.
pub const FILTERS: [(Kind, usize, f64, f64); 8] = [
    (Kind::Line, 20, 0.005, 30.0),
    (Kind::Line, 150, 0.0008, 0.5),
    (Kind::Plain, 200, 0.01, 0.5),
    (Kind::Plain, 20, 0.3, 30.0),
    (Kind::Plain, 1, 0.1, 100.0),
    (Kind::Plain, 150, 0.0001, 0.0),
    (Kind::Rsqf, 20, 0.3, 30.0),
    (Kind::Rsqf, 200, 0.01, 0.5),
];

const KEYS: u64 = 150;

/// A set of exceptions with one entry is 13 bytes in the file and 68 in memory, an empty one
/// 1 byte and 4.
const BYTES_PER_BYTE: usize = 8;
const BYTES_BESIDES: usize = 1 << 16;

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Loaded,
}

fn filter(which: usize) -> Filter {
    let (kind, capacity, rate, exceptions) = FILTERS[which];
    let builder = Filter::builder().kind(kind).capacity(capacity).rate(rate).exceptions(exceptions);
    let mut filter = builder.hasher(KeyHasher::keyed([9; 16])).build().expect("good numbers");
    filter.extend(0..KEYS);
    for key in 1000..3000u64 {
        filter.adapt(key);
    }
    filter
}

/// The file in pieces: what is before the filters, and for each its file and its exceptions.
struct Pieces {
    head: Vec<u8>,
    layers: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Pieces {
    fn of(bytes: &[u8]) -> Self {
        let kind_end = 16 + usize::from(bytes[12]);
        let (_, hasher_end) = block(bytes, kind_end + 8);
        let mut at = hasher_end + 3 * 8;
        let (head, mut layers) = (bytes[..at].to_vec(), Vec::new());
        while at < bytes.len() - 8 {
            let (filter, filter_end) = block(bytes, at);
            let (_, end) = block(bytes, filter_end + 8);
            layers.push((filter.to_vec(), bytes[filter_end..end].to_vec()));
            at = end;
        }
        Pieces { head, layers }
    }

    /// The bytes, every length and checksum right.
    fn sealed(self) -> Vec<u8> {
        let mut bytes = self.head;
        for (mut filter, exceptions) in self.layers {
            twiceshy_filters::format::seal(&mut filter);
            push_block(&mut bytes, &filter);
            bytes.extend(exceptions);
        }
        bytes.extend([0; 8]);
        twiceshy_filters::format::seal(&mut bytes);
        bytes
    }
}

/// Interprets bytes as a filter and changes to its file, and loads that.
///
/// # Panics
/// When an invariant is broken.
pub fn load_changed(bytes: &[u8]) -> Outcome {
    let choices = &mut Choices::new(bytes);
    let filter = filter(usize::from(choices.byte()) % FILTERS.len());
    let frozen = choices.byte() % 2 == 1;
    let whole = if frozen { filter.freeze().to_bytes() } else { filter.to_bytes() };
    let mut pieces = Pieces::of(&whole);
    let layers = pieces.layers.len();
    while !choices.is_empty() {
        let (file, exceptions) = &mut pieces.layers[usize::from(choices.byte()) % layers];
        match choices.byte() % 8 {
            0 => mutate(&mut pieces.head, choices),
            1..5 => {
                file.truncate(file.len().saturating_sub(8));
                mutate(file, choices);
                file.extend([0; 8]);
            }
            _ => mutate(exceptions, choices),
        }
    }
    let bytes = pieces.sealed();
    let (loaded, most) = measured(|| match frozen {
        true => Frozen::from_bytes(&bytes).map(Err),
        false => Filter::from_bytes(&bytes).map(Ok),
    });
    assert!(
        most <= BYTES_PER_BYTE * bytes.len() + BYTES_BESIDES,
        "{most} bytes to load {}",
        bytes.len()
    );
    match loaded {
        Err(_) => return Outcome::Refused,
        Ok(Ok(filter)) => use_filter(filter, &bytes),
        Ok(Err(frozen)) => {
            frozen.check().unwrap_or_else(|broken| panic!("{frozen:?}: {broken}"));
            assert!(frozen.to_bytes() == bytes, "{frozen:?} is saved otherwise than loaded");
            let found = frozen.contains_many(&(0..KEYS).collect::<Vec<_>>());
            assert!((0..KEYS).zip(found).all(|(key, found)| frozen.contains(key) == found));
        }
    }
    Outcome::Loaded
}

/// What has loaded keeps a filter's promises from now on.
fn use_filter(mut filter: Filter, bytes: &[u8]) {
    filter.check().unwrap_or_else(|broken| panic!("{filter:?}: {broken}"));
    let again = filter.to_bytes();
    let differs = again.iter().zip(bytes).position(|(a, b)| a != b);
    assert!(again == bytes, "{filter:?} is saved otherwise than loaded, at {differs:?}");
    for key in 5000..5200u64 {
        if filter.contains(key) {
            filter.adapt(key);
        }
        filter.insert(key);
        assert!(filter.contains(key), "{filter:?}: {key}");
    }
    assert!((5000..5200).all(|key| filter.contains(key)), "{filter:?}");
    filter.check().unwrap_or_else(|broken| panic!("{filter:?}: {broken}"));
}
