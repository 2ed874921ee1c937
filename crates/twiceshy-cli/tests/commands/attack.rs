//! `twiceshy attack` as a user or a script sees it.

use std::process::{Command, Output};

use serde_json::Value;

const ADVERSARIES: [&str; 8] = [
    "repeat",
    "rounds",
    "telescoping",
    "theorem-9",
    "theorem-10",
    "theorem-12",
    "deletion-timing",
    "recall",
];

/// Runs `twiceshy attack` with flags that are separated by spaces.
fn attack(flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg("attack").args(flags.split_whitespace());
    command.output().expect("the binary runs")
}

fn stdout(flags: &str) -> String {
    let output = attack(flags);
    assert_eq!(output.status.code(), Some(0), "{flags}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "no progress without a terminal");
    String::from_utf8(output.stdout).expect("text")
}

fn rows(flags: &str) -> Vec<Value> {
    let text = stdout(&format!("{flags} --json"));
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_else(|| panic!("{field} of {row}"))
}

#[test]
fn json_has_one_line_a_game_with_every_field() {
    let rows = rows("--keys 500 --ratio 20 --filters rsqf,broom --games 2 --seed 7");
    assert_eq!(rows.len(), 2 * 2 * ADVERSARIES.len());
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(text(row, "schema"), "twiceshy.attack.v1");
        assert_eq!(text(row, "filter"), if index < 16 { "rsqf" } else { "broom" });
        assert_eq!(text(row, "adversary"), ADVERSARIES[index / 2 % 8]);
        assert_eq!(number(row, "seed"), 7.0 + (index % 2) as f64);
        assert!(text(row, "spec").contains(":f=8,"), "{row}");
        for (field, value) in [("keys", 500.0), ("ratio", 20.0), ("false_negatives", 0.0)] {
            assert_eq!(number(row, field), value, "{field} of {row}");
        }
        for field in ["last_round_rate", "overall_rate", "epsilon"] {
            assert!((0.0..=1.0).contains(&number(row, field)), "{field} of {row}");
        }
        assert!(number(row, "rounds") >= 1.0 && number(row, "queries") >= 1.0, "{row}");
        assert!((10.0..30.0).contains(&number(row, "bits_per_key")), "{row}");
        assert!(row["won"].is_boolean() && row["named_is_false_positive"].is_boolean(), "{row}");
        assert!(row["named"].is_u64() || row["named"].is_null(), "{row}");
    }
}

#[test]
fn json_starts_with_its_schema() {
    let text = stdout("repeat --keys 100 --filters plain --json");
    let start = "{\"schema\":\"twiceshy.attack.v1\",\"adversary\":\"repeat\",\"filter\":\"plain\",";
    assert!(text.starts_with(start), "{text}");
}

/// 2,000 keys and 40,000 queries: a static filter shows 148 false positives on
/// average, all of them again in each round.
#[test]
fn whoever_asks_twice_beats_who_does_not_adapt() {
    for adversary in ["repeat", "rounds", "telescoping"] {
        for row in rows(&format!("{adversary} --keys 2000 --ratio 20 --filters plain,rsqf,broom")) {
            let adapts = text(&row, "filter") == "broom";
            assert_eq!(row["won"], !adapts, "{row}");
            assert_eq!(number(&row, "last_round_rate") == 1.0, !adapts, "{row}");
        }
    }
}

