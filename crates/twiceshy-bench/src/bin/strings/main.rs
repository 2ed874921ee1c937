//! The front type `twiceshy::Filter` beside other crates, from string keys of 16 to 32 bytes:
//! hashing included, as a user sees it.
//!
//! ```text
//! cargo run --release -p twiceshy-bench --bin strings -- --markdown
//! cargo run --release -p twiceshy-bench --bin strings -- --growth --keys 100000000 --markdown
//! ```
//!
//! Every round builds each contender and asks it, one after the other, so that all see the
//! same machine; times are those of the processor, and a ratio is taken within a round, and its median over the rounds is reported.
//! Resident memory is that of a process of its own, which builds one filter from keys that it
//! makes one at a time, less that of a process which makes the keys and builds none. The static
//! filter has to have all keys at once, and no such number. "Of 2 threads" is the time of a query
//! while another thread asks as well, against the time of one alone.

#[path = "../../clock.rs"]
mod clock;
mod contenders;
mod growth;

use std::fs;
use std::hint::black_box;
use std::process::Command;
use std::thread;

use clap::Parser;
use clock::on_processor;
use contenders::{FASTBLOOM, NAMES, NOTHING, STATIC, make};

/// Filters from string keys beside each other.
#[derive(Parser)]
struct Args {
    /// Stored keys, and as many absent ones
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Times that every contender is measured
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// How our filter does as it gets larger, up to `--keys`
    #[arg(long)]
    growth: bool,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
    /// Only build this contender and print the resident bytes
    #[arg(long, hide = true)]
    resident: Option<String>,
    /// Only build a filter made for so many keys and print what it took
    #[arg(long, hide = true)]
    grown_from: Option<u64>,
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
    /// A negative query of each of two threads.
    of_two: f64,
}

/// Nanoseconds of this thread's processor time: who else is on the machine counts little.
pub fn processor<T>(run: impl FnOnce() -> T) -> (f64, T) {
    let now = || on_processor().expect("the system counts a thread's processor time");
    let start = now();
    let result = run();
    ((now() - start) as f64, result)
}

fn measure(name: &str, stored: &[String], absent: &[String]) -> (Times, usize) {
    let keys = stored.len() as f64;
    let (insert, filter) = processor(|| {
        let mut filter = make(name, stored.len());
        filter.fill(stored);
        filter
    });
    let (negative, wrong) = processor(|| black_box(filter.count(absent)));
    let (positive, found) = processor(|| black_box(filter.count(stored)));
    assert_eq!(found, stored.len(), "{name} denies a stored key");
    let ask = || processor(|| black_box(filter.count(absent))).0;
    let of_two = thread::scope(|threads| {
        let both = [threads.spawn(ask), threads.spawn(ask)];
        both.map(|thread| thread.join().expect("it asks")).iter().sum::<f64>() / 2.0
    });
    let [insert, negative, positive, of_two] =
        [insert, negative, positive, of_two].map(|time| time / keys);
    (Times { insert, negative, positive, of_two }, wrong)
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

/// A query beside another thread's, against one alone.
fn ratio_of_two(rounds: &[Times]) -> f64 {
    median(rounds.iter().map(|times| times.of_two / times.negative).collect())
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

/// Prints a row of a table.
fn line<T: AsRef<str>>(markdown: bool, cells: &[T]) {
    let cells: Vec<&str> = cells.iter().map(T::as_ref).collect();
    if markdown {
        println!("| {} |", cells.join(" | "));
    } else {
        println!("{}", cells.join("\t"));
    }
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
    if let Some(capacity) = args.grown_from {
        growth::measure(args.keys, capacity);
        return;
    }
    if args.growth {
        growth::table(args.keys, args.markdown);
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
    let header: [&str; 10] = [
        "contender",
        "insert ns",
        "of fastbloom",
        "negative ns",
        "of fastbloom",
        "positive ns",
        "of fastbloom",
        "of 2 threads",
        "rate %",
        "resident bytes per key",
    ];
    line(args.markdown, &header);
    if args.markdown {
        line(true, &["---"; 10]);
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
            format!("{:.2}", ratio_of_two(&rounds[index])),
            format!("{:.3}", 100.0 * wrong[index] as f64 / args.keys as f64),
            bytes.map_or("-".into(), per_key),
        ];
        line(args.markdown, &row);
    }
}
