//! A blocklist in a file: built once, shipped to clients, and queried there.
//!
//! `cargo run --example blocklist`

use std::error::Error;
use std::fs;

use twiceshy::{Filter, Frozen};

/// Builds the list, ships it, and asks it.
///
/// # Errors
/// A directory that cannot be written to.
pub fn main() -> Result<(), Box<dyn Error>> {
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("blocked.twiceshy");

    // The publisher has the list.
    let hosts: Vec<String> = (0..10_000).map(|number| format!("ads{number}.example")).collect();
    let mut filter = Filter::builder().capacity(hosts.len()).rate(0.001).build()?;
    filter.extend(&hosts);

    // Some hosts must not be blocked by mistake: ask for them, and say what was wrong.
    let popular: Vec<String> = (0..5_000).map(|number| format!("news{number}.example")).collect();
    let fixed = popular.iter().filter(|host| filter.adapt(host)).count();
    filter.freeze().save(&path)?;
    let list_bytes: usize = hosts.iter().map(|host| host.len() + 1).sum();
    println!(
        "{} hosts of {list_bytes} bytes in a file of {}",
        hosts.len(),
        fs::metadata(&path)?.len()
    );
    println!("{fixed} of {} popular hosts would have been blocked by mistake", popular.len());

    // A client has the file.
    let blocked = Frozen::load(&path)?;
    assert!(blocked.contains("ads7.example"));
    assert!(hosts.iter().all(|host| blocked.contains(host)));
    assert!(!popular.iter().any(|host| blocked.contains(host)));
    Ok(())
}
