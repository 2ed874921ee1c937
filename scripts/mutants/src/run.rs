//! Switches mutants on, one by one, and runs the tests that reach them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::PACKAGES;

/// Of processor time, for a test that takes none without a mutant.
const LEAST_SECONDS: f64 = 3.0;
/// How much longer than without a mutant a test may compute.
const SLOWER: f64 = 5.0;
/// A test that computes longer without a mutant is left out.
const LONGEST_TEST: f64 = 20.0;
/// How long it may take to find out what a test reaches. What a longer one reaches later, and
/// nothing else does, is not known.
const RECORDED_SECONDS: f64 = 1.0;
/// What a test takes that has not been measured because it is long.
const ASSUMED_SECONDS: f64 = 5.0;
/// How long the tests of one mutant may take in all, without the mutant.
const ALL_TESTS: f64 = 60.0;
/// Of the clock, for one that waits forever. As many seconds more for a test that takes long.
const LONGEST_WAIT: f64 = 120.0;
/// Kilobytes of memory per test.
const MEMORY: u64 = 6 << 20;
/// The programs with tests of this code, beside the crates' unit tests.
const PROGRAMS: [&str; 5] = ["filters", "changed_files", "filter", "filter_files", "guard"];
/// Tests of the stores' files, which are slow and about other code.
const LEFT_OUT: &str = "store::";

#[derive(Clone)]
struct Test {
    package: String,
    program: PathBuf,
    directory: PathBuf,
    name: String,
    /// How long it takes without a mutant; unknown if that is long.
    seconds: Arc<OnceLock<f64>>,
}

impl Test {
    /// Measured when it is asked for.
    fn seconds(&self, tree: &Path) -> f64 {
        *self.seconds.get_or_init(|| {
            let start = Instant::now();
            let child = limited(tree, self, LONGEST_TEST).spawn().expect("the test runs");
            let passed = ended(child, LONGEST_TEST).is_some_and(|status| status.success());
            if passed { start.elapsed().as_secs_f64() } else { f64::INFINITY }
        })
    }

    /// The same, or what a long one is assumed to take.
    fn about(&self) -> f64 {
        self.seconds.get().copied().unwrap_or(ASSUMED_SECONDS)
    }
}

enum Outcome {
    Passed,
    Failed,
    TooLong,
}

/// Of each folder's mutants, leaves out the first `skip`, and tests the next `take`. What was tested
/// before is not tested again.
pub fn run(tree: &Path, skip: usize, take: usize) {
    // Tests run in the folders of their crates.
    let tree = &tree.canonicalize().expect("the tree is there");
    let tests = baseline(tree);
    let order: Vec<Value> = crate::report::woven(tree)
        .into_iter()
        .filter(|mutant| mutant["status"] == "woven" && crate::report::is_in(mutant, skip, take))
        .collect();
    let path = tree.join("outcomes.jsonl");
    let known: BTreeSet<u64> = crate::report::outcomes(&path).into_keys().collect();
    let todo: Vec<&Value> =
        order.iter().filter(|mutant| !known.contains(&number(mutant))).collect();
    println!("{} mutants, {} of them tested before", order.len(), order.len() - todo.len());
    let file =
        OpenOptions::new().append(true).create(true).open(path).expect("the tree can be written");
    let shared = Mutex::new((todo.into_iter(), file, BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers() {
            scope.spawn(|| worker(tree, &tests, &shared));
        }
    });
}

