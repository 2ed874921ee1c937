//! The two engines under the guard's own accesses: range reads of one quotient,
//! writes in random order.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::Command;

use twiceshy::store::{Durability, Engine, EngineOptions, Fjall, Options, Redb};
use twiceshy_filters::Digest;

use crate::Outcome;
use crate::bare::{BATCH, CACHE, in_batches};
use crate::keys::{median, mix, stored, value};

/// A cache that holds next to nothing.
const COLD_CACHE: usize = 2 << 20;

pub fn table(directory: &Path, keys: u64) -> Outcome {
    println!("### Engines, {keys} records of 16 + 32 bytes, microseconds, medians\n");
    let heads = [
        "engine",
        "write, 10000 at once, each",
        "one by one",
        "one by one, power",
        "warm hit",
        "warm miss",
        "cold hit",
        "cold miss",
        "bytes a record",
        "sidecar: build s",
        "bytes a key",
    ];
    println!("| {} |\n| --- |{}", heads.join(" | "), " ---: |".repeat(heads.len() - 1));
    row::<Redb>(directory, keys)?;
    row::<Fjall>(directory, keys)
}

fn digest(index: u64) -> Digest {
    Digest::new([mix(index), mix(!index)])
}

/// The range of one quotient of as many as there are records.
fn quotient(digest: Digest, records: u64) -> RangeInclusive<Digest> {
    let quotient = (u128::from(digest.word(0)) * u128::from(records)) >> 64;
    let start = |quotient: u128| (quotient << 64).div_ceil(u128::from(records));
    let (first, next) = (start(quotient), start(quotient + 1));
    Digest::new([first as u64, 0])..=Digest::new([(next - 1) as u64, u64::MAX])
}

fn row<E: Engine>(directory: &Path, keys: u64) -> Outcome {
    let path = directory.join("engine").with_extension(E::EXTENSION);
    let open = |durability, cache| {
        E::open(&path, &EngineOptions::default().durability(durability).cache(cache))
            .map_err(|error| format!("{error:?}"))
    };
    let engine = open(Durability::Process, CACHE)?;
    let start = std::time::Instant::now();
    in_batches(keys, |range| {
        let records: Vec<_> = range.map(|index| (digest(index), value(index))).collect();
        let changes: Vec<_> =
            records.iter().map(|(digest, value)| (*digest, Some(&value[..]))).collect();
        engine.write(&changes)
    })?;
    let bulk = start.elapsed().as_nanos() as f64 / keys as f64;
    let single = |engine: &E, from: u64, count| {
        median(count, |index| {
            engine.write(&[(digest(keys + from + index), Some(&value(index)[..]))])
        })
    };
    let one_by_one = single(&engine, 0, 2 * BATCH)?;
    engine.sync()?;
    drop(engine);
    let engine = open(Durability::Power, CACHE)?;
    let with_power = single(&engine, 2 * BATCH, 100)?;
    drop(engine);
    let bytes = size(&path)? as f64 / (keys + 2 * BATCH + 100) as f64;

    let mut found = 0;
    let mut reads = |engine: &E, hit: bool, count| {
        median(count, |index| {
            let random = mix(index ^ 1 << 60);
            let asked = if hit { digest(random % keys) } else { digest(random) };
            engine.read(quotient(asked, keys), &mut |_, _| found += 1)
        })
    };
    let engine = open(Durability::Process, CACHE)?;
    // Once, so that caches have what they can hold.
    reads(&engine, true, 200_000)?;
    let warm = [reads(&engine, true, 50_000)?, reads(&engine, false, 50_000)?];
    drop(engine);
    let mut cold = [0.0; 2];
    for (hit, time) in [true, false].into_iter().zip(&mut cold) {
        forget(&path)?;
        let engine = open(Durability::Process, COLD_CACHE)?;
        *time = reads(&engine, hit, 1000)?;
    }
    assert!(found > 0, "there are records");
    remove(&path)?;

    let path = directory.join("sidecar");
    let start = std::time::Instant::now();
    let options = Options::default().capacity(keys as usize).cache(CACHE);
    drop(options.build_sidecar::<E, _>(&path, (0..keys).map(stored), &mut |_, _| ())?);
    let seconds = start.elapsed().as_secs_f64();
    let file = path.join("digests").with_extension(E::EXTENSION);
    let key_bytes = size(&file)? as f64 / keys as f64;
    remove(&path)?;
    let micros = [bulk, one_by_one, with_power, warm[0], warm[1], cold[0], cold[1]]
        .map(|nanos| format!("{:.2}", nanos / 1000.0));
    println!(
        "| {} | {} | {bytes:.1} | {seconds:.1} | {key_bytes:.1} |",
        E::EXTENSION,
        micros.join(" | ")
    );
    Ok(())
}

/// Every file below a path.
fn files(path: &Path) -> Outcome<Vec<std::path::PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.into()]);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(path)? {
        all.extend(files(&entry?.path())?);
    }
    Ok(all)
}

/// Bytes on disk; holes do not count.
fn size(path: &Path) -> Outcome<u64> {
    #[cfg(unix)]
    use std::os::unix::fs::MetadataExt as _;
    files(path)?.iter().map(|file| Ok(fs::metadata(file)?.blocks() * 512)).sum()
}

/// Takes the files out of the system's cache.
fn forget(path: &Path) -> Outcome {
    for file in files(path)? {
        let from = format!("if={}", file.display());
        let status =
            Command::new("dd").args([&from, "iflag=nocache", "count=0", "status=none"]).status()?;
        if !status.success() {
            return Err(format!("dd cannot take {} out of the cache", file.display()).into());
        }
    }
    Ok(())
}

fn remove(path: &Path) -> Outcome {
    let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    Ok(removed?)
}
