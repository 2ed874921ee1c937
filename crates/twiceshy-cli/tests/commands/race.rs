//! `twiceshy race` as a user or a script sees it.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;
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

/// A race of a fraction of a second, of the filters that fit 11.6 bits per key.
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
            // memory comes in whole subtables, a broom filter's yard has to
            // have room to grow, and a line filter has five widths.
            let wider = number(&row, "bits_per_key") + 1.0 / 0.95;
            let in_steps = ["simplified", "broom", "line"];
            let label = row["filter"].as_str().expect("a label");
            let steps = in_steps.iter().any(|kind| label.starts_with(kind));
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

/// All of a race but its times.
fn counts(flags: &str) -> Vec<Value> {
    let mut rows = rows(flags);
    for row in &mut rows {
        for field in ["insert_ns", "query_ns", "adapt_ns"] {
            row[field].take();
        }
    }
    rows
}

#[test]
fn a_seed_gives_the_same_counts_again() {
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
    assert!(table[0].contains("store reads"), "{text}");
    assert!(text.contains("\nWinner: "), "{text}");
    assert!(table.iter().all(|line| line.len() == table[0].len()), "{text}");
    let names: Vec<&str> = table.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names[0], "filter");
    assert_eq!(names[1..], LABELS);
}

/// Also with many seeds, all filters and a long name.
#[test]
fn the_output_fits_a_hundred_columns() {
    let long = "--filters cyclic-2:k=3,b=4,full=rebuild --filters broom,aqf,whitelist,telescoping";
    for flags in [
        "--keys 20000 --queries 200000".to_string(),
        "--keys 20000 --queries 200000 --bits 32 --seeds 2".to_string(),
        format!("--keys 20000 --queries 2000000 --bits 32 --seeds 3 --seed 123456789 {long}"),
    ] {
        let output = race(&flags);
        assert_eq!(output.status.code(), Some(0), "{flags}: {}", stderr(&output));
        let text = String::from_utf8(output.stdout).expect("a table is text");
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{flags}: {line}");
        }
        assert!(text.contains("false pos.") && text.contains("store reads"), "{text}");
    }
}

