//! Processor time of the running thread: who else is on the machine does not count.

/// Nanoseconds that this thread has run; `None` where the system does not say.
#[cfg(target_os = "linux")]
pub fn on_processor() -> Option<u64> {
    // The count is kept when the scheduler is asked, or else some milliseconds late.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok()
}

/// Nanoseconds that this thread has run; `None` where the system does not say.
#[cfg(not(target_os = "linux"))]
pub fn on_processor() -> Option<u64> {
    None
}
