//! `twiceshy build`, `query`, `inspect` and `adapt` as a user or a script sees them.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

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

const STORED: usize = 2000;
const ABSENT: usize = 20_000;

/// A folder with a filter in it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), contents).expect("a file");
        self.path(name)
    }

    /// A command in this folder, with arguments that are separated by spaces.
    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
        command.current_dir(self.0.path()).args(arguments.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// The one JSON object that a command prints.
    fn json(&self, arguments: &str) -> Value {
        let output = self.run(&format!("{arguments} --json"));
        let lines = lines(&output);
        assert_eq!(lines.len(), 1, "{arguments}: {}", stderr(&output));
        serde_json::from_str(&lines[0]).expect("JSON")
    }

    /// A filter "f" of the keys in "keys", and "absent" with keys that are not.
    fn with_filter(spec: &str) -> Self {
        let folder = Folder::new();
        folder.write("keys", numbered("stored", STORED));
        folder.write("absent", numbered("absent", ABSENT));
        let output = folder.run(&format!("build keys -o f --spec {spec}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        folder
    }

    /// The keys of a file that are answered "maybe".
    fn maybe(&self, keys: &str) -> Vec<String> {
        let output = self.run(&format!("query f {keys}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let maybe = |line: &String| line.strip_prefix("maybe\t").map(str::to_string);
        lines(&output).iter().filter_map(maybe).collect()
    }

    fn check_no_false_negative(&self) {
        assert_eq!(self.maybe("keys").len(), STORED, "a stored key was denied");
    }
}

fn numbered(name: &str, count: usize) -> String {
    (0..count).map(|number| format!("{name} {number}\n")).collect()
}

fn lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stdout.clone()).expect("text").lines().map(str::to_string).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

fn prefixed(keys: &[&[u8]]) -> Vec<u8> {
    let length = |key: &[u8]| u32::try_from(key.len()).expect("short").to_le_bytes();
    keys.iter().flat_map(|key| [&length(key), *key].concat()).collect()
}

fn number(value: &Value, field: &str) -> usize {
    let number = value[field].as_u64().unwrap_or_else(|| panic!("{field} of {value}"));
    usize::try_from(number).expect("a size")
}

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
        assert!(stderr(&output).contains("less --capacity"), "{}", stderr(&output));
    }
}

#[test]
fn keys_may_be_any_bytes() {
    let folder = Folder::new();
    let keys: [&[u8]; 4] = [b"two\nlines", b"\xff\xfe\0", b"", b"tab\t"];
    folder.write("keys", prefixed(&keys));
    assert_eq!(number(&folder.json("build keys -o f --format lp32"), "keys"), 4);
    let output = folder.run("query f keys --format lp32 --json");
    let answers: Vec<Value> =
        lines(&output).iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(answers.iter().all(|answer| answer["answer"] == "maybe"), "{answers:?}");
    let names: Vec<&Value> = answers
        .iter()
        .map(|answer| answer.get("key").unwrap_or_else(|| &answer["key_hex"]))
        .collect();
    assert_eq!(names, ["two\nlines", "fffe00", "", "tab\t"]);

    // As lines, all bytes but NUL come back as they are.
    folder.write("keys", b"\xff\xfe\x01\rc\nb\n");
    assert_eq!(number(&folder.json("build keys -o f"), "keys"), 2);
    assert_eq!(folder.run("query f keys").stdout, b"maybe\t\xff\xfe\x01\rc\nmaybe\tb\n");
}

#[cfg(unix)]
#[test]
fn keys_as_arguments_may_be_any_bytes_too() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    folder.write("keys", b"\xff\xfe\n");
    folder.run("build keys -o f");
    let mut command = folder.command("query f --key");
    let output = command.arg(OsStr::from_bytes(b"\xff\xfe")).output().expect("the binary runs");
    assert_eq!(output.stdout, b"maybe\t\xff\xfe\n");
}

/// A key of 4 GiB is announced to a process that may have 2.
#[cfg(target_os = "linux")]
#[test]
fn a_huge_length_is_an_error_and_no_allocation() {
    let folder = Folder::new();
    folder.write("keys", [0xff; 1000]);
    let script = "ulimit -v 2000000; exec \"$0\" build keys -o f --format lp32";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_twiceshy")]).current_dir(folder.0.path());
    let output = shell.output().expect("a shell");
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("4294967295"), "{}", stderr(&output));
    assert!(!folder.path("f").exists(), "nothing is built from half a list");
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
fn a_closed_pipe_is_no_error() {
    let folder = Folder::with_filter("telescoping:f=8");
    for flags in ["", "--json"] {
        let mut child =
            folder.command(&format!("query f absent {flags}")).spawn().expect("it runs");
        let mut first = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
        reader.read_line(&mut first).expect("a line");
        drop(reader);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{flags}");
    }
}

/// Nobody reads from the first byte on, whatever the verb.
#[test]
fn a_pipe_that_was_never_read_is_no_error() {
    let folder = Folder::with_filter("telescoping:f=8");
    folder.write("misses", folder.maybe("absent").join("\n"));
    for verb in [
        "build keys -o g",
        "query f keys",
        "query f keys --count",
        "inspect f",
        "adapt f --false-positives misses",
        "completions bash",
        "completions zsh",
    ] {
        let json = if verb.starts_with("completions") { "" } else { "--json" };
        for flags in ["", json] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let mut command = folder.command(&format!("{verb} {flags}"));
            let output = command.stdout(writer).output().expect("it runs");
            assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{verb} {flags}");
        }
    }
    folder.check_no_false_negative();
}