/// What is said of the winner is what the rows say.
#[test]
fn the_winner_has_the_fewest_reads() {
    let flags = "--keys 20000 --workload repeats:20 --filters plain,swapping,telescoping,cyclic-1";
    let rows = rows(flags);
    let reads = |row: &&Value| number(row, "remote_reads") as u64;
    let mut by_reads: Vec<&Value> = rows.iter().collect();
    by_reads.sort_by_key(reads);
    let (first, next) = (by_reads[0], by_reads[1]);
    let text = String::from_utf8(race(flags).stdout).expect("text").replace(['\n', ','], " ");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let digits = |row: &Value| {
        let digits = reads(&row).to_string();
        // The commas of thousands are spaces now.
        let split = digits.len() % 3;
        let (head, rest) = digits.split_at(split);
        let rest: Vec<&str> = (0..rest.len() / 3).map(|at| &rest[3 * at..3 * at + 3]).collect();
        let parts: Vec<&str> =
            [head].into_iter().filter(|head| !head.is_empty()).chain(rest).collect();
        parts.join(" ")
    };
    let name = |row: &Value| row["filter"].as_str().expect("a name").to_string();
    assert!(
        text.contains(&format!("Winner: {} with {} store reads.", name(first), digits(first))),
        "{text}"
    );
    assert!(text.contains(&format!("Next: {} with {}", name(next), digits(next))), "{text}");
    assert!(text.contains("It adapts: at first it is wrong about"), "{text}");
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
        ("--keys /no/such/file", "from 1 to 4294967296, or a file that exists"),
        ("--queries -1", "unexpected argument '-1'"),
        ("--queries 1.5", "expected a whole number, or a file that exists"),
        ("--keys Cargo.toml", "a file of --keys needs a file of --queries"),
        ("--queries Cargo.toml --zipf 1", "come from a file or from zipf:1: choose one"),
        ("--queries Cargo.toml --pcap Cargo.toml", "leave out the other files"),
        ("--pcap Cargo.toml", "Cargo.toml is damaged at byte 0: it is neither a pcap"),
        ("--pcap /no/such/file", "/no/such/file cannot be read"),
        ("--workload zipf", "no workload \"zipf\": there are uniform, zipf:EXPONENT"),
        ("--workload zipf:1 --zipf 1", "cannot be used with"),
        ("--workload flows:chicago-a --queries 5", "a number of queries of its own"),
        ("--scale 0", "'--scale <X>': expected a number above 0"),
        ("--seeds 0", "'--seeds <N>'"),
        ("--json --csv", "cannot be used with"),
        (
            "--keys 9 --queries 9 --bits 64 --plot /no/such/place.html",
            "place.html cannot be written",
        ),
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

#[test]
fn every_workload_can_be_raced() {
    for (name, zipf) in [
        ("uniform", Some(0.0)),
        ("zipf:0.8", Some(0.8)),
        ("repeats:3", None),
        ("firehose:active", None),
        ("firehose:active:-1.5", None),
        ("firehose:power", None),
        ("flows:chicago-a", None),
        ("flows:chicago-b", None),
        ("flows:san-jose:trains", None),
    ] {
        let synthetic = !name.starts_with("f");
        let keys = if synthetic { "--keys 500" } else { "--scale 0.002" };
        for row in rows(&format!("--workload {name} {keys} --filters plain,cyclic-1 --distinct 4"))
        {
            assert_eq!(row["workload"], name);
            assert_eq!(row["zipf"].as_f64(), zipf, "{row}");
            assert_eq!(row["distinct"], 4, "{row}");
            assert_eq!(row["false_negatives"], 0, "{row}");
            assert!(number(&row, "queries") >= 4.0 * number(&row, "keys"), "{row}");
        }
    }
}

#[test]
fn zipf_is_short_for_a_workload() {
    let small = "--keys 2000 --queries 20000 --filters plain,swapping";
    assert_eq!(counts(&format!("{small} --zipf 1.1")), counts(small));
    let by_name = counts(&format!("{small} --workload zipf:0.7"));
    assert_eq!(counts(&format!("{small} --zipf 0.7")), by_name);
}

#[test]
fn seeds_make_rows_and_means() {
    let flags = "--keys 5000 --queries 50000 --filters plain,cyclic-1 --seed 5";
    let together = counts(&format!("{flags} --seeds 3"));
    let seeds: Vec<u64> = together.iter().filter_map(|row| row["seed"].as_u64()).collect();
    assert_eq!(seeds, [5, 5, 6, 6, 7, 7]);
    assert_eq!(together[..2], counts(flags));
    // After the last seed comes the first.
    let last =
        counts("--keys 100 --queries 10 --filters plain --seeds 2 --seed 18446744073709551615");
    assert_eq!((&last[0]["seed"], &last[1]["seed"]), (&u64::MAX.into(), &0.into()));

    let output = race(&format!("{flags} --seeds 3"));
    let text = String::from_utf8(output.stdout).expect("a table is text");
    let words = text.replace('\n', " ");
    assert!(words.contains("means and standard errors of seeds 5 to 7"), "{text}");
    for (filter, index) in [("plain", 0), ("cyclic-1", 1)] {
        let values: Vec<f64> =
            together[index..].iter().step_by(2).map(|row| number(row, "false_positives")).collect();
        let mean = values.iter().sum::<f64>() / 3.0;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let cell = format!("{mean:.0} ± {:.0}", (squares / 2.0 / 3.0).sqrt());
        let line = text.lines().find(|line| line.starts_with(&format!("{filter} "))).expect(filter);
        assert!(line.replace(',', "").contains(&cell), "{cell} is not in {line}");
    }
}

#[test]
fn csv_has_the_fields_of_json() {
    let flags = "--keys 2000 --queries 20000 --filters plain,cyclic-1";
    let output = race(&format!("{flags} --csv"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut reader = csv::Reader::from_reader(output.stdout.as_slice());
    let header: Vec<String> = reader.headers().unwrap().iter().map(str::to_string).collect();
    let json = rows(flags);
    let fields: BTreeSet<&String> = json[0].as_object().expect("an object").keys().collect();
    assert_eq!(header.iter().collect::<BTreeSet<_>>(), fields);
    let lines: Vec<HashMap<String, String>> =
        reader.deserialize().collect::<Result<_, _>>().expect("one line a row");
    assert_eq!(lines.len(), json.len());
    for (line, row) in lines.iter().zip(&json) {
        assert_eq!(row["filter"], line["filter"]);
        assert_eq!(row["spec"], line["spec"]);
        assert_eq!(row["false_positives"].to_string(), line["false_positives"]);
    }
}

#[test]
fn the_plot_has_a_curve_for_each_filter() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("race.html");
    let path = path.to_str().expect("a plain path");
    let flags = "--keys 2000 --queries 50000 --filters plain,cyclic-1,swapping --seeds 2";
    let output = race(&format!("{flags} --plot {path}"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("means"), "the table comes as well");
    let page = fs::read_to_string(path).expect("the page was written");
    for part in ["queries asked", "plain", "cyclic-1", "swapping", "<dt>Result</dt><dd>Winner: "] {
        assert!(page.contains(part), "{part}");
    }
    let curves = ["Store reads: store reads so far", "False positives: false positives so far"]
        .map(|label| {
            let name = format!("aria-label=\"{label}");
            let plot = page.split("<svg").find(|svg| svg.contains(&name)).expect(label);
            let curves: Vec<&str> =
                plot.lines().filter(|line| line.starts_with("<polyline")).collect();
            assert!(curves.len() >= 3, "{label} has {} curves", curves.len());
            curves
        });
    assert_ne!(curves[0], curves[1], "swapping reads more than its false positives");
}

/// Packets of raw IP as a capture: a UDP flow each port.
fn capture(ports: impl Iterator<Item = u16>) -> Vec<u8> {
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101_u32];
    let mut file: Vec<u8> = header.iter().flat_map(|word| word.to_le_bytes()).collect();
    for port in ports {
        file.extend([0, 0, 28, 28_u32].iter().flat_map(|word| word.to_le_bytes()));
        file.extend([0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        file.extend(port.to_be_bytes());
        file.extend([0, 53, 0, 8, 0, 0]);
    }
    file
}

/// 1200 keys that come three times each, as a capture, as a log and as lists:
/// 400 are stored, and the others are asked for 2400 times.
#[test]
fn files_are_raced() {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let write = |name: &str, bytes: Vec<u8>| {
        let path = place.join(name);
        fs::write(&path, bytes).expect("a file for the test");
        path.to_str().expect("a plain path").to_string()
    };
    let stream = || (0..3600_u32).map(|query| query % 1200);
    let lines = |numbers: &mut dyn Iterator<Item = u32>| {
        numbers.map(|number| format!("key {number}\n")).collect::<String>().into_bytes()
    };
    let pcap = write("raced.pcap", capture(stream().map(|number| number as u16)));
    let log = write("raced.log", lines(&mut stream()));
    let stored = write("stored.txt", lines(&mut (0..400)));
    let asked = write("asked.txt", lines(&mut stream()));
    let binary = write("raced.bin", stream().flat_map(u32::to_le_bytes).collect());
    for (flags, workload) in [
        (format!("--pcap {pcap} --distinct 2"), "raced.pcap"),
        (format!("--pcap {pcap} --keys 400"), "raced.pcap"),
        (format!("--queries {log} --distinct 2"), "raced.log"),
        (format!("--queries u32:{binary} --distinct 2"), "raced.bin"),
        (format!("--keys {stored} --queries {asked}"), "asked.txt in stored.txt"),
    ] {
        for row in rows(&format!("{flags} --filters plain,telescoping")) {
            for (field, value) in [("keys", 400), ("distinct", 2), ("queries", 2400)] {
                assert_eq!(row[field], value, "{flags}: {row}");
            }
            assert_eq!(row["workload"], workload, "{flags}");
            assert_eq!(row["false_negatives"], 0, "{flags}");
        }
    }
}
