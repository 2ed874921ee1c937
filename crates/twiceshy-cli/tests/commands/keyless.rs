//! `twiceshy build --frozen` and `build --never`, and what the other verbs make of their files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

const STORED: usize = 5000;
const ABSENT: usize = 100_000;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("keys"), numbered("stored", STORED)).expect("a file");
    fs::write(folder.path().join("absent"), numbered("absent", ABSENT)).expect("a file");
    folder
}

fn numbered(name: &str, count: usize) -> String {
    (0..count).map(|number| format!("{name} {number}\n")).collect()
}

fn run(folder: &TempDir, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.current_dir(folder.path()).args(arguments.split_whitespace()).stdin(Stdio::null());
    command.output().expect("the binary runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

fn text(output: &Output) -> String {
    let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{error}")
}

fn json(folder: &TempDir, arguments: &str) -> Value {
    let output = run(folder, &format!("{arguments} --json"));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output)))
}

fn maybe(folder: &TempDir, keys: &str) -> u64 {
    json(folder, &format!("query f {keys} --count"))["maybe"].as_u64().expect("a number")
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).expect("a file").len()
}

#[test]
fn a_frozen_file_answers_and_stays_as_it_is() {
    let folder = folder();
    let built = json(&folder, "build keys -o f --frozen");
    assert_eq!(built["schema"], "twiceshy.build.filter.v1");
    assert_eq!((&built["keys"], &built["frozen"]), (&STORED.into(), &true.into()));
    // 12 bits at a load of 0.95, and what goes with them: no digests, no secret beside it.
    let bytes = size(&folder.path().join("f"));
    assert!(bytes < STORED as u64 * 128 / 80 + 400, "{bytes}");
    assert!(!folder.path().join("f.secret").exists());
    assert_eq!(maybe(&folder, "keys"), STORED as u64);
    // Mean 186 or so: more than 400, or none, has a probability far below 10^-20.
    let wrong = maybe(&folder, "absent");
    assert!(0 < wrong && wrong < 400, "{wrong}");

    let inspected = json(&folder, "inspect f");
    assert_eq!((&inspected["kind"], &inspected["whole"]), (&"frozen filter".into(), &true.into()));
    let shown = text(&run(&folder, "inspect f"));
    assert!(shown.contains("in the file") && shown.contains("frozen filter"), "{shown}");
    let output = run(&folder, "adapt f --false-positives absent --keys keys");
    assert!(code(&output) == 2 && text(&output).contains("--never"), "{}", text(&output));
    assert_eq!(size(&folder.path().join("f")), bytes);
}

/// All of the known negatives, and the stored keys among them stay stored.
#[test]
fn a_yes_no_list_is_right_on_both_lists() {
    for flags in ["", " --frozen", " --frozen --rate 0.2", " --rate 0.05 --capacity 20000"] {
        let folder = folder();
        let both = numbered("absent", ABSENT) + "stored 7\n\nstored 8\nstored 7\n";
        fs::write(folder.path().join("never"), both).expect("a file");
        let built = json(&folder, &format!("build keys -o f --never never{flags}"));
        let never = &built["never"];
        assert_eq!(
            (&never["keys"], &never["stored"]),
            (&(ABSENT + 2).into(), &2.into()),
            "{built}"
        );
        assert!(never["fixed"].as_u64() > Some(0) && never["blank_lines"] == 1, "{built}");
        assert_eq!(maybe(&folder, "keys"), STORED as u64, "{flags}");
        assert_eq!(maybe(&folder, "absent"), 0, "{flags}");
        let said = text(&run(&folder, &format!("build keys -o f --never never{flags}")));
        let promise = "answers \"absent\" to all 100,002 keys of --never that are not stored";
        assert!(said.contains(promise), "{said}");
    }
}

/// Without a table there is room for nothing, and with few keys for too little.
#[test]
fn a_list_that_no_table_holds_is_refused() {
    let folder = folder();
    fs::write(folder.path().join("one"), "a key\n").expect("a file");
    let output = run(&folder, "build one -o f --never absent --rate 0.9");
    assert!(code(&output) == 2 && text(&output).contains("lower --rate"), "{}", text(&output));
    assert!(!folder.path().join("f").exists());
}

#[test]
fn a_filter_without_digests_adapts_beside_its_keys() {
    let folder = folder();
    fs::write(folder.path().join("never"), "absent 1\n").expect("a file");
    assert_eq!(code(&run(&folder, "build keys -o f --never never --rate 0.01")), 0);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(folder.path().join("f")).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "its secret is in it");
    }
    let wrong: Vec<String> = String::from_utf8(run(&folder, "query f absent").stdout)
        .expect("text")
        .lines()
        .filter_map(|line| line.strip_prefix("maybe\t").map(str::to_string))
        .take(3)
        .collect();
    fs::write(folder.path().join("list"), wrong.join("\n") + "\nstored 7\n").expect("a file");
    let output = run(&folder, "adapt f --false-positives list");
    assert!(code(&output) == 2 && text(&output).contains("--keys"), "{}", text(&output));
    let adapted = json(&folder, "adapt f --false-positives list --keys keys");
    assert_eq!((&adapted["fixed"], &adapted["stored"]), (&3.into(), &1.into()), "{adapted}");
    assert_eq!((maybe(&folder, "list"), maybe(&folder, "keys")), (1, STORED as u64));
    let again = json(&folder, "adapt f --false-positives list --keys keys");
    assert_eq!((&again["already_absent"], &again["saved"]), (&3.into(), &false.into()), "{again}");
    let output = run(&folder, "adapt f --false-positives list --keys absent");
    assert!(code(&output) == 2 && text(&output).contains("are not in it"), "{}", text(&output));
}

#[test]
fn damage_is_noticed_and_wrong_flags_are_refused() {
    let folder = folder();
    assert_eq!(code(&run(&folder, "build keys -o f --frozen")), 0);
    let path = folder.path().join("f");
    let mut bytes = fs::read(&path).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, bytes).expect("a file");
    assert_eq!(code(&run(&folder, "inspect f")), 1);
    assert_eq!(code(&run(&folder, "query f --key a")), 2);
    for (flags, said) in [
        ("--frozen --spec rsqf:f=8", "--spec"),
        ("--rate 0.1", "--frozen or --never"),
        ("--frozen --rate 1.5", "rate=1.5"),
    ] {
        let output = run(&folder, &format!("build keys -o g {flags}"));
        assert!(code(&output) == 2 && text(&output).contains(said), "{flags}: {}", text(&output));
    }
    let output = run(&folder, "build -o g --never -");
    assert!(code(&output) == 2 && text(&output).contains("standard input"), "{}", text(&output));
}
