//! The examples with stores run, and their assertions hold.

#[path = "../examples/async_handler.rs"]
mod async_handler;
#[path = "../examples/embedded.rs"]
mod embedded;
#[path = "../examples/sidecar.rs"]
mod sidecar;

#[test]
fn the_sidecar_example_runs() {
    sidecar::main().expect("it runs");
}

#[test]
fn the_embedded_example_runs() {
    embedded::main().expect("it runs");
}

#[test]
fn the_async_handler_example_runs() {
    async_handler::main().expect("it runs");
}
