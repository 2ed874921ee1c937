//! `twiceshy race` as a user or a script sees it.

use std::collections::HashMap;
use std::process::{Command, Output};

use serde_json::Value;

const LABELS: [&str; 13] = [
    "plain",
    "plain-full",
    "simplified",
    "cyclic-1",
    "cyclic-2",
    "cyclic-3",
    "varying",
    "swapping",
    "cuckooing",
    "rsqf",
    "telescoping",
    "telescoping-reseed",
    "extension",
];

/// A race of a fraction of a second, of the filters that fit 11.6 bits a key.
const SMALL: &str = "--keys 20000 --queries 200000 --filters plain,plain-full,simplified,cyclic-1,cyclic-2,cyclic-3,varying,swapping,cuckooing,rsqf,telescoping,telescoping-reseed,extension";

/// Runs `twiceshy race` with flags that are separated by spaces.
fn race(flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg("race").args(flags.split_whitespace());
    command.output().expect("the binary runs")
}

fn rows(flags: &str) -> Vec<Value> {
    let output = race(&format!("{flags} --json"));
    assert_eq!(output.status.code(), Some(0), "{flags}: {}", stderr(&output));
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn labels(rows: &[Value]) -> Vec<&str> {
    rows.iter().map(|row| row["filter"].as_str().expect("a label")).collect()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

#[test]
fn json_has_one_line_a_filter_with_every_field() {
    let rows = rows(SMALL);
    assert_eq!(labels(&rows), LABELS);
    for row in &rows {
        assert_eq!(row["schema"], "twiceshy.race.v1");
        let spec = row["spec"].as_str().expect("a spec");
        let kind = row["filter"].as_str().map(|label| label.split("-").next());
        assert_eq!(Some(spec.split([':', '-']).next()), kind, "{spec}");
        for (field, value) in [
            ("keys", 20_000.0),
            ("distinct", 10.0),
            ("queries", 200_000.0),
            ("zipf", 1.1),
            ("seed", 1.0),
            ("bits", 11.6),
            ("false_negatives", 0.0),
        ] {
            assert_eq!(number(row, field), value, "{field} of {row}");
        }
        for field in ["first_pass_rate", "load"] {
            assert!((0.0..=1.0).contains(&number(row, field)), "{field} of {row}");
        }
        for field in ["insert_ns", "query_ns", "adapt_ns"] {
            assert!(number(row, field) > 0.0, "{field} of {row}");
        }
        for field in ["false_positives", "remote_reads", "adaptations", "rebuilds"] {
            assert!(row[field].is_u64(), "{field} of {row}");
        }
        assert!(number(row, "remote_reads") >= number(row, "false_positives"), "{row}");
    }
}

#[test]
fn json_starts_with_its_schema() {
    let output = race("--keys 100 --queries 10 --filters plain --json");
    assert!(output.stdout.starts_with(b"{\"schema\":\"twiceshy.race.v1\",\"filter\":\"plain\","));
}

#[test]
fn every_filter_stays_within_its_memory() {
    for bits in ["9", "11.6", "16", "24"] {
        for row in rows(&format!("--keys 20000 --queries 200000 --bits {bits}")) {
            let limit: f64 = bits.parse().expect("a number");
            assert!(number(&row, "bits_per_key") <= limit, "{bits}: {row}");
            // One more bit in each cell would not fit; but a simplified filter's
            // memory comes in whole subtables, and a broom filter's yard has to
            // have room to grow.
            let wider = number(&row, "bits_per_key") + 1.0 / 0.95;
            let in_steps = ["simplified", "broom", "broom-faithful"];
            let steps = in_steps.contains(&row["filter"].as_str().expect("a label"));
            assert!(wider > limit || steps, "{bits}: {row}");
        }
    }
}

/// By default everyone takes part who fits; the others are named.
#[test]
fn filters_that_do_not_fit_are_left_out_and_named() {
    let wide = rows("--keys 2000 --queries 1000 --bits 32");
    let all = labels(&wide);
    for filter in LABELS.iter().chain(&["uncompressed", "broom", "broom-faithful"]) {
        assert!(all.contains(filter), "{filter} is not in {all:?}");
    }
    let output = race("--keys 2000 --queries 1000");
    assert_eq!(output.status.code(), Some(0));
    for filter in ["uncompressed", "broom", "broom-faithful"] {
        assert!(stderr(&output).contains(&format!("{filter} is left out")), "{}", stderr(&output));
    }
}

#[test]
fn a_seed_gives_the_same_counts_again() {
    let counts = |flags: &str| -> Vec<Value> {
        let mut rows = rows(flags);
        for row in &mut rows {
            for field in ["insert_ns", "query_ns", "adapt_ns"] {
                row[field].take();
            }
        }
        rows
    };
    let flags = format!("{SMALL} --seed");
    assert_eq!(counts(&format!("{flags} 5")), counts(&format!("{flags} 5")));
    let false_positives = |rows: Vec<Value>| -> Vec<f64> {
        rows.iter().map(|row| number(row, "false_positives")).collect()
    };
    let (five, six) = (counts(&format!("{flags} 5")), counts(&format!("{flags} 6")));
    assert_ne!(false_positives(five), false_positives(six));
}

/// A static filter's false positives in a skewed stream hang on a few popular
/// keys, so the stream here is nearly uniform and long: each of the 20,000
/// absent keys is asked for about 50 times. Of the 0.37 % (plain) or 0.19 %
/// (plain-full) that collide, a static filter pays each time, an adaptive one
/// about once.
#[test]
fn adaptive_filters_have_far_fewer_false_positives_than_plain_ones() {
    let rows = rows(
        "--keys 20000 --distinct 1 --queries 1000000 --zipf 0.3 --filters \
                     plain,cyclic-1,varying,swapping,cuckooing,telescoping,telescoping-reseed,\
                     extension,plain-full,simplified,rsqf",
    );
    let by_label: HashMap<&str, f64> = labels(&rows)
        .into_iter()
        .zip(rows.iter().map(|row| number(row, "false_positives")))
        .collect();
    for adaptive in [
        "cyclic-1",
        "varying",
        "swapping",
        "cuckooing",
        "telescoping",
        "telescoping-reseed",
        "extension",
    ] {
        assert!(by_label[adaptive] * 10.0 < by_label["plain"], "{adaptive}: {by_label:?}");
    }
    for row in &rows {
        let adapts = !["plain", "plain-full", "simplified", "rsqf"]
            .contains(&row["filter"].as_str().unwrap());
        assert_eq!(number(row, "adaptations") > 0.0, adapts, "{row}");
    }
}

#[test]
fn uniform_streams_and_tiny_sets_work() {
    for flags in
        ["--zipf 0 --keys 1000 --queries 1000", "--keys 10 --distinct 1 --queries 10 --bits 64"]
    {
        for row in rows(&format!("{flags} --filters plain,cyclic-1")) {
            assert_eq!(number(&row, "false_negatives"), 0.0, "{row}");
        }
    }
}

#[test]
fn nothing_adapted_is_null() {
    let rows = rows("--keys 1000 --queries 0 --filters swapping");
    assert_eq!(rows[0]["adapt_ns"], Value::Null);
    assert_eq!(rows[0]["remote_reads"], 0);
}

#[test]
fn filters_are_picked_by_name_and_by_spec() {
    let flags = "--keys 2000 --queries 1000 --filters swapping,plain \
                 --filters cyclic:s=2,k=3,f=30;varying";
    let rows = rows(flags);
    assert_eq!(labels(&rows), ["swapping", "plain", "cyclic-2", "varying"]);
    let spec = rows[2]["spec"].as_str().expect("a spec");
    assert!(spec.contains("s=2,k=3") && !spec.contains("f=30"), "{spec}");
}

#[test]
fn the_table_has_every_filter_and_aligned_columns() {
    let output = race(SMALL);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output), "", "no progress bar without a terminal");
    let text = String::from_utf8(output.stdout).expect("a table is text");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("20,000 keys, 200,000 absent keys, 200,000 queries"), "{text}");
    let table = &lines[2..3 + LABELS.len()];
    assert!(table.iter().all(|line| line.len() == table[0].len()), "{text}");
    let names: Vec<&str> = table.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names[0], "filter");
    assert_eq!(names[1..], LABELS);
}

