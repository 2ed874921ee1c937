//! Tests the mutants of cargo-mutants without a build for each.
//!
//! `mutants weave LIST TREE SEED TAKE` puts them, switched off, into the copy of the repository in
//! TREE (`weave.rs`), until it compiles: a mutant that does not is left out. `mutants run TREE
//! SKIP TAKE` then switches them on one by one, and runs the tests that reach them (`run.rs`).
//! `mutants report TREE SKIP TAKE` sums up. `scripts/mutants.sh` calls all three.
//!
//! The mutants of each folder are in an order that depends on the seed alone, so any stretch of it
//! is a random sample; TAKE and SKIP count mutants of that order.

mod report;
mod run;
mod weave;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use weave::{Mutant, Piece};

/// What both crates are built with.
pub const PACKAGES: [&str; 6] =
    ["-p", "twiceshy-filters", "-p", "twiceshy", "--features", "twiceshy/serde"];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["weave", list, tree, seed, take] => {
            weave_all(Path::new(list), Path::new(tree), number(seed), number(take));
        }
        ["run", tree, skip, take] => run::run(Path::new(tree), number(skip), number(take)),
        ["report", tree, skip, take] => report::report(Path::new(tree), number(skip), number(take)),
        _ => panic!("usage: see scripts/mutants.sh"),
    }
}

fn number(text: &str) -> usize {
    text.parse().expect("a number")
}

/// What cargo-mutants lists, numbered.
fn listed(list: &Path) -> Vec<Mutant> {
    let text = std::fs::read_to_string(list).expect("the list is there");
    let list: Vec<Value> = serde_json::from_str(&text).expect("the list is JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let number = |value: &Value| value.as_u64().expect("a number") as usize;
    let mutant = |(index, value): (usize, &Value)| Mutant {
        id: index as u32 + 1,
        name: text(&value["name"]),
        package: text(&value["package"]),
        file: text(&value["file"]),
        genre: text(&value["genre"]),
        replacement: text(&value["replacement"]),
        start: (number(&value["span"]["start"]["line"]), number(&value["span"]["start"]["column"])),
    };
    list.iter().enumerate().map(mutant).collect()
}

/// Weaves the first mutants of each folder, in the order of a hash of the seed and their names, into
/// the tree's files, and leaves out those that do not compile.
fn weave_all(list: &Path, tree: &Path, seed: usize, take: usize) {
    let mut mutants = listed(list);
    mutants.sort_by_cached_key(|mutant| {
        let mut hasher = DefaultHasher::new();
        (seed, &mutant.name).hash(&mut hasher);
        hasher.finish()
    });
    let mut places = BTreeMap::new();
    mutants.retain(|mutant| {
        let place = places.entry(report::folder(&mutant.file)).or_insert(0);
        *place += 1;
        *place <= take
    });
    // Those of different folders by turns: a run that is cut short has as many of each.
    let mut places = BTreeMap::new();
    mutants.sort_by_cached_key(|mutant| {
        let place = places.entry(report::folder(&mutant.file)).or_insert(0);
        *place += 1;
        *place
    });
    let mut files: BTreeMap<&str, (String, Vec<Mutant>)> = BTreeMap::new();
    for mutant in &mutants {
        let read =
            || std::fs::read_to_string(tree.join(&mutant.file)).expect("the tree has the file");
        files.entry(&mutant.file).or_insert_with(|| (read(), Vec::new())).1.push(mutant.clone());
    }
    add_probe(tree);
    let mut left_out = BTreeSet::new();
    let woven = loop {
        let mut pieces = BTreeMap::new();
        let mut woven = BTreeSet::new();
        for (&file, (text, mutants)) in &files {
            let probe = if file.starts_with("crates/twiceshy-filters/") {
                "crate::mutated::on"
            } else {
                "::twiceshy_filters::mutated::on"
            };
            let rest: Vec<_> =
                mutants.iter().filter(|mutant| !left_out.contains(&mutant.id)).cloned().collect();
            let result = weave::weave(text, &rest, probe);
            let path = tree.join(file);
            if std::fs::read_to_string(&path).is_ok_and(|now| now != result.text) {
                std::fs::write(path, &result.text).expect("the tree can be written");
            }
            woven.extend(result.mutants);
            pieces.insert(file, result.pieces);
        }
        // Overflows of constants show in the code generated only.
        let mut failing = failed(tree, "check", &pieces);
        if failing.is_empty() {
            failing = failed(tree, "build", &pieces);
        }
        println!("{} mutants woven, {} of them do not compile", woven.len(), failing.len());
        if failing.is_empty() {
            break woven;
        }
        left_out.extend(failing);
    };
    let status = |mutant: &Mutant| match () {
        () if woven.contains(&mutant.id) => "woven",
        () if left_out.contains(&mutant.id) => "unviable",
        () => "not woven",
    };
    let mut places: BTreeMap<String, usize> = BTreeMap::new();
    let rows = mutants.iter().map(|mutant| {
        let place = places.entry(report::folder(&mutant.file)).or_default();
        *place += 1;
        json!({ "place": *place - 1, "id": mutant.id, "name": mutant.name, "package": mutant.package, "file": mutant.file,
            "genre": mutant.genre, "status": status(mutant) })
    });
    let rows = Value::from(rows.collect::<Vec<_>>());
    std::fs::write(tree.join("woven.json"), rows.to_string()).expect("the tree can be written");
}

/// The file that says which mutant is on becomes a module of `twiceshy-filters`.
fn add_probe(tree: &Path) {
    let source = tree.join("crates/twiceshy-filters/src");
    std::fs::write(source.join("mutated.rs"), include_str!("probe.rs"))
        .expect("the tree can be written");
    let root = std::fs::read_to_string(source.join("lib.rs")).expect("the crate has a root");
    let root = format!("{root}\n#[doc(hidden)]\npub mod mutated;\n");
    std::fs::write(source.join("lib.rs"), root).expect("the tree can be written");
}

/// Compiles the tree. The mutants of every piece of text with an error in it.
fn failed(tree: &Path, command: &str, pieces: &BTreeMap<&str, Vec<Piece>>) -> BTreeSet<u32> {
    let output = Command::new("cargo")
        .args([command, "--quiet", "--message-format=json"])
        .args(PACKAGES)
        .current_dir(tree)
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    let mut failed = BTreeSet::new();
    let mut unknown = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(value) = serde_json::from_str::<Value>(line) else { continue };
        let message = &value["message"];
        if message["level"] != "error" {
            continue;
        }
        let spans = message["spans"].as_array().map(Vec::as_slice).unwrap_or_default();
        let Some(span) = spans.iter().find(|span| span["is_primary"] == true) else { continue };
        let file = span["file_name"].as_str().unwrap_or_default();
        let (start, end) =
            (span["byte_start"].as_u64().unwrap_or(0), span["byte_end"].as_u64().unwrap_or(0));
        let inside = |piece: &&Piece| piece.at.start as u64 <= start && end <= piece.at.end as u64;
        let around = pieces.get(file).into_iter().flatten().filter(inside);
        match around.min_by_key(|piece| piece.at.len()) {
            Some(piece) => failed.extend(&piece.mutants),
            None => unknown.push(message["rendered"].to_string()),
        }
    }
    assert!(output.status.success() || !failed.is_empty(), "outside of all mutants: {unknown:#?}");
    failed
}
