//! Sums up what a run found.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// All mutants, with what weaving made of them.
pub fn woven(tree: &Path) -> Vec<Value> {
    let text =
        std::fs::read_to_string(tree.join("woven.json")).expect("`mutants weave` came before");
    serde_json::from_str(&text).expect("JSON")
}

/// The part of the sources a mutant is in: `twiceshy-filters/cuckoo`.
pub fn folder(file: &str) -> String {
    let parts: Vec<&str> = file.split('/').collect();
    format!("{}/{}", parts[1], parts[3])
}

/// Whether a mutant is in this stretch of its folder's order.
pub fn is_in(mutant: &Value, skip: usize, take: usize) -> bool {
    mutant["place"].as_u64().is_some_and(|place| (skip..skip + take).contains(&(place as usize)))
}

/// What is known of each mutant, by number.
pub fn outcomes(path: &Path) -> BTreeMap<u64, Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    rows.filter_map(|row| Some((row["id"].as_u64()?, row))).collect()
}

/// Prints a table of folders, and all mutants that were missed.
pub fn report(tree: &Path, skip: usize, take: usize) {
    let outcomes = outcomes(&tree.join("outcomes.jsonl"));
    let woven = woven(tree);
    let chosen = woven.iter().filter(|mutant| is_in(mutant, skip, take));
    let status = |name: &str| chosen.clone().filter(|mutant| mutant["status"] == name).count();
    println!("{} listed", chosen.clone().count());
    println!("{} do not compile, {} cannot be woven", status("unviable"), status("not woven"));
    let mut missed: Vec<&str> = Vec::new();
    let mut counts: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    for row in chosen.filter_map(|mutant| outcomes.get(&mutant["id"].as_u64()?)) {
        let index = ["caught", "timeout", "missed", "unreached"]
            .iter()
            .position(|name| row["outcome"] == *name);
        let index = index.expect("a known outcome");
        let folder = folder(row["file"].as_str().expect("a path"));
        counts.entry(folder).or_default()[index] += 1;
        counts.entry("all".to_owned()).or_default()[index] += 1;
        if index >= 2 {
            missed.push(row["name"].as_str().expect("a name"));
        }
    }
    missed.sort_unstable();
    for name in missed {
        println!("{name}");
    }
    println!(
        "| folder | tested | failed a test | endless | missed | not reached | caught | 95 % interval |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (folder, [caught, timeout, missed, unreached]) in counts {
        let (all, good) = (caught + timeout + missed + unreached, caught + timeout);
        let (low, high) = clopper_pearson(good, all);
        println!(
            "| {folder} | {all} | {caught} | {timeout} | {missed} | {unreached} | {:.1} % | {:.1} to {:.1} % |",
            100.0 * good as f64 / all as f64,
            100.0 * low,
            100.0 * high,
        );
    }
}

/// The interval of Clopper and Pearson for `hits` of `trials`, at 95 %.
fn clopper_pearson(hits: u64, trials: u64) -> (f64, f64) {
    let at_least = |p: f64| (hits..=trials).map(|k| binomial(trials, k, p)).sum::<f64>();
    let at_most = |p: f64| (0..=hits).map(|k| binomial(trials, k, p)).sum::<f64>();
    let low = if hits == 0 { 0.0 } else { bisect(|p| at_least(p) > 0.025) };
    let high = if hits == trials { 1.0 } else { bisect(|p| at_most(p) < 0.025) };
    (low, high)
}

/// The least probability for which this holds, if it holds for all greater ones.
fn bisect(holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

/// The probability of `k` hits among `n`.
fn binomial(n: u64, k: u64, p: f64) -> f64 {
    let ways: f64 = (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum();
    (ways + k as f64 * p.ln() + (n - k) as f64 * (-p).ln_1p()).exp()
}
