//! `twiceshy plan` as a user or a script sees it.

use std::process::{Command, Output};

use serde_json::Value;
use twiceshy_lab::plan::model_error;

/// Runs `twiceshy plan` with flags that are separated by spaces.
fn plan(flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg("plan").args(flags.split_whitespace());
    command.output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn rows(flags: &str) -> Vec<Value> {
    let output = plan(&format!("{flags} --json"));
    assert_eq!(output.status.code(), Some(0), "{flags}: {}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

const SMALL: &str = "--keys 20000 --bits 11.6 --misses 5";

#[test]
fn json_has_one_line_a_filter_the_best_first() {
    let rows = rows(SMALL);
    assert!(rows.len() > 10, "{rows:?}");
    let mut reads = 0.0;
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row["schema"], "twiceshy.plan.v1");
        assert_eq!(row["rank"], index + 1);
        assert_eq!((row["keys"].as_u64(), row["misses"].as_f64()), (Some(20_000), Some(5.0)));
        assert_eq!(row["repeats"], 10.0, "the default");
        let number = |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"));
        assert!(number("bits_per_key") <= 11.6, "{row}");
        assert!(number("reads_per_query") >= reads, "{row}");
        assert!(number("reads_per_query") >= number("rate"), "{row}");
        reads = number("reads_per_query");
        if row["library"] == true {
            let spec: twiceshy_filters::Spec =
                row["spec"].as_str().expect("a spec").parse().expect("a filter");
            assert_eq!(row["filter"], spec.label(), "what is pasted is what was meant");
        }
    }
}

#[test]
fn csv_has_a_header_and_as_many_columns_in_each_line() {
    let output = plan(&format!("{SMALL} --csv"));
    let csv = text(&output.stdout);
    let mut lines = csv.lines();
    let header = lines.next().expect("a header");
    assert!(header.starts_with("rank,filter,spec,bits_per_key,"), "{header}");
    for line in lines {
        // The spec is quoted, and alone has commas of its own.
        let outside: String = line.split('"').step_by(2).collect();
        assert_eq!(outside.split(',').count(), header.split(',').count(), "{line}");
    }
}

#[test]
fn the_table_ends_with_advice_and_code() {
    let output = plan(SMALL);
    let table = text(&output.stdout);
    assert!(
        table.starts_with("20,000 keys, at most 11.6 bits per key; 100,000 absent keys"),
        "{table}"
    );
    assert!(table.contains("\nTake "), "{table}");
    assert!(table.contains("\nIn code: \""), "{table}");
    assert!(table.ends_with("--for server, store, library or module.\n"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    // Who does not fit is named.
    assert!(text(&output.stderr).contains("broom is left out"), "{}", text(&output.stderr));
}

#[test]
fn it_says_when_adapting_does_not_pay() {
    let output = plan(&format!("{SMALL} --repeats 1"));
    assert!(text(&output.stdout).contains("Adapting does not pay"), "{}", text(&output.stdout));
    let output = plan(&format!("{SMALL} --repeats 100"));
    assert!(!text(&output.stdout).contains("does not pay"), "{}", text(&output.stdout));
}

/// Popular keys are found early, and asked for most.
#[test]
fn skew_helps_filters_that_adapt() {
    let (equal, skewed) = (rows(SMALL), rows(&format!("{SMALL} --zipf 1.2")));
    let rate = |rows: &[Value], filter: &str| {
        let row = rows.iter().find(|row| row["filter"] == filter).expect(filter);
        row["rate"].as_f64().expect("a rate")
    };
    for filter in ["telescoping", "cyclic-1", "swapping"] {
        assert!(rate(&skewed, filter) < 0.7 * rate(&equal, filter), "{filter}");
    }
    assert_eq!(rate(&skewed, "plain"), rate(&equal, "plain"));
}

#[test]
fn an_adversary_changes_the_ranking() {
    let rows = rows("--keys 250000 --bits 11.6 --misses 50 --hostile");
    assert_eq!(rows[0]["filter"], "telescoping-reseed");
    assert!(rows[0]["breaks_at"].is_null());
    let plain = rows.iter().find(|row| row["filter"] == "plain").expect("it fits");
    assert_eq!(plain["rate"], 1.0);
}

#[test]
fn errors_say_what_to_do() {
    for (flags, expected) in [
        ("--keys 0 --bits 12 --misses 1", "a number of keys, at least 1"),
        ("--keys 10 --bits 1 --misses 1", "from 2 to 64"),
        ("--keys 10 --bits 12 --misses 0", "a positive number up to 10000"),
        ("--keys 10 --bits 12 --misses 1 --repeats 0.5", "from 1 to 1000000"),
        ("--keys 10 --bits 12 --misses 1 --json --csv", "cannot be used with"),
        (
            "--keys 1000 --bits 2 --misses 1",
            "No filter of 1000 keys fits 2 bits per key; allow more",
        ),
        ("--keys 1000000000000 --bits 12 --misses 1", "cut the keys into several filters"),
        ("--keys 18446744073709551615 --bits 12 --misses 1", "cut the keys into several filters"),
        ("--bits 12 --misses 1", "--keys <N>"),
        ("--keys 1M", "with --for server, store, library or module"),
        ("--keys 1M --rate 0.1%", "--for <PLACE>"),
        ("--keys 1M --bits 12 --rate 0.1%", "--for <PLACE>"),
        ("--keys 1M --bits 12 --memory 2MiB", "cannot be used with"),
        ("--keys 1M --memory 2XB", "such as 64MiB"),
        ("--keys 1M --memory 64KiB", "64.0 KiB for 1,000,000 keys are 0.52 bits per key; allow"),
    ] {
        let output = plan(flags);
        assert_eq!(output.status.code(), Some(2), "{flags}");
        assert!(text(&output.stderr).contains(expected), "{flags}: {}", text(&output.stderr));
    }
}

/// The quotient family tells 2^32 slots apart, cuckoo filters of two tables and bins of
/// four eight times as many cells.
#[test]
fn filters_that_cannot_be_built_are_not_recommended() {
    let output = plan("--keys 5000000000 --bits 12 --misses 1 --json");
    assert_eq!(output.status.code(), Some(0));
    let filters: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["filter"].clone())
        .collect();
    assert!(filters.iter().any(|filter| filter == "plain"), "{filters:?}");
    assert!(filters.iter().all(|filter| filter != "telescoping"), "{filters:?}");
    let said = text(&output.stderr);
    assert!(said.contains("telescoping is left out"), "{said}");
    assert!(said.contains("a capacity of 5000000000 is too large"), "{said}");
}

#[test]
fn help_has_examples_and_says_what_is_counted() {
    let help = text(&plan("--help").stdout);
    for expected in ["Examples:", "one read of the store", "mirror", "--hostile"] {
        assert!(help.contains(expected), "{expected}: {help}");
    }
}

/// Flags of `race` and of `plan` for the same stream, and queries for each absent key.
const PRESETS: [(&str, &str, f64); 4] = [
    ("--workload repeats:1 --distinct 10 --bits 11.6", "--misses 10 --repeats 1 --bits 11.6", 1.0),
    (
        "--workload repeats:20 --distinct 10 --bits 11.6",
        "--misses 10 --repeats 20 --bits 11.6",
        20.0,
    ),
    ("--workload repeats:10 --distinct 20 --bits 8.6", "--misses 20 --repeats 10 --bits 8.6", 10.0),
    ("--workload repeats:10 --distinct 5 --bits 20", "--misses 5 --repeats 10 --bits 20", 10.0),
];

/// What a filter read in all races of a preset.
struct Raced {
    spec: String,
    queries: f64,
    false_positives: f64,
    reads: f64,
}

fn raced(flags: &str) -> Vec<Raced> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg("race").args(flags.split_whitespace()).args(["--keys", "4000", "--seeds", "2"]);
    let output = command.arg("--json").output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(0), "{flags}: {}", text(&output.stderr));
    let mut all: Vec<Raced> = Vec::new();
    for line in text(&output.stdout).lines() {
        let row: Value = serde_json::from_str(line).expect(line);
        let number = |field: &str| row[field].as_f64().unwrap_or_else(|| panic!("{field}: {row}"));
        let spec = row["spec"].as_str().expect("a spec").to_string();
        let [queries, false_positives, reads] =
            ["queries", "false_positives", "remote_reads"].map(number);
        match all.iter_mut().find(|raced| raced.spec == spec) {
            None => all.push(Raced { spec, queries, false_positives, reads }),
            Some(raced) => {
                raced.queries += queries;
                raced.false_positives += false_positives;
                raced.reads += reads;
            }
        }
    }
    all
}

