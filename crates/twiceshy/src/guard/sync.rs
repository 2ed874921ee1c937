//! The guard's locks and atomics, which a model checker can replace.
//!
//! With `--cfg loom`, `tests/guard_loom.rs` runs the guard under every interleaving with at most
//! three preemptions. Counters and prefetch hints affect no answer and use the standard library.

#[cfg(not(loom))]
pub(super) use std::{
    sync::{
        Mutex, MutexGuard, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::yield_now,
};

#[cfg(loom)]
pub(super) use loom::{
    sync::{
        Mutex, MutexGuard, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::yield_now,
};
