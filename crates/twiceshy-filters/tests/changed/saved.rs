//! A saved filter whose bytes were changed, with checksums that are right.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use twiceshy_filters::{AnyFilter, Digest, Spec};

use crate::harness::{Random, SPECS};

use super::allocations::measured;
use super::mutation::{Choices, block, mutate, push_block};

/// A load takes this many bytes for each of the file, and these besides. The most are for
/// an empty cell of a mirror, one bit on disk and a digest of 16 bytes in memory: 128, and
/// a little for what is made beside it while it is checked.
const BYTES_PER_BYTE: usize = 160;
const BYTES_BESIDES: usize = 1 << 18;

/// A file of filter and remote, taken apart.
#[derive(Clone)]
struct File {
    head: Vec<u8>,
    filter: Vec<u8>,
    remote: Vec<u8>,
}

impl File {
    fn of(filter: &AnyFilter) -> Self {
        let bytes = filter.save();
        let start = 8 + 4 + 4 + "filter and remote".len();
        let (filter, end) = block(&bytes, start);
        let (remote, _) = block(&bytes, end);
        File { head: bytes[..start].into(), filter: filter.into(), remote: remote.into() }
    }

    /// The bytes, every length and checksum right.
    fn sealed(mut self) -> Vec<u8> {
        let mut bytes = self.head;
        for part in [&mut self.filter, &mut self.remote] {
            twiceshy_filters::format::seal(part);
            push_block(&mut bytes, part);
        }
        bytes.extend([0; 8]);
        twiceshy_filters::format::seal(&mut bytes);
        bytes
    }

    /// What the remote says that it holds, read by the letter of `docs/format.md`.
    fn keys(&self) -> Vec<Digest> {
        let number = |at: usize| {
            u64::from_le_bytes(self.remote[at..at + 8].try_into().expect("eight bytes"))
        };
        let kind_end = 16 + usize::from(self.remote[12]);
        let (first, step) = match &self.remote[16..kind_end] {
            b"set" => (kind_end + 8, 16),
            b"mirror" => (block(&self.remote, kind_end + 8).1, 16),
            // The digest is the last of function, address and digest.
            b"index" => (kind_end + 8 + 24, 40),
            kind => panic!("a remote of kind {:?}", kind.escape_ascii().to_string()),
        };
        let last = self.remote.len() - 8;
        (first..last).step_by(step).map(|at| Digest::new([number(at), number(at + 8)])).collect()
    }
}

/// A filter that has seen everything: insertions, removals, false positives.
fn filter(which: usize, seed: u64) -> AnyFilter {
    let mut random = Random(seed);
    let spec = SPECS[which].parse::<Spec>().expect("the list has good specs");
    // Of one block, or of some.
    let capacity = [20, 150][usize::from(seed % 2 == 1)];
    let mut filter = spec.build(capacity).expect("a small capacity");
    let digests = random.digests(capacity + 10);
    for &digest in &digests {
        // Past the capacity some are handed back.
        let _ = filter.insert(digest);
    }
    for &digest in &digests[..10] {
        filter.remove(digest).expect("in memory");
    }
    for digest in random.digests(100) {
        filter.adapt(digest).expect("in memory");
    }
    filter
}

/// The file of a filter, made once.
fn file(which: usize, seed: u64) -> File {
    static MADE: Mutex<Option<HashMap<(usize, u64), File>>> = Mutex::new(None);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let made = made.get_or_insert_default().entry((which, seed));
    made.or_insert_with(|| File::of(&filter(which, seed))).clone()
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Loaded,
}

/// Interprets bytes as a filter and changes to its file, and loads that: it is refused, or
/// denies no key of its remote and goes on working.
///
/// # Panics
/// When an invariant is broken.
pub fn load_changed(bytes: &[u8]) -> Outcome {
    let choices = &mut Choices::new(bytes);
    let which = usize::from(choices.byte()) % SPECS.len();
    let mut file = file(which, u64::from(choices.byte() % 4));
    if choices.byte().is_multiple_of(16) {
        // Each is whole, and they do not belong together.
        file.remote = self::file(which, 9).remote;
    }
    while !choices.is_empty() {
        match choices.byte() % 8 {
            0..5 => mutate_sealed(&mut file.filter, choices),
            5..7 => mutate_sealed(&mut file.remote, choices),
            _ => mutate(&mut file.head, choices),
        }
    }
    let bytes = file.clone().sealed();
    let (loaded, most) = measured(|| AnyFilter::load(&bytes));
    assert!(
        most <= BYTES_PER_BYTE * bytes.len() + BYTES_BESIDES,
        "{}: {most} bytes to load {}",
        SPECS[which],
        bytes.len()
    );
    let Ok(filter) = loaded else { return Outcome::Refused };
    use_loaded(filter, &file.keys(), &bytes);
    Outcome::Loaded
}

/// Changes a file's bytes before its checksum.
fn mutate_sealed(bytes: &mut Vec<u8>, choices: &mut Choices<'_>) {
    bytes.truncate(bytes.len().saturating_sub(8));
    mutate(bytes, choices);
    bytes.extend([0; 8]);
}

/// What has loaded keeps the filter's promises.
fn use_loaded(mut filter: AnyFilter, keys: &[Digest], bytes: &[u8]) {
    let denied = keys.iter().filter(|&&key| !filter.contains(key)).count();
    assert_eq!(denied, 0, "{filter:?} denies keys of its remote");
    assert_eq!(filter.stats().len, keys.len(), "{filter:?}");
    let again = filter.save();
    let differs = again.iter().zip(bytes).position(|(a, b)| a != b);
    assert!(again == bytes, "{filter:?} is saved otherwise than loaded, at {differs:?}");
    filter.check().unwrap_or_else(|broken| panic!("{filter:?}: {broken}"));
    for digest in Random(1).digests(30) {
        if filter.contains(digest) {
            filter.adapt(digest).expect("in memory");
        }
        if matches!(filter.insert(digest), Ok(true)) {
            assert!(filter.contains(digest), "{filter:?}: {digest:?}");
        }
    }
    let denied = keys.iter().filter(|&&key| !filter.contains(key)).count();
    assert_eq!(denied, 0, "{filter:?} denies keys after changes");
    for &key in keys {
        assert!(filter.remove(key).expect("in memory"), "{filter:?}: {key:?} was stored");
    }
    filter.check().unwrap_or_else(|broken| panic!("{filter:?}: {broken}"));
}
