//! `twiceshy plan --for`: what to take where, and that races agree.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use twiceshy_filters::{Spec, WhenFull};
use twiceshy_lab::plan::model_error;

fn twiceshy(flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.args(flags.split_whitespace()).output().expect("the binary runs")
}

fn said(flags: &str) -> String {
    let output = twiceshy(&format!("plan {flags}"));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{flags}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

fn refused(flags: &str) -> String {
    let output = twiceshy(&format!("plan {flags}"));
    assert_eq!(output.status.code(), Some(2), "{flags}");
    assert!(output.stdout.is_empty(), "{flags}");
    String::from_utf8(output.stderr).expect("text")
}

fn advice(flags: &str) -> Value {
    serde_json::from_str(&said(&format!("{flags} --json"))).expect("JSON")
}

fn number(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("{field} of {row}"))
}

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).expect(path)
}

/// What is pasted is in a document whose commands and code are run by tests.
#[test]
fn what_is_pasted_is_in_the_documents() {
    for (flags, path) in [
        ("--keys 1M --for server", "README.md"),
        ("--keys 1M --rate 0.1% --for library", "docs/guide/embedded.md"),
        ("--keys 1M --rate 0.1% --for store", "docs/guide/embedded.md"),
        ("--keys 1M --rate 0.4% --for module", "README.md"),
    ] {
        let advice = advice(flags);
        let document = document(path);
        for line in advice["paste"].as_str().expect("text").lines() {
            // A document may import what the code names in full.
            let code = line.trim().trim_start_matches("let mut filter = twiceshy::");
            assert!(document.contains(code), "{flags}: {code} is not in {path}");
        }
    }
}

