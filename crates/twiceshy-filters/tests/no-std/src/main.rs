//! The filters without std: this program links none, so a dependency that needs it does not
//! build. It has its own allocator and panic handler, and exits with 0 if a filter works.
#![no_std]
#![no_main]

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::{c_int, c_void};

use twiceshy_filters::{KeyHasher, Spec};

#[link(name = "c")]
#[link(name = "gcc_s")]
unsafe extern "C" {
    fn aligned_alloc(align: usize, size: usize) -> *mut c_void;
    fn free(pointer: *mut c_void);
    fn abort() -> !;
}

struct C;

// SAFETY: C's allocator, asked for whole multiples of the alignment as it demands.
unsafe impl GlobalAlloc for C {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let layout = layout.align_to(16).map_or(layout, |layout| layout.pad_to_align());
        // SAFETY: the alignment is a power of two and divides the size.
        unsafe { aligned_alloc(layout.align(), layout.size()).cast() }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, _: Layout) {
        // SAFETY: `alloc` gave the pointer.
        unsafe { free(pointer.cast()) }
    }
}

#[global_allocator]
static ALLOCATOR: C = C;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: it takes nothing.
    unsafe { abort() }
}

/// `core` and `alloc` come compiled for unwinding and name this; nothing unwinds here.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[unsafe(no_mangle)]
extern "C" fn main() -> c_int {
    let hasher = KeyHasher::keyed([7; 16]);
    let keys = || (0..1000_u32).map(|key| hasher.digest(key.to_le_bytes()));
    for spec in ["plain:f=12", "cuckooing:f=12", "telescoping:f=8", "broom:f=8"] {
        let spec: Spec = spec.parse().expect("a good description");
        let mut filter = spec.build(1000).expect("a small filter");
        keys().for_each(|key| {
            filter.insert(key).expect("there is room");
        });
        assert!(keys().all(|key| filter.contains(key)));
        for key in 1000..20_000_u32 {
            filter.adapt(hasher.digest(key.to_le_bytes())).expect("the remote is in memory");
        }
        filter.check().expect("every invariant holds");
    }
    0
}
