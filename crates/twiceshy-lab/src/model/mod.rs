//! The formulas of the papers: numbers in, numbers out.
//!
//! | file | what it predicts | paper |
//! | --- | --- | --- |
//! | [`threshold`] | how full a cuckoo table can be, first-pass rates, Theorems 4.3 and 5.1 | cuckoo hashing, Eppstein |
//! | [`cyclic`] | cyclic filters, equal and varying ranges | Mitzenmacher et al. 3.1, 3.2 |
//! | [`swapping`] | swapping filters, by sampling | Mitzenmacher et al. 3.3 |
//! | [`cost`] | what operations cost behind a filter | Mitzenmacher et al. 3 |
//! | [`support`] | false positives that no adaptive filter avoids | Kopelowitz et al. 3 |
//! | [`telescoping`] | selectors, their entropy and code, spent blocks | Lee et al. 4 |
//! | [`extension`] | the same for extensions | Lee et al. 5, C.4 |
//! | [`broom`] | space and sizes | Bender et al. 4, 5 |
//! | [`cache`] | a static filter with a cache, for streams of any length | Che et al. |
//! | [`adaptive_quotient`] | fingerprints that are extended until slots are spent | Wen et al. |
//! | [`drift`] | how far the windows of a line filter drift | `docs/line-filter.md` |
//! | [`information`] | the least memory of any filter | |
//!
//! The formulas above are for long runs of uniform queries. Runs of any length, with uniform or
//! skewed queries, are sampled:
//!
//! | file | what it samples |
//! | --- | --- |
//! | [`popularity`] | how often a key is asked |
//! | [`cell`] | one cell or bin whose key changes its fingerprint |
//! | [`cuckooing`] | a key that moves, and drives others out |
//! | [`block`] | one block of 64 slots with its budget |
//! | [`mod@line`] | one line of a line filter with its groups and selectors |
//! | [`sweep`] | a broom filter that rehashes as it adapts, as a mean field |
//! | [`poisson`] | Poisson numbers |

pub mod adaptive_quotient;
pub mod block;
pub mod broom;
pub mod cache;
pub mod cell;
pub mod cost;
pub mod cuckooing;
pub mod cyclic;
pub mod drift;
pub mod extension;
pub mod information;
pub mod line;
pub mod poisson;
pub mod popularity;
pub mod support;
pub mod swapping;
pub mod sweep;
pub mod telescoping;
pub mod threshold;