/// The two verbs as a user has them: the filters of a plan are those of a race, spec for
/// spec, and where a plan says that one reads less than another, and by more than the
/// models' stated errors, races do not say otherwise.
///
/// Noise: false positives come in clusters, of at most as many as a key is asked. A Poisson
/// number of clusters of mean `m` is within `5 sqrt(m) + 12.5` of it but for a probability
/// below 10^-6.
#[test]
fn plans_rank_filters_as_races_do() {
    for (race, ask, repeats) in PRESETS {
        let raced = raced(race);
        let planned = rows(&format!("--keys 4000 {ask}"));
        let standing: Vec<(&str, f64, f64, f64)> = planned
            .iter()
            .map(|row| {
                let spec = row["spec"].as_str().expect("a spec");
                let seen = raced.iter().find(|raced| raced.spec == spec);
                let seen = seen.unwrap_or_else(|| panic!("{spec} is not in the race {race}"));
                let predicted = row["rate"].as_f64().expect("a rate") * seen.queries;
                let clusters = seen.false_positives.max(predicted) / repeats;
                let each = seen.reads.max(1.0) / seen.false_positives.max(1.0) * repeats;
                let noise = (5.0 * clusters.sqrt() + 12.5) * each / seen.queries;
                let filter = row["filter"].as_str().expect("a name");
                (filter, seen.reads / seen.queries, noise, model_error(filter))
            })
            .collect();
        // Races tell the first from the last at least, so the comparison below can fail.
        let (Some(first), Some(last)) = (standing.first(), standing.last()) else {
            panic!("{ask}: no filter");
        };
        assert!(first.1 + first.2 < last.1 - last.2, "{ask}: {first:?}, {last:?}");
        for (rank, (better, reads, noise, error)) in standing.iter().enumerate() {
            for (worse, more, more_noise, more_error) in &standing[rank + 1..] {
                let tie = (1.0 + error) / (1.0 - more_error);
                assert!(
                    *reads <= (more + more_noise) * tie + noise,
                    "{ask}: {better} is planned before {worse}, but reads {reads}, not {more}"
                );
            }
        }
    }
}
