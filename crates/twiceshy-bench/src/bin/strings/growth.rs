//! How `twiceshy::Filter` does from 10^5 keys on: made for all its keys, grown from a tenth, and
//! from 1,000.
//! Times are those of the processor, but for the longest insertion, which the clock measures:
//! whatever interrupts the process is in it.

use std::fs;
use std::ops::Range;
use std::process::Command;
use std::time::{Duration, Instant};

use twiceshy::Filter;

use crate::{line, processor};

/// The least capacity that a filter grows from, and the most keys that it grows to from there: ten
/// times as many take ten minutes.
const SMALL: u64 = 1_000;
const MOST_FROM_SMALL: u64 = 10_000_000;

/// Longer insertions are counted.
const LONG: Duration = Duration::from_millis(1);

/// Key number `index`: its bits are spread, or the fast hash would be of a counter.
fn key(index: u64) -> u64 {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Most bytes of memory that this process had.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let of_peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    let kibibytes = of_peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number");
    kibibytes * 1024
}

/// Builds one filter, in this process, and prints the cells of its row.
pub fn measure(keys: u64, capacity: u64) {
    let before = peak();
    let builder = Filter::builder().capacity(capacity as usize);
    let mut filter = builder.build().expect("a good size");
    let (mut longest, mut long) = (Duration::ZERO, 0);
    let (build, ()) = processor(|| {
        let mut last = Instant::now();
        for index in 0..keys {
            filter.insert(key(index));
            let now = Instant::now();
            longest = longest.max(now - last);
            long += u64::from(now - last > LONG);
            last = now;
        }
    });
    let asked = keys.min(10_000_000);
    let absent = keys..keys + asked;
    let maybe = |range: Range<u64>| range.filter(|&index| filter.contains(key(index))).count();
    let (negative, wrong) = processor(|| maybe(absent));
    let (positive, found) = processor(|| maybe(0..asked));
    assert_eq!(found as u64, asked, "a stored key is denied");
    let cells = [
        format!("{:.2}", build / 1e9),
        format!("{:.1}", build / keys as f64),
        format!("{:.1}", negative / asked as f64),
        format!("{:.1}", positive / asked as f64),
        format!("{:.3}", 100.0 * wrong as f64 / asked as f64),
        format!("{:.2}", (peak() - before) as f64 / keys as f64),
        format!("{:.2}", longest.as_secs_f64() * 1000.0),
        long.to_string(),
    ];
    println!("{}", cells.join(" | "));
}

/// A row for each power of ten up to `most`, each from a process of its own.
pub fn table(most: u64, markdown: bool) {
    let head = [
        "keys",
        "made for",
        "build s",
        "insert ns",
        "negative ns",
        "positive ns",
        "rate %",
        "peak bytes per key",
        "longest insertion ms",
        "above 1 ms",
    ];
    line(markdown, &head);
    if markdown {
        line(true, &head.map(|_| "---"));
    }
    let program = std::env::current_exe().expect("this program");
    for keys in (5..).map(|power| 10u64.pow(power)).take_while(|&keys| keys <= most) {
        let small = (keys <= MOST_FROM_SMALL).then_some(SMALL);
        for capacity in [keys, keys / 10].into_iter().chain(small) {
            let numbers = [keys, capacity].map(|number| number.to_string());
            let arguments = ["--keys", &numbers[0], "--grown-from", &numbers[1]];
            let output = Command::new(&program).args(arguments).output().expect("it runs");
            let cells = String::from_utf8(output.stdout).expect("text");
            line(
                markdown,
                &[&numbers[..], &cells.trim().split(" | ").map(String::from).collect::<Vec<_>>()]
                    .concat(),
            );
        }
    }
}
