//! Prefetch intrinsics.
//!
//! On other targets the twins do nothing, which is correct: a prefetch affects only speed.

/// Prefetches the cache line where `items[at]` starts.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub fn prefetch<T>(items: &[T], at: usize) {
    prefetch_line(items.as_ptr().wrapping_add(at).cast());
}

/// Prefetches the cache line of an address, valid or not.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub fn prefetch_address(address: usize) {
    prefetch_line(core::ptr::without_provenance(address));
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn prefetch_line(line: *const i8) {
    use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch never faults and reads nothing the program can see,
    // whatever the address; SSE is part of every x86-64 target.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line) }
}

/// Does nothing: this target has no stable prefetch.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
pub fn prefetch<T>(_items: &[T], _at: usize) {}

/// Does nothing, as above.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
pub fn prefetch_address(_address: usize) {}
