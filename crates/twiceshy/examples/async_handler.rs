//! A store behind asynchronous handlers: only lookups that read the disk leave the async thread.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use twiceshy::store::GuardedStore;

/// Answers a request for a key.
async fn get(store: Arc<GuardedStore>, key: String) -> twiceshy::Result<Option<Vec<u8>>> {
    // The filter is in memory and takes less than a microsecond.
    if !store.contains(&key) {
        return Ok(None);
    }
    // The key may be there. Reading the disk blocks, so it has a thread of its own.
    let value = spawn_blocking(move || store.get(key)).await.expect("lookups do not panic")?;
    Ok(value)
}

/// Answers a request to store a value. A write waits for the disk.
async fn put(store: Arc<GuardedStore>, key: String, value: String) -> twiceshy::Result<bool> {
    Ok(spawn_blocking(move || store.put(key, value)).await.expect("writes do not panic")?)
}

/// Handles a hundred requests at once.
#[tokio::main]
pub async fn main() -> twiceshy::Result<()> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let store = Arc::new(twiceshy::open(directory.path())?);

    assert!(put(store.clone(), "ada".into(), "Ada Lovelace".into()).await?);
    let handlers: Vec<_> = (0..100)
        .map(|number| {
            let key = if number % 2 == 0 { "ada".into() } else { format!("nobody {number}") };
            tokio::spawn(get(store.clone(), key))
        })
        .collect();
    let mut found = 0;
    for handler in handlers {
        found += usize::from(handler.await.expect("handlers do not panic")?.is_some());
    }
    assert_eq!(found, 50);
    println!("{found} found; {} reads avoided", store.stats().reads_avoided);
    Ok(())
}
