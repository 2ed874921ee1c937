//! The server's allocator, so that `used_memory`, `maxmemory` and `MEMORY STATS` count our filters.
//!
//! It aligns to 16 bytes and ignores any other wish. Our filters have lines of 64 bytes, so larger
//! alignments are made by hand:
//!
//! ```text
//! server's  |           aligned, what the caller gets
//! | padding | address of the server's | layout.size() bytes |
//! ```
//!
//! Before the module is loaded, in unit tests, it is the system's allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::mem::size_of;

use redis_module::raw;

/// What the server aligns everything to.
const SERVER_ALIGNMENT: usize = 16;

pub struct ServerAllocator;

/// Bytes to ask the server for, and bytes in front that may be padding; `None` if the server's own
/// alignment is enough.
fn padded(layout: Layout) -> Option<(usize, usize)> {
    let padding = layout.align();
    (padding > SERVER_ALIGNMENT).then(|| (layout.size() + padding, padding))
}

/// The aligned address inside memory that starts at `start`, with the start noted in front of it.
///
/// # Safety
/// There are `padding` bytes more than the caller needs, `padding` is a power of two of at least
/// 32, and `start` is aligned to 16 bytes, or null.
unsafe fn aligned(start: *mut u8, padding: usize) -> *mut u8 {
    if start.is_null() {
        return start;
    }
    // At least 16 bytes on: `start` is aligned to 16.
    let address = start.wrapping_add(padding - start.addr() % padding);
    // SAFETY: between `start` and `address` there are 16 bytes or more, all of them ours.
    unsafe { address.wrapping_sub(size_of::<usize>()).cast::<*mut u8>().write(start) };
    address
}

// SAFETY: memory comes from the server's allocator, which is thread-safe, or from the system's;
// what one of them gave goes back to the same one, because the server's functions are set once,
// when the module is loaded, before the first allocation. `aligned` keeps within what was given.
unsafe impl GlobalAlloc for ServerAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the functions are plain pointers that are set once; the layout is the caller's.
        unsafe {
            let Some(alloc) = raw::RedisModule_Alloc else { return System.alloc(layout) };
            match padded(layout) {
                None => alloc(layout.size()).cast(),
                Some((size, padding)) => aligned(alloc(size).cast(), padding),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe {
            let Some(calloc) = raw::RedisModule_Calloc else { return System.alloc_zeroed(layout) };
            match padded(layout) {
                None => calloc(1, layout.size()).cast(),
                Some((size, padding)) => aligned(calloc(1, size).cast(), padding),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer is one that `alloc` returned for this layout, so an aligned one has
        // the server's in front of it.
        unsafe {
            let Some(free) = raw::RedisModule_Free else { return System.dealloc(pointer, layout) };
            match padded(layout) {
                None => free(pointer.cast()),
                Some(_) => {
                    let start = pointer.sub(size_of::<usize>()).cast::<*mut u8>().read();
                    free(start.cast());
                }
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above; the new layout has the old one's alignment and a size that the caller
        // has checked.
        unsafe {
            let Some(realloc) = raw::RedisModule_Realloc else {
                return System.realloc(pointer, layout, size);
            };
            if padded(layout).is_none() {
                return realloc(pointer.cast(), size).cast();
            }
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                new.copy_from_nonoverlapping(pointer, size.min(layout.size()));
                self.dealloc(pointer, layout);
            }
            new
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_address_has_room_and_remembers_the_start() {
        let mut memory = [0u128; 64];
        let base = memory.as_mut_ptr().cast::<u8>();
        for padding in [32, 64, 128, 256] {
            for offset in (0..256).step_by(SERVER_ALIGNMENT) {
                let start = base.wrapping_add(offset);
                // SAFETY: 1024 bytes, of which 512 at most are used.
                let address = unsafe { aligned(start, padding) };
                assert_eq!(address.addr() % padding, 0);
                assert!((16..=padding).contains(&(address.addr() - start.addr())));
                // SAFETY: just written.
                let noted = unsafe { address.sub(8).cast::<*mut u8>().read() };
                assert_eq!(noted, start);
            }
        }
        // SAFETY: nothing is done with null.
        assert!(unsafe { aligned(std::ptr::null_mut(), 64) }.is_null());
        let layout = |size, align| Layout::from_size_align(size, align).expect("a small layout");
        assert_eq!(padded(layout(100, 16)), None);
        assert_eq!(padded(layout(100, 64)), Some((164, 64)));
    }
}
