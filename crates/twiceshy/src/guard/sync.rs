//! The locks and atomics that the guard's protocol is made of, so that a model checker
//! can take their place: with `--cfg loom`, `tests/guard_loom.rs` runs this very code
//! under every interleaving with at most three preemptions. Counters and prefetch hints,
//! which nothing depends on, stay with the standard library.

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
