//! `twiceshy build`, `query`, `inspect` and `adapt` as a user or a script sees them.

mod folder;
mod keys;
mod pipes;
mod secrets;
mod writers;

use std::fs;
use std::process::Command;

use serde_json::Value;

use folder::{ABSENT, Folder, STORED, code, lines, number, numbered, prefixed, stderr};

/// One of each family, with short fingerprints: many false positives in a short test.
const SPECS: [&str; 8] = [
    "telescoping:f=6,spent=reseed",
    "telescoping:f=6",
    "extension:f=6",
    "uncompressed:f=6",
    "broom:f=6",
    "broom:f=6,form=faithful",
    "cuckooing:f=8",
    "cyclic:f=8,s=2",
];

/// Of 20,000 absent keys a filter with these fingerprints takes at least 0.3 % for stored:
/// none at all has a probability of e^-60. About 300 are told to filters of 30 blocks, so
/// some blocks are spent and forget, and how many stay wrong is random (of `extension` half).
/// But the key that is told last in its block is right afterwards, unless it collides again
/// with a chance of at most one in 32: for all 30 blocks at once that is 2^-150.
#[test]
fn build_query_adapt_query_without_a_false_negative() {
    for spec in SPECS {
        let folder = Folder::with_filter(spec);
        folder.check_no_false_negative();
        let wrong = folder.maybe("absent");
        assert!(!wrong.is_empty(), "{spec}");
        let list = wrong.join("\n") + "\nstored 7\nstored 7\n";
        folder.write("list", &list);

        let output = folder.run("adapt f --false-positives list --keys keys --json");
        let report: Value = serde_json::from_str(&lines(&output)[0]).expect("JSON");
        assert_eq!(report["schema"], "twiceshy.adapt.v1");
        let [fixed, absent, stored, unfixed] =
            ["fixed", "already_absent", "stored", "unfixed"].map(|field| number(&report, field));
        assert_eq!((fixed + unfixed, absent, stored), (wrong.len(), 0, 1), "{spec}: {report}");
        assert!(fixed > 0, "{spec}: {report}");
        assert_eq!(code(&output), i32::from(unfixed != 0), "{spec}: {report}");

        folder.check_no_false_negative();
        let still = folder.maybe("list");
        assert_eq!(still.len(), unfixed + 2, "{spec}: {still:?}");
        let inspected = folder.json("inspect f");
        assert_eq!(inspected["schema"], "twiceshy.inspect.v1");
        assert_eq!(inspected["spec"].as_str().map(|full| &full[..7]), Some(&spec[..7]));
        assert!(number(&inspected, "adaptations") > 0, "{spec}: {inspected}");
        assert_eq!((number(&inspected, "keys"), &inspected["whole"]), (STORED, &true.into()));
    }
}

#[test]
fn slot_states_are_counted_key_by_key() {
    for spec in ["telescoping:f=6", "uncompressed:f=6", "extension:f=6", "cyclic:f=8,s=2"] {
        let folder = Folder::with_filter(spec);
        let states = |folder: &Folder| -> Vec<u64> {
            let report = folder.json("inspect f");
            let counts = report["states"].as_array().expect("a histogram");
            counts.iter().map(|count| count.as_u64().expect("a number")).collect()
        };
        assert_eq!(states(&folder), [STORED as u64], "{spec}");
        folder.write("list", folder.maybe("absent").join("\n"));
        folder.run("adapt f --false-positives list");
        let after = states(&folder);
        assert_eq!(after.iter().sum::<u64>(), STORED as u64, "{spec}: {after:?}");
        assert!(after.len() > 1 && after[1..].iter().sum::<u64>() > 0, "{spec}: {after:?}");
        let text = lines(&folder.run("inspect f"));
        assert!(text.iter().any(|line| line.starts_with("    1  ")), "{spec}: {text:?}");
    }
}

#[test]
fn a_filter_that_does_not_adapt_says_so() {
    let folder = Folder::with_filter("rsqf:f=6");
    let wrong = folder.maybe("absent");
    folder.write("list", wrong.join("\n"));
    let output = folder.run("adapt f --false-positives list");
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    let expected = format!("{} could not be fixed", wrong.len());
    assert!(lines(&output)[0].contains(&expected), "{:?}", lines(&output));
    assert_eq!(folder.json("inspect f")["states"], Value::Array(vec![]));
    folder.check_no_false_negative();
}

#[test]
fn damaged_and_truncated_files_are_refused() {
    let folder = Folder::with_filter("telescoping:f=8");
    let whole = fs::read(folder.path("f")).expect("a file");
    let mut damaged: Vec<(String, Vec<u8>)> = Vec::new();
    for step in 0..12 {
        let at = step * (whole.len() - 1) / 11;
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (step % 8);
        damaged.push((format!("bit flipped at {at}"), flipped));
        damaged.push((format!("cut to {at}"), whole[..at].to_vec()));
    }
    damaged.push(("a byte more".into(), [&whole[..], b"x"].concat()));
    damaged.push(("no filter".into(), b"hello".to_vec()));
    for (what, bytes) in damaged {
        folder.write("f", &bytes);
        let inspected = folder.run("inspect f");
        assert_eq!(code(&inspected), 1, "{what}: {}", stderr(&inspected));
        assert!(lines(&inspected)[0].contains("not a usable saved filter"), "{what}");
        let report = folder.json("inspect f");
        assert_eq!(report["whole"], false, "{what}: {report}");
        for arguments in ["query f --key a", "adapt f --false-positives absent"] {
            let output = folder.run(arguments);
            assert_eq!(code(&output), 2, "{what}: {}", stderr(&output));
            assert!(output.stdout.is_empty(), "{what}");
            assert!(stderr(&output).contains("not a usable saved filter"), "{}", stderr(&output));
        }
        assert_eq!(fs::read(folder.path("f")).expect("a file"), bytes, "{what}");
    }
}

