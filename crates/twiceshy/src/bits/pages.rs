//! The leaf of memory advice: huge pages for large tables.
//!
//! A query touches two random places. Out of cache, the address of a 4 KiB page
//! is mostly not at hand either: with huge pages, queries and insertions of
//! 3*10^7 keys took 10 to 30 % less time. On other systems the twin does
//! nothing, which is always right: advice has no effect but time.

/// A huge page; smaller memory has no room for a whole one.
#[cfg(all(target_os = "linux", not(miri)))]
const HUGE: usize = 2 << 20;

/// Asks for huge pages where whole ones fit into `bytes`. Worth it before the
/// bytes are first written: then they never have small ones.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn prefer_huge(bytes: &mut [u8]) {
    use std::ffi::{c_int, c_void};

    unsafe extern "C" {
        fn madvise(start: *mut c_void, len: usize, advice: c_int) -> c_int;
    }
    /// Of Linux, the same on every architecture.
    const MADV_HUGEPAGE: c_int = 14;

    let before = bytes.as_ptr().align_offset(HUGE);
    let Some(aligned) = bytes.get_mut(before..) else { return };
    let len = aligned.len() / HUGE * HUGE;
    if len > 0 {
        // SAFETY: the range is inside `bytes` and starts and ends with a page.
        // This advice changes no byte and no access right, whether it is taken
        // or refused, so there is no answer to look at.
        unsafe { madvise(aligned.as_mut_ptr().cast(), len, MADV_HUGEPAGE) };
    }
}

/// Does nothing: this system has no such advice.
#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn prefer_huge(_bytes: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_changes_nothing() {
        for len in [0, 1, 100_000, (2 << 20) - 1, 2 << 20, 5_000_000, 9 << 20] {
            let mut bytes: Vec<u8> = (0..len).map(|at| at as u8).collect();
            prefer_huge(&mut bytes);
            assert!(bytes.iter().enumerate().all(|(at, &byte)| byte == at as u8), "{len} bytes");
            let mut zeros = vec![0; len];
            prefer_huge(&mut zeros);
            assert!(zeros.iter().all(|&byte| byte == 0), "{len} bytes");
        }
    }
}
