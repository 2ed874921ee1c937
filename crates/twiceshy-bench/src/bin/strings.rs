//! The front type `twiceshy::Filter` beside other crates, from string keys of 16 to 32 bytes:
//! hashing included, as a user sees it.
//!
//! ```text
//! cargo run --release -p twiceshy-bench --bin strings -- --markdown
//! ```
//!
//! Every round builds each contender and asks it, one after the other, so that all see the
//! same machine; a ratio is taken within a round, and its median over the rounds is reported.
//! Resident memory is that of a process of its own, which builds one filter from keys that it
//! makes one at a time, less that of a process which makes the keys and builds none. The static
//! filter has to have all keys at once, and no such number.

use std::fs;
use std::hash::{BuildHasher, DefaultHasher, RandomState};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use clap::Parser;
use twiceshy::{Filter, KeyHasher};
use xorf::Filter as _;

/// The rate asked of filters that can be asked for one; `cuckoofilter` has 3 %.
const RATE: f64 = 1.0 / 256.0;

/// Filters from string keys beside each other.
#[derive(Parser)]
struct Args {
    /// Stored keys, and as many absent ones
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Times that every contender is measured
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
    /// Only build this contender and print the resident bytes
    #[arg(long, hide = true)]
    resident: Option<String>,
}

/// A filter of strings.
trait Contender {
    /// Adds keys; a static filter takes them all at once.
    fn fill(&mut self, keys: &[String]);

    /// How many of these it answers "maybe".
    fn count(&self, keys: &[String]) -> usize;
}

/// A filter made of three functions, so that each loop is compiled for its filter.
struct Made<F, I, C> {
    filter: F,
    insert: I,
    contains: C,
}

impl<F, I: Fn(&mut F, &str), C: Fn(&F, &str) -> bool> Contender for Made<F, I, C> {
    fn fill(&mut self, keys: &[String]) {
        keys.iter().for_each(|key| (self.insert)(&mut self.filter, key));
    }

    fn count(&self, keys: &[String]) -> usize {
        keys.iter().filter(|key| (self.contains)(&self.filter, key)).count()
    }
}

/// A static filter of 64-bit hashes, which are made by std's SipHash-1-3.
struct Fuse {
    hasher: RandomState,
    filter: Option<xorf::BinaryFuse8>,
}

impl Contender for Fuse {
    fn fill(&mut self, keys: &[String]) {
        let hashed = keys.iter().map(|key| self.hasher.hash_one(key.as_bytes()));
        let mut hashes: Vec<u64> = hashed.collect();
        hashes.sort_unstable();
        hashes.dedup();
        self.filter = Some(xorf::BinaryFuse8::try_from(&hashes).expect("distinct hashes"));
    }

    fn count(&self, keys: &[String]) -> usize {
        let filter = self.filter.as_ref().expect("it was filled");
        keys.iter().filter(|key| filter.contains(&self.hasher.hash_one(key.as_bytes()))).count()
    }
}

/// Nothing, for the memory of the keys and the program.
struct Nothing;

impl Contender for Nothing {
    fn fill(&mut self, _: &[String]) {}

    fn count(&self, _: &[String]) -> usize {
        0
    }
}

const FASTBLOOM: &str = "fastbloom, SipHash";
const NOTHING: &str = "nothing";

const STATIC: &str = "xorf BinaryFuse8 (static), SipHash";

const NAMES: [&str; 6] = [
    "twiceshy::Filter, SipHash",
    "twiceshy::Filter, XXH3",
    FASTBLOOM,
    "qfilter, foldhash",
    "cuckoofilter 8-bit, SipHash",
    STATIC,
];

fn ours(keys: usize, hasher: KeyHasher) -> Box<dyn Contender> {
    let builder = Filter::builder().capacity(keys).rate(RATE).hasher(hasher);
    Box::new(Made {
        filter: builder.build().expect("a good size"),
        insert: |filter: &mut Filter, key: &str| {
            filter.insert(key);
        },
        contains: |filter: &Filter, key: &str| filter.contains(key),
    })
}

fn make(name: &str, keys: usize) -> Box<dyn Contender> {
    match name {
        "twiceshy::Filter, SipHash" => ours(keys, KeyHasher::random()),
        "twiceshy::Filter, XXH3" => ours(keys, KeyHasher::fast(7)),
        FASTBLOOM => Box::new(Made {
            filter: fastbloom::BloomFilter::with_false_pos(RATE).expected_items(keys),
            insert: |filter: &mut fastbloom::BloomFilter, key: &str| {
                filter.insert(key);
            },
            contains: |filter: &fastbloom::BloomFilter, key: &str| filter.contains(key),
        }),
        "qfilter, foldhash" => Box::new(Made {
            filter: qfilter::Filter::new(keys as u64, RATE).expect("a good size"),
            insert: |filter: &mut qfilter::Filter, key: &str| {
                filter.insert(key).expect("there is room");
            },
            contains: |filter: &qfilter::Filter, key: &str| filter.contains(key),
        }),
        "cuckoofilter 8-bit, SipHash" => Box::new(Made {
            filter: cuckoofilter::CuckooFilter::<DefaultHasher>::with_capacity(keys),
            insert: |filter: &mut cuckoofilter::CuckooFilter<DefaultHasher>, key: &str| {
                filter.add(key).expect("there is room");
            },
            contains: |filter: &cuckoofilter::CuckooFilter<DefaultHasher>, key: &str| {
                filter.contains(key)
            },
        }),
        STATIC => Box::new(Fuse { hasher: RandomState::new(), filter: None }),
        NOTHING => Box::new(Nothing),
        other => panic!("no contender is called {other}"),
    }
}

