//! The demonstration's box: what happens to one key, step by step.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use serde::Serialize;

use crate::backend::Failure;
use crate::server::Server;

/// The most bytes of a value that are fetched for the page.
const VALUE: usize = 4 << 10;

/// The most keys that [`mistake`] tries: at a rate of 0.1 %, none of them is a false positive with
/// probability 10^-43.
const TRIES: u64 = 100_000;

/// What the filter and the store said of a key.
#[derive(Debug, Serialize)]
pub(super) struct Looked {
    /// The key.
    key: String,
    /// What the filter answered.
    filter: &'static str,
    /// Whether the store has the key; `None` if it was not read.
    stored: Option<bool>,
    /// Its value, unless it is large.
    value: Option<String>,
    /// Whether the filter had adapted to the key before, as far as it remembers.
    adapted_before: bool,
    /// Whether the filter answers "absent" after a read that found nothing; `None` without one.
    adapted: Option<bool>,
}

/// Looks a key up as GET does, and asks the filter before and after. Each of these counts as a
/// lookup.
pub(super) async fn look_up(server: &Server, key: Vec<u8>) -> Result<Looked, Failure> {
    let guard = server.backend.guard();
    let text = String::from_utf8_lossy(&key).into_owned();
    let adapted_before = guard.was_adapted(&key);
    let mut looked = Looked {
        key: text,
        filter: "absent",
        stored: None,
        value: None,
        adapted_before,
        adapted: None,
    };
    if !guard.contains(&key) {
        return Ok(looked);
    }
    looked.filter = "maybe";
    let key = Bytes::from(key);
    let fetched = server.backend.get_many(std::slice::from_ref(&key), VALUE).await?;
    let value = fetched.values.into_iter().next().flatten();
    let stored = value.is_some() || fetched.next.is_some();
    looked.stored = Some(stored);
    looked.value = value.map(|value| String::from_utf8_lossy(&value).into_owned());
    looked.adapted = (!stored).then(|| !guard.contains(&key));
    Ok(looked)
}

/// Looks up missing keys until the filter is wrong about one. `None` if it is about none of many.
pub(super) async fn mistake(server: &Server) -> Result<Option<Looked>, Failure> {
    /// The number of the next key to try.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    for _ in 0..TRIES {
        let key = format!("nobody:{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let looked = look_up(server, key.into_bytes()).await?;
        // Somebody may have stored it.
        if looked.stored == Some(false) {
            return Ok(Some(looked));
        }
    }
    Ok(None)
}
