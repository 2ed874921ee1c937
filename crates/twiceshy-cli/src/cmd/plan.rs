//! `twiceshy plan`: which filter to choose, by models alone.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::ValueEnum;
use serde::Serialize;
use twiceshy_lab::model::popularity::Popularity;
use twiceshy_lab::plan::place::{Advice, Place, Wish, advise, short};
use twiceshy_lab::plan::predict::Stream;
use twiceshy_lab::plan::{Choice, Plan, Question, plan};

use super::amounts;
use crate::table::{Table, bytes as size, count, percent, wrapped};

/// Says which filter to take, or ranks all that fit into a given memory.
///
/// With --for it recommends one that can be used there, in one sentence with what to paste: the
/// smallest with the --rate, or the one with the fewest reads in the --memory. A server has one
/// filter, so the plan says what it takes. Without --for it ranks all filters by the store reads
/// that models predict.
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
  twiceshy plan --keys 1M --rate 0.1% --for library
  twiceshy plan --keys 50M --memory 64MiB --for store
  twiceshy plan --keys 1M --for server --misses 50 --hostile
  twiceshy plan --keys 1000000 --bits 12 --misses 10
  twiceshy plan --keys 1000000 --bits 12 --misses 2 --repeats 1.5     few repeats
  twiceshy plan --keys 1000000 --bits 12 --misses 50 --zipf 1.1       popular keys
  twiceshy plan --keys 1000000 --bits 12 --misses 50 --hostile
  twiceshy plan --keys 1000000 --bits 24 --misses 10 --json | head -1")]
pub struct Args {
    /// Keys to store, such as 250000 or 1M
    #[arg(long, value_name = "N", value_parser = amounts::keys)]
    keys: u64,

    /// Where the filter will be used
    #[arg(long = "for", value_name = "PLACE", value_enum)]
    place: Option<Where>,

    /// Most of the first lookups of absent keys that may read the store, such as 0.1% or 0.001
    #[arg(long, value_name = "RATE", value_parser = amounts::rate, requires = "place")]
    rate: Option<f64>,

    /// Most memory for all keys, such as 64MiB
    #[arg(long, value_name = "SIZE", value_parser = amounts::memory, conflicts_with = "bits")]
    memory: Option<f64>,

    /// Most bits of memory per key, 2 to 64
    #[arg(long, value_name = "B", value_parser = memory_bits)]
    bits: Option<f64>,

    /// Distinct absent keys that will be queried, per stored key, up to 10000
    #[arg(long, value_name = "A", value_parser = misses, default_value_t = 10.0)]
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
    #[arg(long, conflicts_with = "place")]
    csv: bool,
}

/// Where a filter will be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Where {
    /// `twiceshy serve`, in front of PostgreSQL or Redis
    Server,
    /// A store on disk of a Rust program, or a sidecar beside its database
    Store,
    /// A filter alone, in Rust or Python
    Library,
    /// The module for Redis and Valkey
    Module,
}

impl From<Where> for Place {
    fn from(place: Where) -> Self {
        match place {
            Where::Server => Place::Server,
            Where::Store => Place::Store,
            Where::Library => Place::Library,
            Where::Module => Place::Module,
        }
    }
}

fn within(text: &str, least: f64, most: f64, what: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("expected {what}"))
}

/// Bits per key that there are filters for.
const LEAST_BITS: f64 = 2.0;
const MOST_BITS: f64 = 64.0;

fn memory_bits(text: &str) -> Result<f64, String> {
    within(text, LEAST_BITS, MOST_BITS, "a number of bits from 2 to 64, such as 11.6")
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

/// The version of [`Recommended`] as scripts know it.
const ADVICE_SCHEMA: &str = "twiceshy.plan.advice.v1";

/// The line of JSON for a place.
#[derive(Serialize)]
struct Recommended<'a> {
    schema: &'static str,
    keys: u64,
    misses: f64,
    repeats: f64,
    zipf: Option<f64>,
    hostile: bool,
    #[serde(flatten)]
    advice: &'a Advice,
}