/// Key number `index`: 16 to 32 bytes, no two alike.
fn key(index: u64) -> String {
    let spread = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = format!("{spread:016x}/profile/settings");
    key.truncate(16 + (spread >> 32) as usize % 17);
    key
}

/// What one contender took in one round, in ns per key.
#[derive(Clone, Copy)]
struct Times {
    insert: f64,
    negative: f64,
    positive: f64,
}

fn measure(name: &str, stored: &[String], absent: &[String]) -> (Times, usize) {
    let per_key = |start: Instant| start.elapsed().as_nanos() as f64 / stored.len() as f64;
    let start = Instant::now();
    let mut filter = make(name, stored.len());
    filter.fill(stored);
    let insert = per_key(start);
    let start = Instant::now();
    let wrong = black_box(filter.count(absent));
    let negative = per_key(start);
    let start = Instant::now();
    assert_eq!(filter.count(stored), stored.len(), "{name} denies a stored key");
    (Times { insert, negative, positive: per_key(start) }, wrong)
}

/// Resident bytes of this process.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = pages.split(' ').nth(1).expect("resident").parse().expect("a number");
    pages * 4096
}

/// Resident bytes of a process that has built this contender.
fn resident_of(name: &str, keys: u64) -> u64 {
    let program = std::env::current_exe().expect("this program");
    let arguments = ["--resident", name, "--keys", &keys.to_string()];
    let output = Command::new(program).args(arguments).output().expect("it runs");
    String::from_utf8(output.stdout).expect("a number").trim().parse().expect("a number")
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn main() {
    let args = Args::parse();
    if let Some(name) = args.resident {
        let mut filter = make(&name, args.keys as usize);
        (0..args.keys).map(key).for_each(|key| filter.fill(&[key]));
        println!("{}", resident());
        black_box(filter.count(&[]));
        return;
    }
    let stored: Vec<String> = (0..args.keys).map(key).collect();
    let absent: Vec<String> = (args.keys..2 * args.keys).map(key).collect();
    let mut rounds = vec![Vec::new(); NAMES.len()];
    let mut wrong = vec![0; NAMES.len()];
    for round in 0..args.rounds {
        eprintln!("round {} of {}", round + 1, args.rounds);
        for (index, name) in NAMES.iter().enumerate() {
            let (times, positives) = measure(name, &stored, &absent);
            rounds[index].push(times);
            wrong[index] = positives;
        }
    }
    let base = resident_of(NOTHING, args.keys);
    let peer = NAMES.iter().position(|name| *name == FASTBLOOM).expect("it is there");
    let header = [
        "contender",
        "insert ns",
        "of fastbloom",
        "negative ns",
        "of fastbloom",
        "positive ns",
        "of fastbloom",
        "rate %",
        "resident bytes per key",
    ];
    let separator = if args.markdown { " | " } else { "\t" };
    let edge = if args.markdown { "| " } else { "" };
    println!("{edge}{}", header.join(separator));
    if args.markdown {
        println!("|{}", " --- |".repeat(header.len()));
    }
    for (index, name) in NAMES.iter().enumerate() {
        let least =
            |of: fn(&Times) -> f64| rounds[index].iter().map(of).fold(f64::INFINITY, f64::min);
        let ratio = |of: fn(&Times) -> f64| {
            let pairs = rounds[index].iter().zip(&rounds[peer]);
            median(pairs.map(|(ours, theirs)| of(ours) / of(theirs)).collect())
        };
        let bytes = (*name != STATIC).then(|| resident_of(name, args.keys).saturating_sub(base));
        let per_key = |bytes: u64| format!("{:.2}", bytes as f64 / args.keys as f64);
        let row = [
            name.to_string(),
            format!("{:.1}", least(|times| times.insert)),
            format!("{:.2}", ratio(|times| times.insert)),
            format!("{:.1}", least(|times| times.negative)),
            format!("{:.2}", ratio(|times| times.negative)),
            format!("{:.1}", least(|times| times.positive)),
            format!("{:.2}", ratio(|times| times.positive)),
            format!("{:.3}", 100.0 * wrong[index] as f64 / args.keys as f64),
            bytes.map_or("-".into(), per_key),
        ];
        println!("{edge}{}", row.join(separator));
    }
}
