//! A sidecar in front of your own database: misses are answered from memory.
//!
//! The database stays as it is. The sidecar keeps the digests of its keys on a local disk, about
//! 20 bytes per key, and a filter in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use twiceshy::guard::Lookup;
use twiceshy::store::{Options, Redb, SidecarStore};

/// Stands for a database across the network.
#[derive(Default)]
struct Users {
    rows: BTreeMap<String, String>,
    queries: AtomicU64,
}

impl Lookup for Users {
    type Value = String;
    type Error = Infallible;

    fn lookup(&self, key: &[u8]) -> Result<Option<String>, Infallible> {
        self.queries.fetch_add(1, Ordering::Relaxed);
        Ok(std::str::from_utf8(key).ok().and_then(|name| self.rows.get(name)).cloned())
    }
}

/// Adds a user: first to the sidecar, then to the database.
fn add(users: &mut Users, sidecar: &SidecarStore, name: &str) -> twiceshy::Result<()> {
    // If this fails, do not add the user: the sidecar would deny it.
    sidecar.added(name)?;
    users.rows.insert(name.into(), format!("{name}@example.org"));
    Ok(())
}

/// Removes a user: first from the database, then from the sidecar.
fn remove(users: &mut Users, sidecar: &SidecarStore, name: &str) -> twiceshy::Result<()> {
    users.rows.remove(name);
    sidecar.removed(name)?;
    Ok(())
}

/// Builds a sidecar, changes the database and looks for users who are not there.
pub fn main() -> twiceshy::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut users = Users::default();
    for number in 0..10_000 {
        users.rows.insert(format!("user {number}"), format!("user{number}@example.org"));
    }

    // Once: build the sidecar from the keys of the database. Later: `twiceshy::open_sidecar`.
    let keys = users.rows.keys();
    let sidecar: SidecarStore =
        Options::default().build_sidecar::<Redb, _>(directory.path(), keys, &mut |_, _| ())?;

    add(&mut users, &sidecar, "ada")?;
    let Ok(found) = sidecar.get("ada", &users);
    assert_eq!(found.as_deref(), Some("ada@example.org"));
    remove(&mut users, &sidecar, "ada")?;
    let Ok(found) = sidecar.get("ada", &users);
    assert_eq!(found, None);

    let before = users.queries.load(Ordering::Relaxed);
    for _ in 0..3 {
        for number in 0..10_000 {
            let Ok(found) = sidecar.get(format!("nobody {number}"), &users);
            assert_eq!(found, None);
        }
    }
    let queries = users.queries.load(Ordering::Relaxed) - before;
    println!("30,000 misses caused {queries} queries of the database");
    println!("{} reads were avoided", sidecar.guard().stats().reads_avoided);
    Ok(())
}
