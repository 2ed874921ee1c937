//! The verbs, one per file: `Args` and `run`.

pub mod adapt;
mod amounts;
pub mod attack;
pub mod backup;
pub mod bars;
pub mod build;
pub mod check;
pub mod completions;
pub mod forget;
pub mod health;
pub mod inspect;
pub mod man;
pub mod paper;
pub mod plan;
pub mod query;
pub mod race;
pub mod scale;
pub mod serve;

/// The value of a `--bits` flag.
fn memory_bits(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (2.0..=64.0).contains(number));
    number.ok_or_else(|| "expected a number of bits from 2 to 64, such as 11.6".to_string())
}
