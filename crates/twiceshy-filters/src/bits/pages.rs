//! Memory of large tables: zeros that the system gives untouched, and huge pages.
//!
//! A query touches two random places, and out of cache most of them miss the TLB as well: with
//! huge pages, queries and insertions of 3*10^7 keys took 10 to 30 % less time. On other systems
//! the twin does nothing, which is correct: advice affects only speed.

use alloc::alloc::{alloc_zeroed, handle_alloc_error};
use alloc::vec;
use alloc::vec::Vec;
use core::alloc::Layout;

/// A vector of `len` times `value`, from which every large table is made. Zeroed memory comes
/// from the system untouched, so the advice is given before the first write maps a page.
pub(crate) fn filled<T: Clone>(value: T, len: usize) -> Vec<T> {
    let mut items = vec![value; len];
    prefer_huge(&mut items);
    items
}

/// A type of which zeros are a value.
///
/// # Safety
/// All bytes of a value may be zero.
pub(crate) unsafe trait Zero: Copy {}

/// [`filled`] with the value whose bytes are zero: large memory comes from the system untouched,
/// in microseconds.
pub(crate) fn zeroed<T: Zero>(len: usize) -> Vec<T> {
    let layout = Layout::array::<T>(len).expect("tables are smaller than the address space");
    if layout.size() == 0 {
        return Vec::new();
    }
    // SAFETY: the layout has a size.
    let start = unsafe { alloc_zeroed(layout) };
    if start.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the global allocator gave this memory for `len` items, all of them zeros, which are
    // values of `T`.
    let mut items = unsafe { Vec::from_raw_parts(start.cast(), len, len) };
    prefer_huge(&mut items);
    items
}

/// A huge page; smaller memory has no room for a whole one.
#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
const HUGE: usize = 2 << 20;

/// Requests huge pages where whole ones fit into the memory of `items`. Call it before the first
/// write: then no small pages are mapped.
#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
fn prefer_huge<T>(items: &mut [T]) {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int;
    }
    /// Of Linux, the same on every architecture.
    const MADV_HUGEPAGE: c_int = 14;

    let start = items.as_mut_ptr().cast::<u8>();
    let before = start.align_offset(HUGE);
    let len = size_of_val(items).saturating_sub(before) / HUGE * HUGE;
    if len > 0 {
        // SAFETY: the range is inside `items` and starts and ends with a page.
        // This advice changes no byte and no access right, whether it is taken
        // or refused, so there is no answer to look at.
        unsafe { madvise(start.wrapping_add(before).cast(), len, MADV_HUGEPAGE) };
    }
}

/// Does nothing: this system has no such advice.
#[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
fn prefer_huge<T>(_items: &mut [T]) {}

/// Gives the memory of unused items back to the system, as far as it is whole pages: a large
/// vector that is freed in pieces first stops nobody for a millisecond. Reads of it are still
/// those of uninitialised memory.
#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
pub(crate) fn release<T>(unused: &mut [core::mem::MaybeUninit<T>]) {
    use core::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int;
    }
    /// Of Linux, the same on every architecture.
    const MADV_DONTNEED: c_int = 4;
    /// The largest page that Linux uses without being asked: its multiples are pages as well.
    const PAGE: usize = 64 << 10;

    let start = unused.as_mut_ptr().cast::<u8>();
    let before = start.align_offset(PAGE);
    let len = size_of_val(unused).saturating_sub(before) / PAGE * PAGE;
    if len > 0 {
        // SAFETY: the range is inside `unused`, starts and ends with a page, and holds nothing:
        // that it may read as zeros from now on changes no value.
        unsafe { madvise(start.wrapping_add(before).cast(), len, MADV_DONTNEED) };
    }
}

/// Does nothing: this system has no such advice.
#[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
pub(crate) fn release<T>(_unused: &mut [core::mem::MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_memory_can_be_used_again_and_others_keep_theirs() {
        for len in [0, 1, 1000, 100_000, 300_000] {
            let mut words: Vec<u64> = Vec::with_capacity(len);
            words.extend(0..len as u64);
            words.truncate(len / 3);
            release(words.spare_capacity_mut());
            assert!((0..).zip(&words).all(|(number, word)| number == *word), "{len} words");
            words.extend(len as u64 / 3..len as u64);
            assert!((0..).zip(&words).all(|(number, word)| number == *word), "{len} words");
        }
    }

    #[test]
    fn zeroed_memory_is_filled_with_zeros() {
        #[derive(Clone, Copy, PartialEq, Debug)]
        #[repr(align(64))]
        struct Line([u8; 64]);
        // SAFETY: bytes may be zero.
        unsafe impl Zero for Line {}
        for len in [0, 1, 7, 1000, 100_000] {
            let mut lines = zeroed::<Line>(len);
            assert_eq!(lines, filled(Line([0; 64]), len));
            lines.iter_mut().for_each(|line| line.0[63] = 1);
            lines.push(Line([2; 64]));
            assert!(lines[..len].iter().all(|line| line.0[63] == 1), "{len} lines");
        }
    }

    #[test]
    fn advice_changes_nothing() {
        for len in [0, 1, 100_000, (2 << 20) - 1, 2 << 20, 5_000_000, 9 << 20] {
            let mut bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            prefer_huge(&mut bytes);
            assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == at as u8), "{len} bytes");
            let pairs = filled([0u64, 7], len / 16);
            assert!(pairs.len() == len / 16 && pairs.iter().all(|pair| *pair == [0, 7]), "{len}");
        }
    }
}