#[test]
fn no_keys_make_an_empty_filter() {
    let folder = Folder::new();
    let report = folder.json("build -o f");
    assert_eq!((number(&report, "keys"), number(&report, "capacity")), (0, 1));
    assert_eq!(lines(&folder.run("query f --key a --key b")), ["absent\ta", "absent\tb"]);
    assert!(folder.run("query f").stdout.is_empty(), "no questions, no answers");
    let report = folder.json("inspect f");
    assert_eq!((number(&report, "keys"), &report["bits_per_key"]), (0, &Value::Null));
}

#[test]
fn duplicates_are_counted_once_and_capacity_is_room() {
    let folder = Folder::new();
    folder.write("keys", "a\nb\na\n\nb\na");
    let report = folder.json("build keys -o f --capacity 500");
    let names = ["keys", "duplicates", "blank_lines", "capacity"];
    assert_eq!(names.map(|field| number(&report, field)), [2, 3, 1, 500], "{report}");
    let report = folder.json("build keys -o f --capacity 1");
    assert_eq!(number(&report, "capacity"), 2, "{report}");
    // More than any memory has, and more than any filter.
    for capacity in [1_u64 << 42, u64::MAX] {
        let output = folder.run(&format!("build keys -o f --capacity {capacity}"));
        assert_eq!(code(&output), 2, "{capacity}");
        assert!(stderr(&output).contains("lower --capacity"), "{}", stderr(&output));
    }
}

#[cfg(unix)]
#[test]
fn exit_codes_are_as_documented() {
    let folder = Folder::with_filter("telescoping:f=24");
    folder.write("half", prefixed(&[b"a"]).split_last().expect("bytes").1);
    fs::create_dir(folder.path("d")).expect("a folder");
    // Stands for every device: a real one would not survive a failure of this test.
    let pipe = Command::new("mkfifo").arg(folder.path("pipe")).status().expect("mkfifo runs");
    assert!(pipe.success());
    // "x" is a false positive with a probability of 2^-24.
    for (arguments, expected) in [
        ("query f --key x", 0),
        ("query f keys --count", 0),
        ("query f --key x --exit-code", 0),
        ("query f keys --exit-code", 1),
        ("query f keys --count --exit-code", 1),
        ("query f nowhere", 2),
        ("query nowhere --key x", 2),
        ("query f keys --key x", 2),
        ("query f half --format lp32", 2),
        ("inspect f", 0),
        ("inspect keys", 1),
        ("inspect nowhere", 2),
        ("adapt f --false-positives keys", 0),
        ("adapt f", 2),
        ("adapt f --false-positives - --keys -", 2),
        ("adapt f --false-positives nowhere", 2),
        ("build keys", 2),
        ("build nowhere -o g", 2),
        ("build keys -o g --spec nonsense", 2),
        ("build keys -o d", 2),
        ("build keys -o nowhere/g", 2),
        ("build keys -o pipe", 2),
        ("build keys -o g", 0),
        ("completions bash", 0),
        ("completions teapot", 2),
    ] {
        let output = folder.run(arguments);
        assert_eq!(code(&output), expected, "{arguments}: {}", stderr(&output));
        assert_eq!(stderr(&output).is_empty(), expected != 2, "{arguments}");
    }
    assert!(!fs::metadata(folder.path("pipe")).expect("a pipe").is_file());
}

#[test]
fn counts_are_those_of_the_answers() {
    let folder = Folder::with_filter("telescoping:f=4");
    let wrong = folder.maybe("absent").len();
    let report = folder.json("query f absent --count");
    assert_eq!(report["schema"], "twiceshy.query.count.v1");
    assert_eq!((number(&report, "maybe"), number(&report, "absent")), (wrong, ABSENT - wrong));
    assert_eq!(lines(&folder.run("query f keys --count")), ["maybe\t2,000", "absent\t0"]);
}

#[test]
fn keys_that_are_not_the_filters_are_refused() {
    let folder = Folder::with_filter("telescoping:f=4");
    let bytes = fs::read(folder.path("f")).expect("a file");
    folder.write("fewer", numbered("stored", STORED - 3));
    folder.write("more", numbered("stored", STORED + 2));
    for (keys, missing, surplus) in
        [("fewer", "0", "3"), ("more", "2", "0"), ("absent", "20,000", "2,000")]
    {
        let output = folder.run(&format!("adapt f --false-positives absent --keys {keys}"));
        assert_eq!(code(&output), 2);
        let expected = format!("{missing} of the --keys are not in it, and {surplus} of its keys");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
        assert_eq!(fs::read(folder.path("f")).expect("a file"), bytes, "{keys}");
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_filter_stays_a_link() {
    let folder = Folder::with_filter("telescoping:f=4");
    std::os::unix::fs::symlink("f", folder.path("link")).expect("a link");
    folder.write("list", folder.maybe("absent").join("\n"));
    let report = folder.json("adapt link --false-positives list");
    assert!(number(&report, "fixed") > 0, "{report}");
    assert!(folder.path("link").is_symlink() && !folder.path("link.secret").exists());
    assert!(number(&folder.json("inspect f"), "adaptations") > 0);
}

#[test]
fn every_verb_documents_its_exit_codes() {
    let folder = Folder::new();
    for verb in ["build", "query", "inspect", "adapt", "completions"] {
        let help = lines(&folder.run(&format!("{verb} --help"))).join("\n");
        assert!(help.contains("Exit code: 0"), "{verb}: {help}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = lines(&folder.run(&format!("completions {shell}"))).join("\n");
        assert!(script.contains("false-positives"), "{shell}");
    }
}
