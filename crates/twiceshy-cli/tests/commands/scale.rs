//! `twiceshy scale` as a user or a script sees it.

use std::process::{Command, Output};

use serde_json::Value;

/// Runs `twiceshy scale` with flags that are separated by spaces.
fn scale(flags: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg("scale").args(flags.split_whitespace()).output().expect("the binary runs")
}

fn stdout(flags: &str) -> String {
    let output = scale(flags);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), errors.as_str()), (Some(0), ""), "{flags}");
    String::from_utf8(output.stdout).expect("text")
}

const SMALL: &str = "--keys 5000 --partitions 12 --queries 20000 --first-pass 20000 --seed 3 \
                     --times failover=100ms --events 200ms:lose:1,500ms:reshard:4";

#[test]
fn json_has_a_row_per_phase_event_and_node_and_one_of_the_run() {
    let text = stdout(&format!("{SMALL} --json"));
    let rows: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(rows.iter().all(|row| row["schema"] == "twiceshy.scale.v1"), "{text}");
    let of = |kind: &str| rows.iter().filter(|row| row["row"] == kind).collect::<Vec<_>>();
    let names =
        |kind, field: &str| of(kind).iter().map(|row| row[field].clone()).collect::<Vec<_>>();
    assert_eq!(names("phase", "phase"), ["traffic", "collect", "replay"]);
    assert_eq!(names("event", "event"), ["lose:1", "reshard:4"]);
    assert_eq!(names("node", "node"), [0, 1, 2, 3]);
    let [run] = of("run")[..] else { panic!("one run: {text}") };
    assert_eq!((&run["keys"], &run["nodes"], &run["seed"]), (&5000.into(), &4.into(), &3.into()));
    assert_eq!(run["false_negatives"], 0);
    // What a script can measure on a real cluster as well.
    for field in ["bytes_per_key", "first_pass_per_million", "attack_queries", "attack_wasted"] {
        assert!(run[field].is_number(), "{field}: {run}");
    }
    let shares: f64 = of("node").iter().map(|row| row["share"].as_f64().expect("a share")).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    let traffic = of("phase")[0];
    let requests = [&traffic["lookups"], &traffic["inserts"]].map(|count| count.as_u64());
    assert_eq!(requests.into_iter().flatten().sum::<u64>(), 20_000);
}

#[test]
fn tables_fit_a_terminal() {
    let text = stdout(SMALL);
    for expected in ["phase ", "0.200 s: lose:1", "node ", "First pass:", "False negatives: 0"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// The file is what a script sends to a real cluster: every key that is asked for as stored was
/// added before, to the same filter.
#[test]
fn commands_can_be_played_elsewhere() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("requests");
    stdout(&format!("{SMALL} --attack 0 --commands {}", path.display()));
    let text = std::fs::read_to_string(&path).expect("a file");
    let mut added = std::collections::HashSet::new();
    for line in text.lines() {
        let [_, command, filter, key, truth] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("five columns: {line}")
        };
        assert_eq!(truth == "stored", added.contains(&(filter, key)), "{line}");
        if command == "add" {
            added.insert((filter, key));
        }
    }
    let reserved = text.lines().take_while(|line| line.starts_with("load\treserve\t")).count();
    assert_eq!((reserved, text.lines().count()), (12, 12 + 5000 + 20_000 + 20_000));
}

#[test]
fn wrong_flags_are_refused_with_their_reason() {
    for (flags, reason) in [
        ("--nodes 0", "from 1 to 1000"),
        ("--hits 2", "from 0 to 1"),
        ("--events 1s:explode:1", "no event"),
        ("--events 1s:lose:3", "nodes are 0 to 2"),
        ("--times lug=1s", "there are exists, add"),
        ("--rate 0", "more than 0 and less than 1"),
        ("--commands /nowhere/file --keys 10", "No such file"),
    ] {
        let output = scale(flags);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{flags}: {errors}");
        assert!(errors.contains(reason), "{flags}: {errors}");
    }
}

#[test]
fn help_says_where_times_are_from() {
    let help = String::from_utf8(scale("--help").stdout).expect("text");
    for expected in ["Examples:", "exists=800ns", "failover=16s", "docs/scale.md", "CRC16"] {
        assert!(help.contains(expected), "{expected}: {help}");
    }
}