/// Tests at a time: as many as there are processors, or what the environment says.
fn workers() -> usize {
    let own = std::env::var("TWICESHY_MUTANT_WORKERS").ok().and_then(|text| text.parse().ok());
    own.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// [`ALL_TESTS`], or what the environment says.
fn all_tests() -> f64 {
    std::env::var("TWICESHY_MUTANT_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(ALL_TESTS)
}

fn number(mutant: &Value) -> u64 {
    mutant["id"].as_u64().expect("a number")
}

type Work<'a> = (std::vec::IntoIter<&'a Value>, std::fs::File, BTreeMap<(String, String), u32>);

fn worker(tree: &Path, tests: &[(Test, BTreeSet<u64>)], shared: &Mutex<Work<'_>>) {
    loop {
        let mut locked = shared.lock().expect("no worker panics");
        let Some(mutant) = locked.0.next() else { return };
        let file = mutant["file"].to_string();
        // First the crate's own tests, and of them those that are fast or caught mutants of this file.
        let mut reaching: Vec<&Test> = tests
            .iter()
            .filter(|(_, reached)| reached.contains(&number(mutant)))
            .map(|(test, _)| test)
            .collect();
        let rank = |test: &Test| {
            let caught = locked.2.get(&(file.clone(), test.name.clone())).copied().unwrap_or(0);
            (test.package != mutant["package"], test.about() / f64::from(1 + 4 * caught))
        };
        reaching.sort_by(|one, other| rank(one).partial_cmp(&rank(other)).expect("no NaN"));
        drop(locked);
        let start = Instant::now();
        let mut outcome = if reaching.is_empty() { "unreached" } else { "missed" };
        let mut by = None;
        let mut left = all_tests();
        for test in &reaching {
            // Not measured in vain.
            if test.about() > left || test.seconds(tree) > left {
                continue;
            }
            let seconds = test.about();
            left -= seconds;
            match run_test(tree, test, &number(mutant).to_string()) {
                Outcome::Passed => continue,
                Outcome::Failed => outcome = "caught",
                Outcome::TooLong => outcome = "timeout",
            }
            by = Some(test.name.clone());
            break;
        }
        let mut locked = shared.lock().expect("no worker panics");
        if let Some(by) = &by {
            *locked.2.entry((file, by.clone())).or_insert(0) += 1;
        }
        let row = json!({ "id": number(mutant), "name": mutant["name"], "file": mutant["file"], "outcome": outcome,
            "by": by, "tests": reaching.len(), "seconds": start.elapsed().as_secs_f64() });
        writeln!(locked.1, "{row}").expect("the outcome can be written");
        println!(
            "{outcome} {} ({:.1} s)",
            mutant["name"].as_str().unwrap_or(""),
            start.elapsed().as_secs_f64()
        );
    }
}

/// Builds the tests, and runs each without a mutant: how long it takes, and which it reaches.
fn baseline(tree: &Path) -> Vec<(Test, BTreeSet<u64>)> {
    let path = tree.join("baseline.json");
    let known: BTreeMap<String, (Option<f64>, Vec<u64>)> = std::fs::read_to_string(&path)
        .map(|text| serde_json::from_str::<Value>(&text).expect("the baseline is JSON"))
        .map(|value| read_baseline(&value))
        .unwrap_or_default();
    let left = Mutex::new(tests(tree).into_iter());
    let done = Mutex::new((Vec::new(), Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..workers() {
            scope.spawn(|| {
                while let Some(test) = { left.lock().expect("no panic").next() } {
                    let key = format!("{}:{}", test.program.display(), test.name);
                    let (seconds, reached) =
                        known.get(&key).cloned().unwrap_or_else(|| measure(tree, &test));
                    if let Some(seconds) = seconds {
                        let _ = test.seconds.set(seconds);
                    }
                    let mut done = done.lock().expect("no panic");
                    done.1.push(json!([key, seconds, reached]));
                    done.0.push((test, reached.into_iter().collect()));
                }
            });
        }
    });
    let (tests, rows) = done.into_inner().expect("no panic");
    std::fs::write(path, Value::from(rows).to_string()).expect("the tree can be written");
    let long = tests
        .iter()
        .filter(|(test, _): &&(Test, BTreeSet<u64>)| test.seconds.get().is_none())
        .count();
    println!("{} tests, {long} of them long", tests.len());
    tests
}

fn read_baseline(value: &Value) -> BTreeMap<String, (Option<f64>, Vec<u64>)> {
    let rows = value.as_array().map(Vec::as_slice).unwrap_or_default();
    let numbers =
        |row: &Value| row.as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    rows.iter()
        .map(|row| {
            (row[0].as_str().expect("a name").to_owned(), (row[1].as_f64(), numbers(&row[2])))
        })
        .collect()
}

/// How long a test takes, unless it is long or fails, and which mutants it reaches.
fn measure(tree: &Path, test: &Test) -> (Option<f64>, Vec<u64>) {
    let mut hasher = DefaultHasher::new();
    (&test.program, &test.name).hash(&mut hasher);
    let file = tree.join(format!("reached-{:016x}", hasher.finish()));
    let _ = std::fs::remove_file(&file);
    let start = Instant::now();
    let mut command = limited(tree, test, RECORDED_SECONDS);
    command.env("TWICESHY_MUTANT", "record").env("TWICESHY_MUTANT_REACHED", &file);
    let child = command.spawn().expect("the test runs");
    let passed = ended(child, RECORDED_SECONDS).is_some_and(|status| status.success());
    let seconds = start.elapsed().as_secs_f64();
    let reached = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    (passed.then_some(seconds), reached.lines().filter_map(|line| line.parse().ok()).collect())
}

/// The test, with bounds for its processor time, memory and files.
fn limited(tree: &Path, test: &Test, seconds: f64) -> Command {
    let limits = format!(
        "ulimit -c 0; ulimit -t {}; ulimit -v {MEMORY}; ulimit -f 4194304; exec \"$0\" \"$@\"",
        seconds.ceil() as u64
    );
    let mut command = Command::new("sh");
    command.args(["-c", &limits]).arg(&test.program).args([
        "--exact",
        &test.name,
        "--test-threads",
        "1",
    ]);
    command
        .current_dir(&test.directory)
        .env("CARGO_MANIFEST_DIR", &test.directory)
        .env("TMPDIR", tree.join("tmp"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The status of a test that ends in time; another one is ended.
fn ended(mut child: Child, seconds: f64) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the test can be waited for") {
            return Some(status);
        }
        if start.elapsed().as_secs_f64() > LONGEST_WAIT + SLOWER * seconds {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2).max(start.elapsed() / 20));
    }
}

