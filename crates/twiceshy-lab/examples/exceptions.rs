//! What the exceptions of a `Filter` save on recorded traffic: wasted reads per million
//! misses, with a random tenth of the keys stored and the mean over some secrets. A static
//! plain filter of the same memory is beside it.
//!
//! `cargo run --release -p twiceshy-lab --example exceptions [DIRECTORY]`
//!
//! The directory has zstd files: `streams/*.u32le`, `queries/*.txt`, and `packets/*.idx.u32le`.

use std::collections::HashMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use twiceshy::{Filter, KeyHasher};
use twiceshy_filters::Spec;
use twiceshy_lab::compression::Compression;

const SECRETS: u8 = 5;

/// The memory of both filters: one for which a `Filter` is a plain one with fingerprints of 11
/// bits, and that of the default, which is a line filter.
const BITS_PER_KEY: [f64; 2] = [12.5, 13.0];

/// One key in so many is stored.
const STORED: u64 = 10;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).unwrap_or("/work/shared/data".into());
    let [less, more] = BITS_PER_KEY;
    println!(
        "| trace | misses | static, {less} bits | Filter, {less} bits | static, {more} bits | \
         Filter, {more} bits |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let mut logarithms = [0.0; 4];
    let mut traces = 0.0;
    for folder in ["streams", "packets", "queries"] {
        let mut paths: Vec<_> = fs::read_dir(Path::new(&directory).join(folder))?
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<_>>()?;
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.contains("keys") {
                continue;
            }
            let stream = stream(&path)?;
            let (misses, rates) = wasted(&stream)?;
            println!("| {name} | {misses} | {} |", cells(&rates));
            for (sum, rate) in logarithms.iter_mut().zip(rates) {
                *sum += rate.ln();
            }
            traces += 1.0;
        }
    }
    let means = logarithms.map(|sum| (sum / traces).exp());
    println!("| geometric mean | | {} |", cells(&means));
    Ok(())
}

fn cells(rates: &[f64]) -> String {
    let cells: Vec<String> = rates.iter().map(|rate| format!("{rate:.0}")).collect();
    cells.join(" | ")
}

/// The keys of a file, each by a number.
fn stream(path: &Path) -> Result<Vec<u64>, Box<dyn Error>> {
    let mut bytes = Vec::new();
    Compression::of_name(path).decompressed(File::open(path)?).read_to_end(&mut bytes)?;
    if path.to_string_lossy().contains("u32le") {
        let words = bytes.chunks_exact(4).map(|word| word.try_into().expect("four bytes"));
        return Ok(words.map(|word| u64::from(u32::from_le_bytes(word))).collect());
    }
    let mut numbers = HashMap::new();
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines
        .map(|line| {
            let next = numbers.len() as u64;
            *numbers.entry(line).or_insert(next)
        })
        .collect())
}

/// The misses, and wasted reads per million of them: for each size of a static filter and of one
/// with exceptions.
fn wasted(stream: &[u64]) -> Result<(u64, [f64; 4]), Box<dyn Error>> {
    let (mut misses, mut wasted) = (0, [0u64; 4]);
    for secret in 0..SECRETS {
        let hasher = KeyHasher::keyed([secret; 16]);
        let is_stored = |key: u64| hasher.digest(key.to_be_bytes()).word(9).is_multiple_of(STORED);
        let mut keys: Vec<u64> = stream.iter().copied().filter(|key| is_stored(*key)).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut filters = Vec::new();
        for bits in BITS_PER_KEY {
            let mut fixed = Spec::Plain(Default::default()).build_within(keys.len(), bits)?;
            for key in &keys {
                fixed.insert(hasher.digest(key.to_le_bytes()))?;
            }
            let builder = Filter::builder().capacity(keys.len()).bits_per_key(bits);
            let mut filter = builder.hasher(hasher.clone()).build()?;
            filter.extend(&keys);
            filters.push((fixed, filter));
        }
        for &key in stream.iter().filter(|key| !is_stored(**key)) {
            misses += 1;
            for ((fixed, filter), wasted) in filters.iter_mut().zip(wasted.chunks_exact_mut(2)) {
                wasted[0] += u64::from(fixed.contains(hasher.digest(key.to_le_bytes())));
                if filter.contains(key) {
                    wasted[1] += 1;
                    filter.adapt(key);
                }
            }
        }
    }
    let rates = wasted.map(|wasted| wasted as f64 * 1e6 / misses as f64);
    Ok((misses / u64::from(SECRETS), rates))
}
