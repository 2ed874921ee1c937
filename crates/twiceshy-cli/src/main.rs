//! The twiceshy command line.
fn main() {}
