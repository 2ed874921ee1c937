//! A store in a directory, behind a filter: the disk is read only for keys that are there.

use twiceshy::store::{Durability, Options, Redb};

/// Stores, looks up, removes, backs up and opens again.
pub fn main() -> twiceshy::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("users");

    // The default is safe against a loss of power. This one survives the process, and is faster.
    let options = Options::default().capacity(100_000).durability(Durability::Process);
    let store = options.open::<Redb>(&path)?;
    store.put("ada", "Ada Lovelace")?;
    let records: Vec<_> = (0..1000).map(|n| (format!("user {n}"), format!("User {n}"))).collect();
    let new = store.put_many(&records)?;
    assert_eq!(new, 1000, "one write for all of them");

    // Exact answers. Most misses are answered from memory; the filter adapts to the others.
    assert_eq!(store.get("ada")?.as_deref(), Some(&b"Ada Lovelace"[..]));
    assert!(store.exists("user 7")?);
    for number in 0..10_000 {
        assert!(!store.exists(format!("nobody {number}"))?);
    }
    assert!(store.remove("ada")?);

    let stats = store.stats();
    println!(
        "{} keys in {} bytes of filters: {} of {} lookups read the store",
        stats.keys,
        stats.bytes,
        stats.queries - stats.reads_avoided,
        stats.queries
    );

    // A copy while the store is in use.
    let copied = store.backup(directory.path().join("backup"))?;
    assert_eq!(copied, 1000);

    // Closing writes a snapshot of the filters; opening then takes milliseconds.
    store.close()?;
    let store = options.open::<Redb>(&path)?;
    println!("opened again: {:?}", store.opened());
    assert_eq!(store.get("ada")?, None);
    Ok(())
}
