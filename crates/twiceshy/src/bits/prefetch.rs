//! The leaf of intrinsics: asking for memory ahead of its use.
//!
//! [`prefetch`] is the only function here; on other targets its twin does
//! nothing, which is always right, because a prefetch has no effect but time.

/// Asks for the cache line where `items[at]` starts.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) fn prefetch<T>(items: &[T], at: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let line = items.as_ptr().wrapping_add(at);
    // SAFETY: a prefetch never faults and reads nothing the program can see,
    // whatever the address; SSE is part of every x86-64 target.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line.cast()) }
}

/// Does nothing: this target has no stable prefetch.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline]
pub(crate) fn prefetch<T>(_items: &[T], _at: usize) {}
