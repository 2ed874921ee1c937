//! The examples run, and their assertions hold.

#[cfg(feature = "redb")]
#[path = "../examples/async_handler.rs"]
mod async_handler;
#[path = "../examples/blocklist.rs"]
mod blocklist;
#[cfg(feature = "redb")]
#[path = "../examples/embedded.rs"]
mod embedded;
#[cfg(feature = "redb")]
#[path = "../examples/sidecar.rs"]
mod sidecar;
#[path = "../examples/threads.rs"]
mod threads;

#[test]
fn a_blocklist_in_a_file() {
    blocklist::main().expect("it runs");
}

#[test]
fn threads_share_a_filter() {
    threads::main().expect("it runs");
}

#[cfg(feature = "redb")]
#[test]
fn the_sidecar_example_runs() {
    sidecar::main().expect("it runs");
}

#[cfg(feature = "redb")]
#[test]
fn the_embedded_example_runs() {
    embedded::main().expect("it runs");
}

#[cfg(feature = "redb")]
#[test]
fn the_async_handler_example_runs() {
    async_handler::main().expect("it runs");
}
