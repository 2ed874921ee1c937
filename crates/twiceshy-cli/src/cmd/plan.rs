//! `twiceshy plan`: which filter to choose, by models alone.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use twiceshy_lab::model::popularity::Popularity;
use twiceshy_lab::plan::predict::Stream;
use twiceshy_lab::plan::{Choice, Plan, Question, plan};

use crate::table::{Table, count, percent};

/// Ranks the filters that fit into a given memory by the store reads that models predict.
///
/// No filter is run. The models are those of the papers (Markov chains of a cell, codes
/// of a block, and so on). They are within 25 % of the real filters, and mostly within 5 %
/// (cuckooing, and the broom filter as published: 50 %).
///
/// Beside the library's filters stand two to compare them with: "cached", a plain filter with a
/// CLOCK cache of refuted keys in a tenth of the memory, and "aqf", the adaptive quotient filter.
///
/// A "maybe" for an absent key costs one read of the store, which proves it wrong. If the
/// store is ordered by digest, the quotient family (rsqf, telescoping, uncompressed,
/// extension) adapts without further reads, since that read has fetched all keys in
/// question; only a spent block is read again, and a broom filter reads what it
/// rehashes. The cuckoo family needs a mirror of its cells beside the store, whose reads
/// count as well: a cyclic filter's one read is of the mirror, a swapping filter also
/// reads the cell that it swaps with, and a cuckooing filter every key that it moves, 15
/// to 25 per false positive.
///
/// By default each absent key is queried equally often, in random order; --zipf makes some
/// popular. Skew helps filters that adapt and changes nothing for the others. Queries for stored
/// keys cost every filter the same and are not counted.
///
/// With --hostile the queries come from an adversary that sees the answers and drops the keys
/// that were answered "absent". A filter holds if it can adapt to every query; its rate then
/// stays that of the first pass. Otherwise, in the end, every query is a false positive. "breaks
/// at" is how many absent keys per stored key the adversary needs, up to 8192.
///
/// Exit code: 0; 2 if the flags are wrong or no filter fits.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy plan --keys 1000000 --bits 12 --misses 10
  twiceshy plan --keys 1000000 --bits 12 --misses 2 --repeats 1.5     few repeats
  twiceshy plan --keys 1000000 --bits 12 --misses 50 --zipf 1.1       popular keys
  twiceshy plan --keys 1000000 --bits 12 --misses 50 --hostile
  twiceshy plan --keys 1000000 --bits 24 --misses 10 --json | head -1")]
pub struct Args {
    /// Keys to store
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,

    /// Bits of memory per key, 2 to 64
    #[arg(long, value_name = "B", value_parser = memory_bits)]
    bits: f64,

    /// Distinct absent keys that will be queried, per stored key, up to 10000
    #[arg(long, value_name = "A", value_parser = misses)]
    misses: f64,

    /// Queries per absent key, on average; at least 1
    #[arg(long, value_name = "R", default_value_t = 10.0, value_parser = repeats)]
    repeats: f64,

    /// Exponent of the Zipf distribution of the queries [default: all keys equally often]
    #[arg(long, value_name = "S", value_parser = exponent, conflicts_with = "hostile")]
    zipf: Option<f64>,

    /// Rank by how well filters hold against an adversary
    #[arg(long)]
    hostile: bool,

    /// Print one JSON object per line instead of a table
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print CSV with a header instead of a table
    #[arg(long)]
    csv: bool,
}

fn within(text: &str, least: f64, most: f64, what: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected {what}"))
}

fn memory_bits(text: &str) -> Result<f64, String> {
    within(text, 2.0, 64.0, "a number of bits from 2 to 64, such as 11.6")
}

fn misses(text: &str) -> Result<f64, String> {
    within(text, 1e-6, 1e4, "a positive number up to 10000, such as 10")
}

fn repeats(text: &str) -> Result<f64, String> {
    within(text, 1.0, 1e6, "a number from 1 to 1000000, such as 10")
}

fn exponent(text: &str) -> Result<f64, String> {
    within(text, 0.0, 10.0, "a number from 0 to 10, such as 1.1")
}

/// The version of [`Row`] as scripts know it.
const SCHEMA: &str = "twiceshy.plan.v1";

