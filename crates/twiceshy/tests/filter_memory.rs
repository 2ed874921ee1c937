//! `Stats::bytes` of a filter against an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use twiceshy::filter::Stats;
use twiceshy::{Filter, Frozen};

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

/// Exactly what dropping the boxed filter frees.
fn weigh<T>(filter: T, said: Stats, when: &str) {
    let filter = Box::new(filter);
    let before = IN_USE.load(Ordering::Relaxed);
    drop(filter);
    let weighs = before - IN_USE.load(Ordering::Relaxed);
    assert_eq!(said.bytes, weighs, "{when}: {said:?}");
    assert!(said.fingerprint_bytes + said.exception_bytes <= said.bytes, "{said:?}");
}

fn weigh_all(filter: &Filter, when: &str) {
    let copy = filter.clone();
    let stats = copy.stats();
    weigh(copy, stats, when);
    let frozen = filter.clone().freeze();
    let stats = frozen.stats();
    weigh(frozen, stats, &format!("{when}, frozen"));
    let loaded = Filter::from_bytes(&filter.to_bytes()).expect("its own bytes");
    let stats = loaded.stats();
    weigh(loaded, stats, &format!("{when}, loaded"));
    let loaded = Frozen::from_bytes(&filter.clone().freeze().to_bytes()).expect("its own bytes");
    let stats = loaded.stats();
    weigh(loaded, stats, &format!("{when}, frozen and loaded"));
}

/// The only test here: the counts are the whole process's.
#[test]
fn stats_have_every_byte() {
    for (rate, exceptions) in [(0.02, 0.0), (0.02, 0.25), (0.002, 0.5), (0.004, 30.0)] {
        let builder = Filter::builder().capacity(1000).rate(rate).exceptions(exceptions);
        let mut filter = builder.build().expect("good numbers");
        weigh_all(&filter, "empty");
        for (number, when) in [(1000, "full"), (1001, "of two"), (9000, "grown")] {
            filter.extend(0..number);
            weigh_all(&filter, when);
            for key in 1 << 32..(1 << 32) + 20_000u64 {
                filter.adapt(key);
            }
            weigh_all(&filter, "adapted");
        }
        let stats = filter.stats();
        weigh(filter, stats, "not a copy");
    }
    let filter: Filter = (0..1_000_000).collect();
    let stats = filter.stats();
    assert!(stats.bits_per_key() < 13.05, "{stats:?}");
    weigh(filter, stats, "the default of a million keys");
    // What `Builder::bits_per_key` does not count.
    let smallest = Filter::new(1).expect("a capacity").stats();
    assert!((300..700).contains(&smallest.bytes), "{smallest:?}");
}
