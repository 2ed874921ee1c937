//! What a guard takes while it grows, by an allocator that counts: at no moment more
//! than its filters before and its filters after, together.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use twiceshy::Guard;
use twiceshy::guard::{GuardOptions, MemoryStore};
use twiceshy_filters::KeyHasher;

/// As large as people use them: beside a filter of 2 bits a key any list is large.
const SPECS: [&str; 8] = [
    "line",
    "telescoping:f=8,spent=reseed",
    "uncompressed:f=8",
    "extension:f=8",
    "broom:f=8",
    "rsqf:f=8",
    "plain:f=12",
    "simplified:f=12",
];

/// The system's allocator, with the bytes in use and the most there were.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
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

#[test]
fn growing_takes_no_more_than_old_and_new_filters() {
    for text in SPECS {
        let spec = text.parse().expect("a spec");
        let options = GuardOptions::default().spec(spec).capacity(64);
        let guard =
            Guard::open(MemoryStore::default(), KeyHasher::fast(1), &options).expect("no keys");
        let (mut seen, mut growths) = (0, 0);
        for number in 0..30_000_u32 {
            let before = IN_USE.load(Ordering::Relaxed);
            MOST.store(before, Ordering::Relaxed);
            guard.put(number.to_le_bytes(), []).expect("in memory");
            let stats = guard.stats();
            let grew = stats.growths > growths;
            growths = stats.growths;
            // Beside few keys, what comes with a record is more than they are.
            if grew && number >= 10_000 {
                let taken = MOST.load(Ordering::Relaxed) - before;
                assert!(
                    taken as u64 <= stats.bytes,
                    "{text}: {taken} bytes for filters of {} with {number} keys",
                    stats.bytes
                );
                seen += 1;
            }
        }
        assert!(seen >= 64, "{text}: {seen}");
    }
}