#[test]
fn wrong_flags_are_refused_with_their_reason() {
    for (flags, reason) in [
        ("--filters bloom", "no filter is called \"bloom\"; there are plain, plain-full,"),
        ("--filters cyclic-9", "use 1 to 8"),
        ("--keys 0", "'--keys <N>': expected a whole number from 1"),
        ("--keys -5", "'--keys <N>': expected a whole number from 1"),
        ("--distinct 0", "'--distinct <A>': expected a whole number from 1"),
        ("--bits -3", "'--bits <B>': expected a number of bits from 2 to 64"),
        ("--bits NaN", "'--bits <B>': expected a number of bits from 2 to 64"),
        ("--zipf -1", "'--zipf <S>': expected 0 or a positive number"),
        ("--zipf inf", "'--zipf <S>': expected 0 or a positive number"),
        ("--keys 100000 --distinct 100000", "more than the 2^32 absent keys"),
        ("--keys 10 --queries 9999999999999999", "no memory for 9999999999999999 queries"),
    ] {
        let output = race(flags);
        assert_eq!(output.status.code(), Some(2), "{flags}");
        assert!(stderr(&output).contains(reason), "{flags}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{flags}");
    }
}

#[test]
fn a_filter_that_does_not_fit_is_left_out() {
    // Three selector bits and the shortest fingerprint are 5 bits.
    let output = race("--keys 5000 --queries 1000 --bits 5 --filters plain,cyclic-3 --json");
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("warning: cyclic-3 is left out"), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);

    let output = race("--keys 5000 --queries 1000 --bits 5 --filters cyclic-3");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no filter could take part"), "{}", stderr(&output));
}
