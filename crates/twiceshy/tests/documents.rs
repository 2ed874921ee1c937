//! The Rust of the README and of the guide, as it is printed there: [`printed`] compares. The
//! documents show no hidden lines, so what compiles and runs is here.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

type Result = std::result::Result<(), Box<dyn Error>>;

/// Runs an example in a directory of its own. Tests may be threads of one process, which has one
/// working directory.
fn in_a_directory(example: impl FnOnce() -> Result) -> Result {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock();
    let directory = tempfile::tempdir()?;
    std::env::set_current_dir(&directory)?;
    let ran = example();
    std::env::set_current_dir("/")?;
    ran
}

#[test]
#[expect(clippy::unnecessary_get_then_check, reason = "the map stands for a database")]
fn a_filter_in_front_of_a_database() -> Result {
    let database = std::collections::HashMap::from([("alice", 1)]);
    let mut users = twiceshy::Filter::builder().capacity(1_000_000).build()?;
    users.insert("alice");
    if users.contains("bob") && database.get("bob").is_none() {
        users.adapt("bob"); // a wasted read, and the last one for bob
    }
    assert!(users.contains("alice") && !users.contains("bob"));
    Ok(())
}

#[test]
fn a_filter_alone() -> Result {
    use twiceshy::Filter;

    let mut filter = Filter::builder().capacity(1_000_000).rate(0.001).build()?;
    filter.insert("stored key");
    if filter.contains("missing key") {
        filter.adapt("missing key"); // you asked your database: not there
    }
    assert!(filter.contains("stored key") && !filter.contains("missing key"));
    Ok(())
}

#[test]
fn a_store_on_disk() -> Result {
    in_a_directory(|| {
        let users = twiceshy::open("data")?;
        users.put("alice", "1 Main Street")?;
        assert_eq!(users.get("bob")?, None); // definitely absent: no disk read
        users.remove("alice")?;
        Ok(())
    })
}

#[test]
fn a_store_with_another_filter() -> Result {
    in_a_directory(|| {
        let store: twiceshy::store::GuardedStore = twiceshy::store::Options::default()
            .spec("telescoping:f=10,spent=reseed".parse()?)
            .capacity(1_000_000)
            .open("data")?;
        store.put("alice", "1 Main Street")?;
        assert_eq!(store.get("alice")?, Some(b"1 Main Street".to_vec()));
        Ok(())
    })
}

#[test]
fn in_front_of_your_own_database() -> Result {
    in_a_directory(|| {
        use std::collections::HashMap;
        use twiceshy::guard::Lookup;
        use twiceshy::store::{Options, SidecarStore};

        struct Users(HashMap<&'static [u8], &'static str>); // stands for your database

        impl Lookup for Users {
            type Value = &'static str;
            type Error = std::io::Error;

            fn lookup(&self, key: &[u8]) -> std::io::Result<Option<&'static str>> {
                Ok(self.0.get(key).copied()) // a query over the network
            }
        }

        let mut users = Users(HashMap::from([(&b"ada"[..], "Ada")]));

        // Once, from all keys of your database; later `twiceshy::open_sidecar("sidecar")`.
        let keys: Vec<_> = users.0.keys().copied().collect();
        let sidecar: SidecarStore =
            Options::default().build_sidecar("sidecar", keys, &mut |_done, _all| ())?;
        assert_eq!(sidecar.get("ada", &users)?, Some("Ada"));
        assert_eq!(sidecar.get("grace", &users)?, None); // definitely absent: no query

        sidecar.added("grace")?; // before your database gets the key
        users.0.insert(b"grace", "Grace");
        assert_eq!(sidecar.get("grace", &users)?, Some("Grace"));
        Ok(())
    })
}

/// The Rust blocks of a document; those of the crate's README are not rustdoc's to run.
fn blocks(document: &str) -> impl Iterator<Item = &str> {
    let after_fence = document.split("```rust").skip(1).filter_map(|rest| rest.split_once('\n'));
    after_fence.map(|(_, rest)| rest.split("```").next().unwrap_or_default())
}

/// Lines without indentation.
fn lines(text: &str) -> String {
    text.lines().map(|line| line.trim().to_string() + "\n").collect()
}

#[test]
fn printed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let here = lines(include_str!("documents.rs"));
    for document in ["README.md", "docs/guide/embedded.md", "crates/twiceshy/README.md"] {
        let text = fs::read_to_string(root.join(document)).expect(document);
        let mut found = 0;
        for block in blocks(&text) {
            found += 1;
            assert!(here.contains(&lines(block)), "{document}: no test here runs\n{block}");
        }
        assert!(found > 0, "{document} has no Rust");
    }
}
