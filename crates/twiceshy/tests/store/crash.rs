//! A process that is killed at any moment loses nothing that it acknowledged.
//!
//! The other process says what it is about to do, does it, and says that it is
//! done; whoever listens kills it when it has said some number of lines. It goes on
//! meanwhile, so it dies wherever it is then. Whoever opens the directory next has
//! to find what was done, and of what was being done all or nothing.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _, stdout};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use twiceshy::guard::Opened;
use twiceshy::store::{Durability, Engine, Redb};

use crate::harness::{Random, child, open, small};

/// Keys that are put and removed; others are only asked for.
const KEYS: u64 = 3000;
/// Keys of one write.
const MANY: u64 = 40;

fn key(n: u64) -> String {
    format!("key {n}")
}

fn say(line: &str) {
    let mut out = stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).expect("somebody listens");
}

/// In another process: `task` is an engine, a durability and a seed.
pub fn works_until_killed(task: &str, directory: &Path) {
    let [engine, durability, seed] = task.split(' ').collect::<Vec<_>>()[..] else {
        panic!("no such task: {task}");
    };
    let seed = seed.parse().expect("a seed");
    let durability = match durability {
        "power" => Durability::Power,
        _ => Durability::Process,
    };
    match engine {
        "redb" => works::<Redb>(directory, durability, seed),
        #[cfg(feature = "fjall")]
        "fjall" => works::<twiceshy::store::Fjall>(directory, durability, seed),
        _ => panic!("no such engine: {engine}"),
    }
}

fn works<E: Engine>(directory: &Path, durability: Durability, seed: u64) {
    say("opening");
    let progress = &mut |done, total| say(&format!("built {done} {total}"));
    let options = small().durability(durability);
    let store = options.open_with::<E>(directory, progress).expect("a good directory");
    let mut random = Random::new(seed);
    say("opened");
    for step in 0_u64.. {
        let first = random.below(KEYS);
        let value = format!("{seed}/{step}");
        match random.below(20) {
            0..8 => {
                say(&format!("put {first} 1 {value}"));
                store.put(key(first), &value).expect("written");
            }
            8..10 => {
                say(&format!("put {first} {MANY} {value}"));
                let records: Vec<_> =
                    (first..first + MANY).map(|n| (key(n % KEYS), &value)).collect();
                store.put_many(&records).expect("written");
            }
            10..14 => {
                say(&format!("remove {first} 1 -"));
                store.remove(key(first)).expect("written");
            }
            14..18 => {
                say("ask");
                for n in 0..50 {
                    let missing = format!("missing {} {n}", random.below(100));
                    assert_eq!(store.get(missing).expect("read"), None);
                }
            }
            _ => {
                say("snapshot");
                store.snapshot().expect("written");
            }
        }
        say("done");
    }
}

/// What a store has to have.
type Model = BTreeMap<u64, String>;

/// A change that was announced.
struct Announced {
    keys: Vec<u64>,
    value: Option<String>,
}

impl Announced {
    fn parse(line: &str) -> Option<Self> {
        let [verb, first, count, value] = line.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let (first, count): (u64, u64) = (first.parse().ok()?, count.parse().ok()?);
        let keys = (first..first + count).map(|n| n % KEYS).collect();
        Some(Announced { keys, value: (verb == "put").then(|| value.to_string()) })
    }

    fn apply(&self, model: &mut Model) {
        for &n in &self.keys {
            match &self.value {
                Some(value) => model.insert(n, value.clone()),
                None => model.remove(&n),
            };
        }
    }
}

