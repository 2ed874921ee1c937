//! The examples run.

#[path = "../examples/blocklist.rs"]
mod blocklist;
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