#[test]
fn one_sentence_and_what_to_paste() {
    for (place, paste) in [
        ("server", "    twiceshy serve --dir shield --store postgres://"),
        ("store", "    let store: twiceshy::store::GuardedStore ="),
        ("library", "    let mut filter = twiceshy::Filter::builder().capacity(1_000_000)"),
        ("module", "    AF.RESERVE users 0.002"),
    ] {
        let text = said(&format!("--keys 1M --for {place}"));
        let (sentence, rest) = text.split_once("\n\n").expect("two parts");
        assert!(sentence.starts_with("Take ") && sentence.ends_with('.'), "{sentence}");
        assert!(!sentence.contains(". "), "one sentence: {sentence}");
        assert!(sentence.replace('\n', " ").contains("bits per key"), "{sentence}");
        assert!(rest.starts_with(paste), "{rest}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}

#[test]
fn a_rate_and_a_memory_are_kept() {
    for place in ["store", "library", "module"] {
        for rate in [0.02, 0.002, 0.0005, 0.0001] {
            let advice = advice(&format!("--keys 1M --rate {rate} --for {place}"));
            assert!(number(&advice, "first_pass_rate") <= rate, "{place}: {advice}");
            // No filter of a key takes so much more than its information.
            let bits = number(&advice, "bits_per_key");
            assert!(bits < 1.5 * -rate.log2() + 4.0, "{place}, {rate}: {bits}");
        }
        let mut rates = Vec::new();
        for memory in ["1.5MiB", "2MiB", "4MiB"] {
            let advice = advice(&format!("--keys 1M --memory {memory} --for {place}"));
            let most: f64 = memory.trim_end_matches("MiB").parse().expect("a number");
            // A filter alone has some 600 bytes besides.
            let bytes = number(&advice, "bytes") - 600.0;
            assert!(bytes <= most * 1_048_576.0, "{place}: {advice}");
            rates.push(number(&advice, "first_pass_rate"));
        }
        assert!(rates.is_sorted_by(|a, b| a > b), "{place}: {rates:?}");
    }
    let both = advice("--keys 1M --rate 0.2% --bits 12.5 --for library");
    assert!(both["paste"].as_str().expect("text").contains("Kind::Rsqf"), "{both}");
}

#[test]
fn what_cannot_be_used_there_is_not_recommended() {
    for (flags, expected) in [
        ("--keys 1M --rate 0.1% --for server", "the server has one filter, with a rate of 0.3"),
        ("--keys 1M --memory 1MiB --for server", "not 8.4 bits per key"),
        ("--keys 1M --rate 0.1% --bits 8 --for store", "has a rate of 0.10 % in 8.0 bits per key"),
        (
            "--keys 1M --rate 0.1% --bits 8 --for library",
            "no filter alone of 1,000,000 keys has a rate of",
        ),
        ("--keys 1M --rate 0.0000001% --for module", "no filter of the module of 1,000,000 keys"),
        ("--keys 100000G --for store", "100,000,000,000,000 keys are too many for one filter"),
        ("--keys 1M --misses 50 --hostile --for library", "no filter alone holds against"),
        ("--keys 1M --misses 50 --hostile --bits 12 --for module", "21 bytes per key"),
    ] {
        let error = refused(flags);
        assert!(error.contains(expected), "{flags}: {error}");
    }
    let defeated = "An attacker can defeat it: add --hostile";
    assert!(said("--keys 50M --memory 128MiB --for store").contains(defeated));
    assert!(!said("--keys 50M --memory 128MiB --for store --hostile").contains(defeated));
    assert!(!said("--keys 1M --for store").contains(defeated), "the usual filter holds");
    let hostile = "--keys 1M --misses 50 --hostile --for";
    for place in ["server", "store"] {
        assert!(advice(&format!("{hostile} {place}"))["breaks_at"].is_null(), "{place}");
    }
    let module = advice(&format!("{hostile} module"));
    assert_eq!(module["paste"], "AF.RESERVE users 0.002 1000000 REMOTE memory");
    // Of a size that the module refuses by default.
    let large = said("--keys 100M --for module");
    assert!(large.contains("loadmodule libtwiceshy_module.so MAX-BYTES "), "{large}");
}

/// A race of one filter in the memory that a plan says: its row.
fn raced(filter: &str, bits: f64, stream: &str) -> Value {
    let output = twiceshy(&format!("race --filters {filter} --bits {bits} {stream} --json"));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{filter}: {error}");
    serde_json::from_str(&String::from_utf8_lossy(&output.stdout)).expect("one row")
}

/// Whether a share of the absent keys was measured that a plan expects: binomial, with 5.0
/// standard deviations (two-sided: 6e-7), and a hundredth for loads that are rounded.
fn agrees(measured: f64, expected: f64, keys: f64) -> bool {
    (measured - expected).abs() <= 5.0 * (expected / keys).sqrt() + 0.01 * expected
}

/// A guard's filters have room to grow, and a race's have none: rates are as the loads.
#[test]
fn numbers_agree_with_a_race() {
    const KEYS: f64 = 20_000.0;
    let stream = "--keys 20000 --distinct 10 --workload repeats:10";
    for flags in [
        "--for server",
        "--for store --rate 0.4%",
        "--for store --rate 0.1%",
        "--for store --bits 10",
        "--for store --bits 14",
        "--for store --bits 20",
    ] {
        let planned = advice(&format!("--keys 20000 --misses 10 --repeats 10 {flags}"));
        let spec: Spec = planned["spec"].as_str().expect("a spec").parse().expect("a filter");
        // Without the room of a guard's shards.
        let bits = spec.build(20_000).expect("a filter").stats().bits as f64 / KEYS + 1e-6;
        let row = raced(&spec.to_string(), bits, stream);
        let there: Spec = row["spec"].as_str().expect("a spec").parse().expect("a filter");
        let same = WhenFull::Error;
        assert_eq!(there.when_full(same), spec.when_full(same), "{flags}");
        let [fuller, emptier] = [&row, &planned].map(|of| spec.first_pass_rate(number(of, "load")));
        let fuller = fuller / emptier;
        let first = number(&planned, "first_pass_rate") * fuller;
        let seen = number(&row, "first_pass_rate");
        assert!(agrees(seen, first, 10.0 * KEYS), "{flags}: {seen}, planned {first}");
        // False positives come in clusters of at most as many as a key is asked, ten. A Poisson
        // number of clusters of mean m is within 5 sqrt(m) + 12.5 but for a probability below 1e-6.
        let queries = number(&row, "queries");
        let expected = number(&planned, "reads_per_query") * fuller * queries;
        let reads = number(&row, "remote_reads");
        let noise = (5.0 * (expected / 10.0).sqrt() + 12.5) * 10.0;
        let error = model_error(row["filter"].as_str().expect("a name"));
        assert!(
            (reads - expected).abs() <= error * expected + noise,
            "{flags}: {reads} reads, planned {expected}, noise {noise}"
        );
        // The comparison can fail.
        assert!(noise < 3.0 * expected, "{flags}: {noise}, {expected}");
    }
    for rate in ["0.2%", "0.1%", "0.05%"] {
        let planned = advice(&format!("--keys 20000 --rate {rate} --for library"));
        let row = raced("line", number(&planned, "bits_per_key"), stream);
        let first = number(&planned, "first_pass_rate");
        let seen = number(&row, "first_pass_rate");
        assert!(agrees(seen, first, 10.0 * KEYS), "{rate}: {seen}, planned {first}");
    }
}
