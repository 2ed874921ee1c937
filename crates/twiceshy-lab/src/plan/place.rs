//! What to take where a filter will be used: one of those that can be used there, in one sentence,
//! with what to paste.
//!
//! | place | filters | choice |
//! | --- | --- | --- |
//! | server | the default of a guard | none: it fits, or not |
//! | store | all that can stand in front of a store | the models' |
//! | library | [`twiceshy::Filter`], of its usual kind or the smallest | the first that fits |
//! | module | [`twiceshy::Filter`]; against an adversary a line filter and its digests | the same |
//!
//! ```
//! use twiceshy_lab::model::popularity::Popularity;
//! use twiceshy_lab::plan::place::{Place, Wish, advise};
//! use twiceshy_lab::plan::predict::Stream;
//! let stream = Stream { absent: 10.0, popularity: Popularity::equal(10.0) };
//! let wish = Wish { keys: 1000, rate: Some(0.002), bits: None, stream, hostile: false };
//! let advice = advise(Place::Library, &wish)?;
//! assert!(advice.first_pass_rate <= 0.002 && advice.paste.contains(".rate(0.002)"));
//! # Ok::<(), String>(())
//! ```

mod alone;
mod guarded;

use serde::Serialize;
use twiceshy_filters::Spec;

use super::Question;
use super::predict::Stream;

/// Where a filter is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// `twiceshy serve`, in front of a database.
    Server,
    /// A store of a Rust program, or a sidecar beside its database.
    Store,
    /// A filter alone, in Rust or Python.
    Library,
    /// The module for Redis and Valkey.
    Module,
}

/// What somebody wants. Without a rate and bits, the usual.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// Keys to store.
    pub keys: usize,
    /// The most of the absent keys that may be answered "maybe" at first.
    pub rate: Option<f64>,
    /// The most bits of memory per key.
    pub bits: Option<f64>,
    /// Queries for absent keys.
    pub stream: Stream,
    /// Whether they come from an adversary.
    pub hostile: bool,
}

/// What to take. The names of the fields are those of the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// Where.
    pub place: Place,
    /// The filter's name.
    pub filter: String,
    /// Its description, where one is pasted or raced.
    pub spec: Option<String>,
    /// Memory for each key, in bits.
    pub bits_per_key: f64,
    /// Memory for all keys, in bytes.
    pub bytes: u64,
    /// The share of its cells that are occupied, where models ask for it.
    pub load: Option<f64>,
    /// The false-positive rate of keys that were never queried.
    pub first_pass_rate: f64,
    /// Reads per query of the stream, where there is a model.
    pub reads_per_query: Option<f64>,
    /// Distinct queries per key with which an adversary breaks it; `None` for never, for more than
    /// 8192, or without an adversary.
    pub breaks_at: Option<f64>,
    /// The recommendation.
    pub sentence: String,
    /// The command or code.
    pub paste: String,
}

/// The filter to take at a place.
///
/// # Errors
/// None that can be used there has the rate, fits the memory, or holds; and what else would help.
pub fn advise(place: Place, wish: &Wish) -> Result<Advice, String> {
    match place {
        Place::Server => guarded::server(wish),
        Place::Store => guarded::store(wish),
        Place::Library => alone::library(wish),
        Place::Module if wish.hostile => alone::module_with_digests(wish),
        Place::Module => alone::module(wish),
    }
}

/// A description without the parameters that are the kind's defaults.
#[must_use]
pub fn short(spec: &Spec) -> String {
    let text = spec.to_string();
    let (name, parameters) = text.split_once(':').unwrap_or((&text, ""));
    let mut kept: Vec<&str> = parameters.split(',').collect();
    let written = |kept: &[&str]| match kept {
        [] => name.to_string(),
        _ => format!("{name}:{}", kept.join(",")),
    };
    for index in (0..kept.len()).rev() {
        let mut fewer = kept.clone();
        fewer.remove(index);
        if written(&fewer).parse().is_ok_and(|same: Spec| same == *spec) {
            kept = fewer;
        }
    }
    written(&kept)
}

/// Larger filters are sized as one of this many keys, to less than a thousandth.
const SIZED_KEYS: usize = 1 << 17;

fn bytes_of(wish: &Wish, bits_per_key: f64) -> u64 {
    (bits_per_key * wish.keys as f64 / 8.0).ceil() as u64
}

/// Keys and memory, in words.
fn size(wish: &Wish, bits_per_key: f64) -> String {
    /// Bytes of a unit, and its name.
    const UNITS: [(f64, &str); 3] =
        [(1_073_741_824.0, "GiB"), (1_048_576.0, "MiB"), (1024.0, "KiB")];
    let bytes = bytes_of(wish, bits_per_key) as f64;
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= *unit);
    let (unit, name) = unit.unwrap_or(UNITS[2]);
    let keys = grouped(wish.keys, ',');
    format!("{keys} keys take {:.1} {name} ({bits_per_key:.1} bits per key)", bytes / unit)
}

/// A number with its thousands apart.
fn grouped(number: usize, separator: char) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(separator);
        }
        grouped.push(digit);
    }
    grouped
}

/// A share to two digits: `0.00091` as "0.091 %".
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let digits = if percent > 0.0 { (1.0 - percent.log10().floor()).clamp(0.0, 17.0) } else { 0.0 };
    format!("{percent:.*} %", digits as usize)
}

/// A number as code and commands have it, never as `1e-5`.
fn decimal(number: f64) -> String {
    let text = number.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

impl Wish {
    fn has_room(&self, bits_per_key: f64) -> bool {
        self.bits.is_none_or(|most| bits_per_key <= most)
    }

    fn allows(&self, rate: f64) -> bool {
        self.rate.is_none_or(|most| rate <= most)
    }

    fn question(&self) -> Question {
        Question {
            keys: self.keys,
            bits: self.bits.unwrap_or(f64::INFINITY),
            stream: self.stream.clone(),
            hostile: self.hostile,
        }
    }

    fn too_many(&self) -> String {
        let keys = grouped(self.keys, ',');
        format!("{keys} keys are too many for one filter; divide them among several")
    }

    /// Why there is no such filter, of a kind of filter.
    fn impossible(&self, filter: &str) -> String {
        if self.rate.is_none() && self.bits.is_none() {
            return self.too_many();
        }
        format!(
            "{filter} of {} keys has {}; allow a higher rate or more memory, or divide the keys \
             among several",
            grouped(self.keys, ','),
            self.words()
        )
    }

    /// What was asked for, in words.
    fn words(&self) -> String {
        let rate = self.rate.map(|rate| format!("a rate of {}", percent(rate)));
        let bits = self.bits.map(|bits| format!("{bits:.1} bits per key"));
        let parts: Vec<String> = [rate, bits].into_iter().flatten().collect();
        let holds = if self.hostile { ", and holds against an adversary" } else { "" };
        format!("{}{holds}", parts.join(" in "))
    }
}
