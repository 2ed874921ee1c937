//! Players that see answers only, and the [game](game) they play.

pub mod game;
pub mod rounds;
pub mod telescoping;

/// `|Q|` of `|S|` keys and `|Q|/|S|`: at least one query.
#[must_use]
pub fn queries(keys: u64, ratio: f64) -> u64 {
    ((keys as f64 * ratio).round() as u64).max(1)
}