/// Runs the other process and kills it; returns how much it did.
fn run(task: &str, directory: &Path, random: &mut Random, model: &mut Model) -> Outcome {
    let mut process = child(task, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the process runs");
    let mut lines =
        BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let mut heard = Vec::new();
    // Some are killed while they open, most at work.
    if random.below(5) > 0 {
        heard.extend(lines.by_ref().take_while(|line| line != "opened"));
        heard.extend(lines.by_ref().take(1 + random.below(120) as usize));
    } else {
        heard.extend(lines.by_ref().take_while(|line| line != "opening"));
        heard.extend(lines.by_ref().take(random.below(5) as usize));
    }
    let ended = process.try_wait().expect("it is ours");
    process.kill().expect("it is ours");
    process.wait().expect("it is ours");
    let mut error = String::new();
    process.stderr.take().expect("a pipe").read_to_string(&mut error).expect("text");
    assert!(ended.is_none(), "it ended by itself: {error}");
    heard.extend(lines);

    let mut outcome = Outcome::default();
    let mut open = None;
    for line in &heard {
        if line == "done" {
            outcome.done += 1;
            if let Some(announced) = open.take() {
                Announced::apply(&announced, model);
            }
        } else {
            outcome.snapshots += u64::from(line == "snapshot");
            open = Announced::parse(line);
        }
    }
    outcome.unfinished = open;
    outcome
}

#[derive(Default)]
struct Outcome {
    done: u64,
    snapshots: u64,
    unfinished: Option<Announced>,
}

/// Opens what was left behind, and compares it with what it has to have.
fn verify<E: Engine>(directory: &Path, outcome: &Outcome, model: &mut Model) -> Opened {
    let store = open::<E>(directory);
    assert_eq!(store.check(), Ok(0));
    let found: Model = (0..KEYS)
        .filter_map(|n| Some((n, store.get(key(n)).expect("read")?)))
        .map(|(n, value)| (n, String::from_utf8(value).expect("values are text")))
        .collect();
    if found != *model
        && let Some(unfinished) = &outcome.unfinished
    {
        // It is done after all, and wholly.
        unfinished.apply(model);
    }
    let differs = (0..KEYS).find(|n| found.get(n) != model.get(n));
    let differs = differs.map(|n| (n, found.get(&n), model.get(&n)));
    assert_eq!(differs, None, "key, what is there, what was acknowledged");
    assert_eq!(store.stats().keys, model.len() as u64);
    store.opened().clone()
}

/// How long a slow machine may take until everything has happened.
const DEADLINE: Duration = Duration::from_secs(300);

fn nothing_is_lost<E: Engine>(least: u64) {
    let begin = Instant::now();
    let living = tempfile::tempdir().expect("a directory");
    let mut random = Random::new(3);
    let mut model = Model::new();
    let (mut done, mut snapshots, mut restored, mut rebuilt, mut halves) = (0, 0, 0, 0, 0);
    for seed in 0.. {
        let durability = if seed % 8 == 7 { "power" } else { "process" };
        let task = format!("{} {durability} {seed}", E::EXTENSION);
        // One in four dies in a directory of its own, the others live on in one.
        let outcome = if seed % 4 == 0 {
            let fresh = tempfile::tempdir().expect("a directory");
            let mut model = Model::new();
            let outcome = run(&task, fresh.path(), &mut random, &mut model);
            verify::<E>(fresh.path(), &outcome, &mut model);
            outcome
        } else {
            let outcome = run(&task, living.path(), &mut random, &mut model);
            match verify::<E>(living.path(), &outcome, &mut model) {
                Opened::Snapshot => restored += 1,
                Opened::Rebuilt { .. } => rebuilt += 1,
                Opened::Empty => (),
            }
            if seed % 3 == 0 {
                // The next one builds its filters itself, or is killed at it.
                std::fs::remove_file(living.path().join("filter.snapshot")).expect("left");
            }
            outcome
        };
        done += outcome.done;
        snapshots += outcome.snapshots;
        halves += u64::from(outcome.unfinished.is_some());

        let runs = seed + 1;
        let enough = done > runs && halves > runs / 10 && snapshots > 0;
        let seen = enough && restored > 0 && rebuilt > 0;
        if runs >= least && (seen || begin.elapsed() > DEADLINE) {
            println!(
                "{runs} runs: {done} operations done, {halves} writes cut short, {snapshots} \
                 snapshots, {restored} times opened from one, {rebuilt} times built again"
            );
            assert!(
                seen,
                "it did too little: {done}, {halves}, {snapshots}, {restored}, {rebuilt}"
            );
            return;
        }
    }
}

#[test]
fn redb_loses_nothing_when_killed() {
    nothing_is_lost::<Redb>(200);
}

#[cfg(feature = "fjall")]
#[test]
fn fjall_loses_nothing_when_killed() {
    nothing_is_lost::<twiceshy::store::Fjall>(60);
}