/// Makes the plan.
///
/// # Errors
/// An output that is closed, or no filter that fits.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if let Some(place) = args.place {
        return args.recommend(place.into());
    }
    let question = args.question()?;
    let bits = question.bits;
    let plan = plan(&question);
    for (name, reason) in &plan.left_out {
        eprintln!("{name} is left out: {reason}");
    }
    if plan.choices.is_empty() {
        return Err(plan.advice.into());
    }
    let mut out = io::stdout().lock();
    if args.json {
        for choice in &plan.choices {
            writeln!(out, "{}", serde_json::to_string(&args.row(bits, choice))?)?;
        }
    } else if args.csv {
        print_csv(&mut out, &plan)?;
    } else {
        args.print_table(&mut out, bits, &plan)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Says what to take at a place.
    fn recommend(&self, place: Place) -> Result<ExitCode, Box<dyn Error>> {
        let wish = Wish {
            keys: self.keys()?,
            rate: self.rate,
            bits: self.bits_per_key()?,
            stream: self.stream(),
            hostile: self.hostile,
        };
        let advice = advise(place, &wish)?;
        let mut out = io::stdout().lock();
        if self.json {
            let recommended = Recommended {
                schema: ADVICE_SCHEMA,
                keys: self.keys,
                misses: self.misses,
                repeats: self.repeats,
                zipf: self.zipf,
                hostile: self.hostile,
                advice: &advice,
            };
            writeln!(out, "{}", serde_json::to_string(&recommended)?)?;
        } else {
            writeln!(out, "{}\n", wrapped(&advice.sentence))?;
            advice.paste.lines().try_for_each(|line| writeln!(out, "    {line}"))?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn keys(&self) -> Result<usize, String> {
        usize::try_from(self.keys)
            .map_err(|_| format!("{} keys are more than this machine can count", self.keys))
    }

    /// The memory that was given, by the key.
    fn bits_per_key(&self) -> Result<Option<f64>, String> {
        let Some(bytes) = self.memory else { return Ok(self.bits) };
        let bits = bytes * 8.0 / self.keys as f64;
        if bits < LEAST_BITS {
            return Err(format!(
                "{} for {} keys are {bits:.2} bits per key; allow more memory",
                size(bytes as u64),
                count(self.keys)
            ));
        }
        // More is of no use.
        Ok(Some(bits.min(MOST_BITS)))
    }

    fn question(&self) -> Result<Question, String> {
        let bits = self.bits_per_key()?.ok_or(
            "say where the filter will be used, with --for server, store, library or module; or \
             rank all filters that fit into --memory or --bits",
        )?;
        Ok(Question { keys: self.keys()?, bits, stream: self.stream(), hostile: self.hostile })
    }

    fn stream(&self) -> Stream {
        let absent = self.misses * self.keys as f64;
        let popularity = match self.zipf {
            Some(exponent) => Popularity::zipf(absent.max(1.0).round(), exponent, self.repeats),
            None => Popularity::equal(self.repeats),
        };
        Stream { absent: self.misses, popularity }
    }

    fn row<'a>(&self, bits: f64, choice: &'a Choice) -> Row<'a> {
        Row {
            schema: SCHEMA,
            keys: self.keys,
            bits,
            misses: self.misses,
            repeats: self.repeats,
            zipf: self.zipf,
            hostile: self.hostile,
            choice,
        }
    }

    fn print_table(&self, out: &mut impl Write, bits: f64, plan: &Plan) -> io::Result<()> {
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
            "{} keys, at most {bits} bits per key; {} absent keys are queried, {how}\n\n{table}\n{}",
            count(self.keys),
            count(absent),
            wrapped(&plan.advice)
        )?;
        let best = plan.choices.iter().find(|choice| choice.library);
        let best = best.expect("a plan has a filter of the library, or nothing");
        let spec = short(&best.spec.parse().expect("what it printed itself"));
        let which = if best.rank == 1 { "" } else { ", the best of the library" };
        writeln!(
            out,
            "\nIn code{which}: \"{spec}\".parse::<twiceshy_filters::Spec>()?.build({})?\n\
             For a recommendation with code to paste, add --for server, store, library or module.",
            self.keys
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
