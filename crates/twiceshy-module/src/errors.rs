//! What clients are told when something fails.

use twiceshy_filters::Error;

/// The text of an error of a filter, in the words of a client of the server.
pub fn text(error: &Error) -> String {
    match error {
        Error::Full { len, capacity, .. } => format!(
            "the filter is full: it has {len} items, is made for {capacity}, and may not grow. \
             Reserve a larger one, without NONSCALING, or raise the module's MAX-BYTES"
        ),
        other => other.to_string(),
    }
}