/// A line of JSON.
#[derive(Serialize)]
struct Row<'a> {
    schema: &'static str,
    keys: u64,
    bits: f64,
    misses: f64,
    repeats: f64,
    zipf: Option<f64>,
    hostile: bool,
    #[serde(flatten)]
    choice: &'a Choice,
}

/// Makes the plan.
///
/// # Errors
/// An output that is closed, or no filter that fits.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let plan = plan(&args.question()?);
    for (name, reason) in &plan.left_out {
        eprintln!("{name} is left out: {reason}");
    }
    if plan.choices.is_empty() {
        return Err(plan.advice.into());
    }
    let mut out = io::stdout().lock();
    if args.json {
        for choice in &plan.choices {
            writeln!(out, "{}", serde_json::to_string(&args.row(choice))?)?;
        }
    } else if args.csv {
        print_csv(&mut out, &plan)?;
    } else {
        args.print_table(&mut out, &plan)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn question(&self) -> Result<Question, String> {
        let keys = usize::try_from(self.keys)
            .map_err(|_| format!("{} keys are more than this machine can count", self.keys))?;
        let absent = self.misses * self.keys as f64;
        let popularity = match self.zipf {
            Some(exponent) => Popularity::zipf(absent.max(1.0).round(), exponent, self.repeats),
            None => Popularity::equal(self.repeats),
        };
        let stream = Stream { absent: self.misses, popularity };
        Ok(Question { keys, bits: self.bits, stream, hostile: self.hostile })
    }

    fn row<'a>(&self, choice: &'a Choice) -> Row<'a> {
        Row {
            schema: SCHEMA,
            keys: self.keys,
            bits: self.bits,
            misses: self.misses,
            repeats: self.repeats,
            zipf: self.zipf,
            hostile: self.hostile,
            choice,
        }
    }

    fn print_table(&self, out: &mut impl Write, plan: &Plan) -> io::Result<()> {
        let last = if self.hostile { "breaks at" } else { "reads / million" };
        let mut table = Table::new(&["filter", "bits/key", "first pass", "false pos.", last]);
        for choice in &plan.choices {
            let last = match (self.hostile, choice.breaks_at) {
                (true, None) => "> 8192".to_string(),
                (true, Some(at)) => format!("{at:.2}"),
                _ => format!("{:.1}", choice.reads_per_query * 1e6),
            };
            table.push([
                choice.filter.clone(),
                format!("{:.2}", choice.bits_per_key),
                percent(choice.first_pass_rate),
                percent(choice.rate),
                last,
            ]);
        }
        let absent = (self.misses * self.keys as f64).round() as u64;
        let how = match self.zipf {
            Some(exponent) => format!("{} times on average (Zipf {exponent})", self.repeats),
            None if self.hostile => "by an adversary".to_string(),
            None => format!("{} times each", self.repeats),
        };
        writeln!(
            out,
            "{} keys, at most {} bits per key; {} absent keys are queried, {how}\n\n{table}\n{}",
            count(self.keys),
            self.bits,
            count(absent),
            plan.advice
        )?;
        let best = plan.choices.iter().find(|choice| choice.library);
        let best = best.expect("a plan has a filter of the library, or nothing");
        let which = if best.rank == 1 { "" } else { ", the best of the library" };
        writeln!(
            out,
            "\nIn code{which}: \"{}\".parse::<twiceshy_filters::Spec>()?.build({})?",
            best.spec, self.keys
        )
    }
}

fn print_csv(out: &mut impl Write, plan: &Plan) -> io::Result<()> {
    writeln!(
        out,
        "rank,filter,spec,bits_per_key,load,first_pass_rate,rate,reads_per_query,adapts,library,breaks_at"
    )?;
    for choice in &plan.choices {
        // Specs have commas.
        writeln!(
            out,
            "{},{},\"{}\",{},{},{},{},{},{},{},{}",
            choice.rank,
            choice.filter,
            choice.spec,
            choice.bits_per_key,
            choice.load,
            choice.first_pass_rate,
            choice.rate,
            choice.reads_per_query,
            choice.adapts,
            choice.library,
            choice.breaks_at.map_or(String::new(), |at| at.to_string()),
        )?;
    }
    Ok(())
}