#[test]
fn csv_has_the_fields_of_json() {
    let flags = "rounds --keys 500 --filters plain,cyclic-1";
    let csv = stdout(&format!("{flags} --csv"));
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let header = reader.headers().expect("a header").clone();
    let records: Vec<csv::StringRecord> = reader.records().map(|row| row.expect(&csv)).collect();
    let rows = rows(flags);
    assert_eq!(records.len(), rows.len());
    for (record, row) in records.iter().zip(&rows) {
        assert_eq!(header.len(), row.as_object().expect("an object").len());
        for (name, field) in header.iter().zip(record) {
            match &row[name] {
                Value::String(text) => assert_eq!(field, text, "{name}"),
                Value::Null => assert_eq!(field, "", "{name}"),
                Value::Bool(truth) => assert_eq!(field, truth.to_string(), "{name}"),
                // serde_json reads the last digit of a number approximately.
                other => {
                    let (read, field) = (number(row, name), field.parse().unwrap_or(f64::NAN));
                    assert!((read - field).abs() <= 1e-15 * read.abs(), "{name}: {other}");
                }
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_games_again() {
    let play = |seed: u32| stdout(&format!("rounds --keys 500 --json --seed {seed}"));
    assert_eq!(play(3), play(3));
    assert_ne!(play(3), play(4));
}

#[test]
fn filters_take_the_papers_space_unless_told_otherwise() {
    let spec = |flags: &str| -> String {
        text(&rows(&format!("repeat --keys 2000 {flags}"))[0], "spec").to_string()
    };
    for (flags, start) in [
        ("--filters cyclic-2", "cyclic:f=9,s=2,"),
        ("--filters swapping", "swapping:f=11,"),
        ("--filters telescoping", "telescoping:f=8,"),
        ("--filters broom-faithful", "broom:f=8,"),
        ("--filters cyclic:s=2,f=5", "cyclic:f=5,s=2,"),
        ("--filters cyclic-2 --bits 9", "cyclic:f=6,s=2,"),
        ("--filters cyclic-2:f=20 --bits 9", "cyclic:f=6,s=2,"),
        ("--filters whitelist", "whitelist over plain:f=8,"),
    ] {
        assert!(spec(flags).starts_with(start), "{flags}: {}", spec(flags));
    }
}

#[test]
fn tables_have_every_filter_and_adversary_and_aligned_columns() {
    let all = stdout("--keys 200 --ratio 5 --filters plain,broom,whitelist");
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines[0].starts_with("200 keys, at most 1,000 distinct queries, seed 1"), "{all}");
    let header: Vec<&str> = lines[2].split_whitespace().collect();
    assert_eq!((header[0], &header[1..]), ("filter", &ADVERSARIES[..]));
    for (line, name) in lines[3..6].iter().zip(["plain", "broom", "whitelist"]) {
        assert_eq!(line.len(), lines[2].len(), "{all}");
        let (filter, scores) = line.split_once(' ').expect("columns");
        assert_eq!(filter, name);
        let known = |score: &str| ["adversary", "filter"].contains(&score);
        assert!(scores.split_whitespace().all(known), "{all}");
    }

    let one = stdout("repeat --keys 200 --ratio 100 --games 3 --filters rsqf,telescoping");
    assert!(one.contains("repeat asks one false positive again"), "{one}");
    let row = one.lines().find(|line| line.starts_with("rsqf")).expect(&one);
    assert!(row.ends_with("3/3"), "{one}");
}

#[test]
fn wrong_flags_are_refused_with_their_reason() {
    for (flags, reason) in [
        ("brute-force", "[possible values: repeat, rounds, telescoping,"),
        ("--filters bloom", "no filter is called \"bloom\"; there are plain, plain-full,"),
        ("--keys 0", "0 is not in 1..=268435456"),
        ("--keys -5", "'--keys <N>'"),
        ("--ratio 0", "'--ratio <X>': expected a positive number"),
        ("--ratio inf", "'--ratio <X>': expected a positive number"),
        ("--games 0", "0 is not in 1..=1000000"),
        ("--bits 1", "'--bits <B>': expected a number of bits from 2 to 64"),
        ("--json --csv", "cannot be used with '--csv'"),
        ("--keys 1000000 --ratio 300", "lower --keys or --ratio"),
        ("repeat --filters cyclic-3 --bits 4", "no filter could take part"),
    ] {
        let output = attack(flags);
        assert_eq!(output.status.code(), Some(2), "{flags}");
        assert!(stderr(&output).contains(reason), "{flags}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "{flags}");
    }
}

#[test]
fn a_filter_that_does_not_fit_is_left_out_once_and_named() {
    let output = attack("--keys 500 --ratio 2 --bits 5 --filters plain,cyclic-3 --json");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(stderr(&output).matches("warning: cyclic-3 is left out").count(), 1);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), ADVERSARIES.len());
}

#[test]
fn help_has_adversaries_filters_and_examples() {
    let help = stdout("--help");
    for word in ADVERSARIES.iter().chain(&["telescoping-reseed", "Examples:", "Exit code:"]) {
        assert!(help.contains(word), "{word} is not in {help}");
    }
}