#[test]
fn a_pipe_that_stays_open_is_answered() {
    let folder = Folder::with_filter("telescoping:f=8");
    let mut command = folder.command("query f -");
    let mut child: Child = command.stdin(Stdio::piped()).spawn().expect("it runs");
    let mut questions = child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
    for key in ["stored 1", "stored 2"] {
        writeln!(questions, "{key}").expect("it reads");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("an answer");
        assert_eq!(answer, format!("maybe\t{key}\n"));
    }
    drop(questions);
    assert!(child.wait().expect("it ends").success());
}

#[cfg(unix)]
#[test]
fn the_secret_is_for_its_owner_and_the_file_for_whom_the_umask_says() {
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    let folder = Folder::new();
    folder.write("keys", "a\nb\n");
    let build = |umask: &str| {
        let script = format!("umask {umask}; exec \"$0\" build keys -o f{umask}");
        let mut shell = Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_twiceshy")]).current_dir(folder.0.path());
        shell.output().expect("a shell")
    };
    for (umask, expected) in [("000", 0o666), ("027", 0o640)] {
        assert!(build(umask).status.success());
        assert_eq!(mode(&folder.path(&format!("f{umask}"))), expected, "{umask}");
        assert_eq!(mode(&folder.path(&format!("f{umask}.secret"))), 0o600, "{umask}");
    }
    // Who replaces a file leaves its mode as it is, whatever the umask.
    let file = folder.path("f027");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o606)).expect("our file");
    assert!(build("027").status.success());
    assert_eq!(mode(&file), 0o606);

    let secret = folder.path("f000.secret");
    let bytes = fs::read(&secret).expect("a secret");
    fs::set_permissions(&secret, PermissionsExt::from_mode(0o644)).expect("our file");
    let output = folder.run("query f000 --key a");
    assert_eq!((code(&output), lines(&output)), (0, vec!["maybe\ta".to_string()]));
    assert!(stderr(&output).contains("open to others (mode 644)"), "{}", stderr(&output));
    assert_eq!(fs::read(&secret).expect("a secret"), bytes, "built again with the same secret");
}

#[test]
fn without_its_secret_a_filter_can_only_be_looked_at() {
    let folder = Folder::with_filter("telescoping:f=8");
    let secret = fs::read(folder.path("f.secret")).expect("a secret");
    fs::remove_file(folder.path("f.secret")).expect("our file");
    let output = folder.run("query f --key a");
    assert_eq!(code(&output), 2);
    assert!(stderr(&output).contains("f.secret is missing"), "{}", stderr(&output));
    let report = folder.json("inspect f");
    assert_eq!((number(&report, "keys"), &report["whole"]), (STORED, &true.into()));

    folder.write("f.secret", &secret[1..]);
    assert!(stderr(&folder.run("query f --key a")).contains("16 bytes that are no secret"));
    let mut other = secret.clone();
    other[16] ^= 1;
    for (bytes, expected) in [(other, 2), (secret, 0)] {
        folder.write("f.secret", bytes);
        let output = folder.run("query f --key a");
        assert_eq!(code(&output), expected);
        assert_eq!(stderr(&output).contains("another hasher or secret"), expected == 2);
    }
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

/// Readers see a whole filter at any time, whoever replaces it.
#[test]
fn readers_go_on_while_the_file_is_replaced() {
    let folder = Folder::with_filter("telescoping:f=4");
    let wrong = folder.maybe("absent");
    let done = std::sync::atomic::AtomicBool::new(false);
    let before = fs::read(folder.path("f")).expect("a file");
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|_| {
            scope.spawn(|| {
                let mut reads = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    folder.check_no_false_negative();
                    reads += 1;
                }
                reads
            })
        });
        for part in wrong.chunks(wrong.len().div_ceil(10)) {
            folder.write("list", part.join("\n"));
            let output = folder.run("adapt f --false-positives list");
            assert!(code(&output) < 2, "{}", stderr(&output));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().expect("a reader") > 0);
        }
    });
    assert!(fs::read(folder.path("f")).expect("a file") != before);
}

/// Who adapts or builds keeps other writers out from its first read to its last
/// write, and no reader.
#[cfg(unix)]
#[test]
fn a_second_writer_is_told_at_once() {
    let folder = Folder::with_filter("telescoping:f=6");
    let false_positives = folder.maybe("absent");
    folder.write("misses", false_positives.join("\n"));
    for slow in ["adapt f --false-positives -", "build -o f"] {
        let mut first = folder.command(slow).stdin(Stdio::piped()).spawn().expect("it runs");
        let mut input = first.stdin.take().expect("a pipe");
        // More than a pipe holds: when all of it is written, it is being read.
        input.write_all(numbered("stored", STORED).repeat(20).as_bytes()).expect("it reads");
        for second in ["adapt f --false-positives misses", "build keys -o f"] {
            let output = folder.run(second);
            assert_eq!(code(&output), 2, "{slow}, {second}");
            let error = stderr(&output);
            assert!(error.contains("run it again when that is done"), "{second}: {error}");
        }
        folder.check_no_false_negative();
        drop(input);
        let output = first.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 0, "{slow}: {}", stderr(&output));
        folder.check_no_false_negative();
    }
    // Nobody has it any more. (1: not all of them could be fixed.)
    let output = folder.run("adapt f --false-positives misses");
    assert!(code(&output) < 2, "{}", stderr(&output));
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
