//! `twiceshy bars` as a user or a script sees it, at a small scale.

use std::process::{Command, Output};

use serde_json::Value;

/// Runs `twiceshy bars` with these flags.
fn bars(flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg("bars").args(flags).output().expect("the binary runs")
}

fn stdout(flags: &[&str]) -> String {
    let output = bars(flags);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{flags:?}");
    String::from_utf8(output.stdout).expect("text")
}

fn rows(flags: &[&str]) -> Vec<Value> {
    let text = stdout(&[flags, &["--json"]].concat());
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Everything that needs no files. What must be so whatever the seed: a static filter
/// repeats every mistake, and the telescoping one hardly any.
#[test]
fn every_experiment_tells_static_filters_from_adaptive_ones() {
    const EXPERIMENTS: [&str; 7] =
        ["size", "repeats", "telescoping", "recall", "renewal", "again", "churn"];
    let flags = ["--keys", "400", "--seeds", "2", "--filters", "rsqf:f=8; telescoping-reseed:f=8"];
    let rows = rows(&[&EXPERIMENTS[..], &flags].concat());
    let of = |experiment: &str, filter: &str| -> Vec<&Value> {
        let like = |row: &&Value| {
            row["experiment"] == experiment
                && row["filter"].as_str().is_some_and(|name| name.starts_with(filter))
        };
        rows.iter().filter(like).collect()
    };
    for (experiment, conditions) in EXPERIMENTS.into_iter().zip([2, 3, 4, 2, 3, 3, 3]) {
        for filter in ["rsqf", "telescoping"] {
            let found = of(experiment, filter);
            assert_eq!(found.len(), 2 * conditions, "{experiment} of {filter}");
            for row in found {
                assert_eq!(row["schema"], "twiceshy.bars.v1");
                assert_eq!((&row["keys"], &row["false_negatives"]), (&400.into(), &0.into()));
                assert!(row["met"].is_boolean() && row["most"].is_number(), "{row}");
            }
        }
    }
    for experiment in ["repeats", "telescoping", "recall", "renewal", "again"] {
        for row in of(experiment, "rsqf") {
            let first_pass = experiment == "repeats";
            let value = row["value"].as_f64().expect("a number");
            assert!(value == 1.0 || first_pass && (0.001..0.01).contains(&value), "{row}");
            assert_eq!(row["met"], false, "{row}");
        }
        for row in of(experiment, "telescoping") {
            assert!(row["value"].as_f64().is_some_and(|value| value < 0.2), "{row}");
        }
    }
}

/// 300 keys in a stream, each asked for as often as its number modulo 50 and in turn.
#[test]
fn streams_are_played_at_equal_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("stream.txt");
    let asked = (0..50).flat_map(|pass| (0..3000).filter(move |key| key % 50 >= pass));
    let text: Vec<String> = asked.map(|key: u32| format!("key {key}")).collect();
    std::fs::write(&path, text.join("\n")).expect("a file");
    let path = path.to_str().expect("a path in plain letters");
    let rows =
        rows(&["streams", "--stream", path, "--filters", "telescoping-reseed:f=8", "--seeds", "2"]);
    // Five filters, two halves, one stream and the mean.
    assert_eq!(rows.len(), 5 * 2 * 2);
    let bits = rows[0]["bits_per_key"].as_f64().expect("a number");
    for row in &rows {
        assert!(row["bits_per_key"].as_f64().is_some_and(|other| other <= bits + 0.5), "{row}");
        assert!((250..350).contains(&row["keys"].as_u64().expect("a number")), "{row}");
        let static_filter = row["filter"] == "rsqf";
        let value = row["value"].as_f64().expect("a number");
        assert!(value < 1000.0 || static_filter, "{row}");
    }
    assert_eq!(
        rows.iter().filter(|row| row["most"].is_number()).count(),
        2,
        "of the filter itself"
    );
}

#[test]
fn the_table_has_a_verdict_for_each_bar() {
    let table = stdout(&["again", "size", "--keys", "500", "--seeds", "1"]);
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("measured"), "{table}");
    assert_eq!(
        lines.iter().filter(|line| line.ends_with("met") || line.ends_with("MISSED")).count(),
        5
    );
    assert!(table.contains("Times: again "), "{table}");
}

#[test]
fn wrong_flags_are_refused_with_their_reason() {
    for (flags, reason) in [
        (&["speed"][..], "[possible values: size, streams, repeats,"),
        (&["--keys", "1"], "1 is not in 100..=100000000"),
        (&["--filters", "bloom"], "no filter is called \"bloom\""),
        (&["streams", "--data", "/nowhere"], "/nowhere/streams: No such file"),
        (&["streams", "--data", "/x", "--stream", "y"], "cannot be used with"),
    ] {
        let output = bars(flags);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {errors}");
        assert!(errors.contains(reason), "{flags:?}: {errors}");
    }
}