fn run_test(tree: &Path, test: &Test, mutant: &str) -> Outcome {
    use std::os::unix::process::ExitStatusExt as _;
    /// What the kernel sends to those that compute too long.
    const TOO_LONG: [i32; 2] = [9, 24];
    let seconds = LEAST_SECONDS + SLOWER * test.about();
    let child = limited(tree, test, seconds).env("TWICESHY_MUTANT", mutant).spawn();
    match ended(child.expect("the test runs"), seconds) {
        Some(status) if status.success() => Outcome::Passed,
        Some(status) if !status.signal().is_some_and(|signal| TOO_LONG.contains(&signal)) => {
            Outcome::Failed
        }
        _ => Outcome::TooLong,
    }
}

fn tests(tree: &Path) -> Vec<Test> {
    std::fs::create_dir_all(tree.join("tmp")).expect("the tree can be written");
    let output = Command::new("cargo")
        .args(["test", "--no-run", "--quiet", "--message-format=json", "--lib"])
        .args(PROGRAMS.iter().flat_map(|program| ["--test", program]))
        .args(PACKAGES)
        .current_dir(tree)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "the tests compile");
    let mut tests = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let Some(program) = value["executable"].as_str() else { continue };
        let manifest = Path::new(value["manifest_path"].as_str().expect("a path"));
        let directory = manifest.parent().expect("a folder").to_owned();
        let package = directory.file_name().expect("a name").to_string_lossy().into_owned();
        let listed = |options: &[&str]| -> BTreeSet<String> {
            let output =
                Command::new(program).args(options).args(["--list", "--format", "terse"]).output();
            let text =
                String::from_utf8(output.expect("tests list themselves").stdout).expect("text");
            text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
        };
        let ignored = listed(&["--ignored"]);
        for name in listed(&[]) {
            if !ignored.contains(&name) && !name.starts_with(LEFT_OUT) {
                let (package, directory) = (package.clone(), directory.clone());
                tests.push(Test {
                    package,
                    program: program.into(),
                    directory,
                    name,
                    seconds: Arc::default(),
                });
            }
        }
    }
    tests
}
