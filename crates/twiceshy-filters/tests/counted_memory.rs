//! `Stats::bits` against an allocator that counts, in storms: keys that come and go, false
//! positives without end, and digests that pile up.

mod harness;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use harness::{Random, parsed};
use twiceshy_filters::broom::{Broom, FaithfulBroom};
use twiceshy_filters::cuckoo::{
    Cuckooing, Cyclic, Plain, PlainFull, Simplified, Swapping, Varying,
};
use twiceshy_filters::internals::Build;
use twiceshy_filters::quotient::{Extending, Rsqf, Telescoping, Uncompressed};
use twiceshy_filters::remote::{MemoryIndex, MemoryMirror, MemorySet};
use twiceshy_filters::{Digest, DigestFilter, Spec};

/// The system's allocator, with the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps what `alloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller has it from `alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Which digests come.
#[derive(Clone, Copy, Debug)]
enum Digests {
    Random,
    /// All on one quotient, in one bin, or in a few.
    Piled,
    /// With long common prefixes, in both words.
    Prefixes,
}

impl Digests {
    fn draw(self, random: &mut Random) -> Digest {
        let words = [random.next(), random.next()];
        Digest::new(match self {
            Digests::Random => words,
            Digests::Piled => [words[0] >> 48, words[1]],
            Digests::Prefixes => [words[0] >> (words[1] % 64), words[1] & words[0]],
        })
    }
}

/// A filter weighs what dropping it frees, and `Stats::bits` has to say so: exactly, but for
/// the broom filter. Its yard counts what an allocator adds to each piece, up to a
/// quarter, and the tree of its ghosts is counted as it is on average: a 20th and 512 bytes.
fn weigh<F: DigestFilter>(filter: F, when: &str) {
    let (said, spec) = (filter.stats().bits / 8, filter.description());
    let before = IN_USE.load(Ordering::Relaxed);
    drop(filter);
    let weighs = before - IN_USE.load(Ordering::Relaxed);
    let broom = spec.starts_with("broom:");
    let (least, most) = if broom {
        (weighs - weighs / 20 - 512.min(weighs / 2), weighs + weighs / 4 + 512)
    } else {
        (weighs, weighs)
    };
    assert!((least..=most).contains(&said), "{spec} {when}: {weighs} bytes, and it says {said}");
}

fn storm<F: Build + Clone>(
    new: impl Fn(&F::Params, usize) -> twiceshy_filters::Result<F>,
    text: &str,
    remote: &mut F::Remote,
    digests: Digests,
) {
    let mut random = Random(20);
    let capacity = 500;
    let mut filter = new(&parsed(text), capacity).expect("room");
    let mut keys = Vec::new();
    for round in 0..4 {
        let when = format!("{digests:?} {round}");
        for _ in 0..capacity {
            let key = digests.draw(&mut random);
            if keys.len() < 4 * capacity && filter.insert(key, remote).is_ok() {
                keys.push(key);
            }
        }
        weigh(filter.clone(), &format!("{when}, a copy"));
        for _ in 0..2 * capacity {
            let query = digests.draw(&mut random);
            filter.adapt(query, remote).expect("in memory");
        }
        for _ in 0..capacity / 2 * (round % 3) {
            if keys.is_empty() {
                break;
            }
            let key = keys.swap_remove(random.next() as usize % keys.len());
            filter.remove(key, remote).expect("in memory");
        }
        let copy = filter.clone();
        weigh(std::mem::replace(&mut filter, copy), &when);
    }
}

/// One test alone in this file: others would allocate meanwhile.
#[test]
fn stats_count_the_memory_that_a_filter_holds() {
    for digests in [Digests::Random, Digests::Piled, Digests::Prefixes] {
        for full in ["error", "grow"] {
            let of = |text: &str| format!("{text},full={full}");
            let set = MemorySet::new;
            storm(Plain::new, &of("plain:f=8"), &mut set(), digests);
            storm(Simplified::new, &of("simplified:f=6"), &mut set(), digests);
            storm(Simplified::new, &of("simplified:f=12"), &mut set(), digests);
            storm(Rsqf::new, &of("rsqf:f=8"), &mut set(), digests);
            storm(Telescoping::new, &of("telescoping:f=8,spent=reseed"), &mut set(), digests);
            storm(Telescoping::new, &of("telescoping:f=2"), &mut set(), digests);
            storm(Uncompressed::new, &of("uncompressed:f=4"), &mut set(), digests);
            storm(Extending::new, &of("extension:f=3"), &mut set(), digests);
            storm(Broom::new, &of("broom:f=8"), &mut set(), digests);
            storm(Broom::new, &of("broom:f=2,sweep=1"), &mut set(), digests);
            storm(Broom::new, &of("broom:f=16"), &mut set(), digests);
            let faithful = of("broom:f=3,form=faithful");
            storm(FaithfulBroom::new, &faithful, &mut MemoryIndex::new(), digests);
            // These are one table, whatever comes.
            if !matches!(digests, Digests::Random) || full != "grow" {
                continue;
            }
            let mirror = |text: &str| {
                let spec: Spec = text.parse().expect("a filter");
                MemoryMirror::new(spec.build(500).expect("room").stats().cells)
            };
            for text in ["plain-full:f=8", "plain-full:f=8,k=2,b=4"].map(of) {
                storm(PlainFull::new, &text, &mut mirror(&text), digests);
            }
            let (cyclic, varying) = (of("cyclic:f=6"), of("varying:f=6"));
            storm(Cyclic::new, &cyclic, &mut mirror(&cyclic), digests);
            storm(Varying::new, &varying, &mut mirror(&varying), digests);
            let (swapping, cuckooing) = (of("swapping:f=5"), of("cuckooing:f=5"));
            storm(Swapping::new, &swapping, &mut mirror(&swapping), digests);
            storm(Cuckooing::new, &cuckooing, &mut mirror(&cuckooing), digests);
        }
    }
}
