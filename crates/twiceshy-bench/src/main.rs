//! twiceshy beside its peers, on the same keys in the same run.
//!
//! ```text
//! cargo run --release -p twiceshy-bench -- --keys 1000000 --what peers
//! cargo run --release -p twiceshy-bench -- bars --keys 1000000
//! RUSTFLAGS="-C target-cpu=native" cargo run --release -p twiceshy-bench -- --markdown
//! ```
//!
//! Every contender is built, queried and emptied once a round, one after the
//! other, so that only one is in memory and all see the same machine; a ratio
//! is taken within a round, and its median over the rounds is reported.

mod bars;
mod clock;
mod contender;
mod measure;
mod ours;
mod peers;
mod quotient;
mod report;
mod scaling;
#[cfg(test)]
mod smoke;
mod tables;
mod workload;

use std::num::NonZeroUsize;

use clap::{Parser, Subcommand, ValueEnum};

use measure::Plan;
use report::{Progress, Report};
use workload::Keys;

/// Times of twiceshy's filters and of their peers.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Stored keys, and as many absent ones [default: 1000000; scaling: up to 30000000]
    #[arg(long)]
    keys: Option<NonZeroUsize>,
    /// Rounds [default: 5, from 4000000 keys on 3]
    #[arg(long)]
    rounds: Option<NonZeroUsize>,
    /// Only contenders whose name contains this; may be given several times
    #[arg(long)]
    only: Vec<String>,
    /// Which tables
    #[arg(long, value_enum, default_value_t = What::All)]
    what: What,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
}

#[derive(Subcommand)]
enum Verb {
    Bars(bars::Args),
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Our partial-key filters beside other crates
    Peers,
    /// Adaptive filters beside plain ones of the same shape
    Shapes,
    /// From keys, hashing included
    Hashed,
    /// Insertions from 10^5 keys up, and the two searches
    Scaling,
    /// Batches against single queries
    Batch,
    /// Quotient filters at two loads beside crate qfilter
    Quotient,
    /// Everything
    All,
}

/// Keys unless told otherwise.
const KEYS: usize = 1_000_000;

fn main() {
    let args = Args::parse();
    if let Some(Verb::Bars(args)) = &args.verb {
        return bars::run(args);
    }
    let progress = Progress::new();
    let (keys, rounds) = (args.keys.map(NonZeroUsize::get), args.rounds.map(NonZeroUsize::get));
    let mut report = Report::new(args.markdown);
    let plan = |keys: usize| Plan {
        rounds: rounds.unwrap_or(if keys < measure::LARGE { 5 } else { 3 }),
        only: &args.only,
        progress: &progress,
    };
    let wanted = |what| args.what == What::All || args.what == what;
    if !matches!(args.what, What::Scaling | What::Quotient) {
        let count = keys.unwrap_or(KEYS);
        progress.step(|| format!("making {count} stored and {count} absent keys"));
        let work = Keys::random(count);
        let digests = work.digests();
        let plan = plan(count);
        if wanted(What::Peers) {
            tables::peers(&digests, &plan, &mut report);
        }
        if wanted(What::Shapes) {
            tables::shapes(&digests, &plan, &mut report);
        }
        if wanted(What::Batch) {
            tables::batch(&digests, &plan, &mut report);
        }
        if wanted(What::Hashed) {
            tables::hashed(&work, &plan, &mut report);
        }
    }
    if wanted(What::Quotient) {
        let count = keys.unwrap_or(KEYS);
        quotient::tables(count, &plan(count), &mut report);
    }
    if wanted(What::Scaling) {
        let most = keys.unwrap_or(scaling::MOST_KEYS);
        scaling::sizes(most, plan, &mut report);
        scaling::searches(most.min(KEYS), plan, &mut report);
    }
}
