//! Ranges against an oracle, beside commits and failures, and over damage.

mod writes;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::guard::Store as _;
use twiceshy_filters::Digest;
use twiceshy_filters::remote::EVERY_DIGEST;

use crate::store::engine::{Durability, EngineOptions};
use crate::store::redb::Redb;
use crate::store::redb::backend::Medium;
use crate::store::redb::faults::{Disk, Fault};

type Truth = BTreeMap<Digest, Vec<u8>>;

fn over(medium: impl Medium + 'static, durability: Durability) -> Result<Redb, String> {
    let options = EngineOptions { durability, cache: 1 << 16 };
    let opened = Redb::over(Box::new(medium), Path::new("records.redb"), &options, false);
    opened.map_err(|error| format!("{error:?}"))
}

/// Random enough, and the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.0 ^ self.0 >> 29
    }

    fn below(&mut self, bound: u64) -> u64 {
        (self.next() >> 20) % bound
    }

    fn digest(&mut self) -> Digest {
        Digest::new([self.next(), self.next()])
    }
}

fn read(store: &Redb, start: Digest, end: Digest) -> Result<Vec<(Digest, Vec<u8>)>, String> {
    let mut seen = Vec::new();
    let visitor = &mut |digest: Digest, record: &[u8]| seen.push((digest, record.to_vec()));
    store.read(start..=end, visitor).map(|()| seen).map_err(|error| error.to_string())
}

/// Puts and removes; the store and the truth are the same afterwards.
fn write(store: &Redb, truth: &mut Truth, changes: &[(Digest, Option<Vec<u8>>)]) {
    let borrowed: Vec<_> = changes.iter().map(|(digest, v)| (*digest, v.as_deref())).collect();
    store.write(&borrowed).expect("written");
    for (digest, record) in changes {
        match record {
            Some(record) => truth.insert(*digest, record.clone()),
            None => truth.remove(digest),
        };
    }
}

/// Writes until it works: there is a pause after a failure.
fn insist(store: &Redb, changes: &[(Digest, Option<&[u8]>)]) {
    let works = |tries| {
        thread::sleep(Duration::from_millis(u64::from(tries > 0)));
        store.write(changes).is_ok()
    };
    assert!((0..5000).any(works), "it never works again");
}

/// Ends the readers, also if their writer panics.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A store with so many records of 40 bytes.
fn filled(disk: &Disk, records: usize) -> (Redb, Truth) {
    let store = over(disk.clone(), Durability::Process).expect("it opens");
    let (mut truth, mut random) = (Truth::new(), Random(3));
    let changes: Vec<_> =
        (0..records).map(|n| (random.digest(), Some(vec![n as u8; 40]))).collect();
    write(&store, &mut truth, &changes);
    (store, truth)
}

/// Trees of no page, one, and three levels of them; short records, none, and such that fill
/// pages of their own.
#[test]
fn ranges_are_those_of_a_tree_in_memory() {
    let mut random = Random(1);
    for (records, longest) in [(0, 1), (1, 10), (40, 9000), (300, 1), (20_000, 60)] {
        let store = over(Disk::default(), Durability::Process).expect("it opens");
        let mut truth = Truth::new();
        let new = |random: &mut Random| {
            let length = random.below(longest) as usize;
            (random.digest(), Some(vec![length as u8; length]))
        };
        let changes: Vec<_> = (0..records).map(|_| new(&mut random)).collect();
        write(&store, &mut truth, &changes);
        for round in 0..20 {
            // As many go as come, one by one and many at once.
            let size = [1, 2, records / 10][round % 3];
            let mut changes: Vec<_> = (0..size).map(|_| new(&mut random)).collect();
            let skip = random.below(truth.len() as u64 + 1) as usize;
            changes.extend(truth.keys().skip(skip).take(size).map(|&digest| (digest, None)));
            write(&store, &mut truth, &changes);
            let mut ends = vec![*EVERY_DIGEST.start(), *EVERY_DIGEST.end()];
            ends.extend((0..6).map(|_| random.digest()));
            ends.extend(truth.keys().skip(skip).step_by(1 + truth.len() / 6).take(6));
            let ranges: Vec<_> =
                ends.iter().flat_map(|&start| ends.iter().map(move |&end| (start, end))).collect();
            for &(start, end) in &ranges {
                let seen = read(&store, start, end).expect("whole");
                let ordered = start <= end;
                let expected = truth.iter().filter(|(d, _)| (start..=end).contains(d) && ordered);
                assert!(seen.iter().map(|(d, r)| (d, r)).eq(expected), "{start:?}..={end:?}");
            }
            let mut sorted: Vec<_> = ranges.iter().map(|&(start, end)| start..=end).collect();
            sorted.sort_by_key(|range| *range.start());
            let mut counts = vec![0; sorted.len()];
            store.read_many(&sorted, &mut |index, _, _| counts[index] += 1).expect("whole");
            for (range, count) in sorted.iter().zip(counts) {
                assert_eq!(count, truth.keys().filter(|d| range.contains(d)).count());
            }
        }
    }
}

/// A read that finds a page with a flipped bit fails; no other answer is wrong.
#[test]
fn a_flipped_bit_is_an_error_of_the_reads_that_meet_it() {
    let disk = Disk::default();
    let (store, truth) = filled(&disk, 400);
    let every = |store: &Redb| read(store, *EVERY_DIGEST.start(), *EVERY_DIGEST.end());
    let truth: Vec<_> = truth.into_iter().collect();
    assert_eq!(every(&store).expect("whole"), truth);
    let bytes = disk.bytes();
    let (mut errors, mut random) = (0, Random(2));
    for at in (4096..bytes.len()).filter(|&at| bytes[at] != 0).step_by(5) {
        disk.damage(at);
        for _ in 0..3 {
            let (digest, record) = &truth[random.below(truth.len() as u64) as usize];
            match read(&store, *digest, *digest) {
                Ok(seen) => assert_eq!(seen, [(*digest, record.clone())], "byte {at}"),
                Err(error) => assert!(error.contains("twiceshy check"), "byte {at}: {error}"),
            }
        }
        match every(&store) {
            Ok(seen) => assert_eq!(seen, truth, "byte {at}"),
            Err(_) => errors += 1,
        }
        disk.damage(at);
    }
    assert_eq!(every(&store).expect("whole again"), truth);
    assert!(errors > 2000, "{errors} damages were in the tree");
}

/// A removal merges pages. One that is damaged would have a right checksum after that.
#[test]
fn a_removal_beside_a_damaged_page_is_refused() {
    let disk = Disk::default();
    let (store, truth) = filled(&disk, 400);
    let digests: Vec<_> = truth.keys().copied().collect();
    let bytes = disk.bytes();
    let mut refused = 0;
    for (index, digest) in digests.iter().enumerate().step_by(20) {
        let key = digest.number().to_le_bytes();
        // Pages that are not in use any more may have it too: the disk is damaged in all.
        let places: Vec<_> =
            (0..bytes.len() - 16).filter(|&at| bytes[at..at + 16] == key).collect();
        places.iter().for_each(|&at| disk.damage(at + 3));
        // Two leaves further on at most: a leaf has at least 20 records.
        for other in [index.saturating_sub(15), (index + 15).min(digests.len() - 1)] {
            let error = store.write(&[(digests[other], None)]).expect_err("refused").to_string();
            assert!(error.contains("twiceshy check"), "{error}");
            refused += 1;
        }
        places.iter().for_each(|&at| disk.damage(at + 3));
    }
    assert!(refused > 30);
    let all = read(&store, *EVERY_DIGEST.start(), *EVERY_DIGEST.end()).expect("whole");
    assert_eq!(all, truth.into_iter().collect::<Vec<_>>(), "nothing was removed");
}

/// Otherwise an empty table would take the place of the records.
#[test]
fn a_table_whose_name_is_damaged_is_not_made_again() {
    for name in ["records", "meta"] {
        let disk = Disk::default();
        drop(filled(&disk, 10));
        let bytes = disk.bytes();
        let places =
            (0..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(name.as_bytes()));
        places.for_each(|at| disk.damage(at + 1));
        let error = over(disk, Durability::Process).err().expect("it is damaged");
        assert!(error.contains("twiceshy check"), "{error}");
    }
}

/// Readers of ranges beside commits that use the room of old pages again: no page is called
/// damaged that is not, and nothing is missing.
fn no_false_alarm(medium: impl Medium + 'static, durability: Durability) {
    let store = over(medium, durability).expect("it opens");
    let (mut truth, mut random) = (Truth::new(), Random(5));
    let changes: Vec<_> = (0..500).map(|_| (random.digest(), Some(vec![1; 40]))).collect();
    write(&store, &mut truth, &changes);
    let stays = truth.clone();
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for reader in 0..2 {
            let (store, stays, done, reads) = (&store, &stays, &done, &reads);
            scope.spawn(move || {
                let mut random = Random(10 + reader);
                while !done.load(Ordering::Relaxed) {
                    let (start, width) = (random.digest(), u128::MAX >> random.below(12));
                    let end = Digest::from_number(start.number().saturating_add(width));
                    let seen = read(store, start, end).expect("nothing is damaged");
                    let stayed = seen.iter().filter(|(_, record)| record[0] == 1).map(|(d, _)| d);
                    assert!(stayed.eq(stays.range(start..=end).map(|(d, _)| d)), "{start:?}");
                    reads.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _ends = Ends(&done);
        let enough = || reads.load(Ordering::Relaxed) >= 5000;
        for _ in (0..20_000).take_while(|&round| round < 300 || !enough()) {
            let new: Vec<_> = (0..20).map(|_| (random.digest(), Some(vec![2; 90]))).collect();
            write(&store, &mut truth, &new);
            let gone: Vec<_> = new.into_iter().map(|(digest, _)| (digest, None)).collect();
            write(&store, &mut truth, &gone);
        }
        assert!(enough(), "the readers are no longer there");
    });
}

#[test]
fn commits_beside_reads_are_no_damage() {
    for durability in [Durability::Power, Durability::Process] {
        no_false_alarm(Disk::default(), durability);
        let file = tempfile::tempfile().expect("a file");
        // Syncs of a real disk would take the test's time.
        no_false_alarm(file, Durability::Process);
    }
}

/// Writes fail and the database is opened again: reads fail with the disk's errors, or
/// because their view is gone, and never because of damage.
#[test]
fn failures_beside_reads_are_no_damage() {
    for durability in [Durability::Power, Durability::Process] {
        let disk = Disk::default();
        let store = over(disk.clone(), durability).expect("it opens");
        let (mut truth, mut random) = (Truth::new(), Random(6));
        let changes: Vec<_> = (0..500).map(|_| (random.digest(), Some(vec![1; 40]))).collect();
        write(&store, &mut truth, &changes);
        let (done, right, errors) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        let mut failed = 0;
        thread::scope(|scope| {
            for reader in 0..2 {
                let (store, truth, done) = (&store, &truth, &done);
                let (right, errors) = (&right, &errors);
                scope.spawn(move || {
                    let mut random = Random(10 + reader);
                    while !done.load(Ordering::Relaxed) {
                        let (start, end) = (random.digest(), *EVERY_DIGEST.end());
                        match read(store, start, end) {
                            Ok(seen) => {
                                let stayed = seen.iter().filter(|(_, record)| record[0] == 1);
                                assert!(
                                    stayed.map(|(d, _)| d).eq(truth.range(start..).map(|(d, _)| d))
                                );
                                right.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => {
                                assert!(!error.contains("twiceshy check"), "{error}");
                                errors.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
            let _ends = Ends(&done);
            let faults =
                [Fault::Refused, Fault::Happens, Fault::Half, Fault::Sticks, Fault::Dropped];
            for round in 0..300_u64 {
                let new: Vec<_> = (0..20).map(|_| (random.digest(), vec![2; 90])).collect();
                let put: Vec<_> = new.iter().map(|(d, record)| (*d, Some(&record[..]))).collect();
                disk.fail_in(round % 25, faults[round as usize % faults.len()]);
                failed += u64::from(store.write(&put).is_err());
                disk.heal();
                let gone: Vec<_> = new.iter().map(|(digest, _)| (*digest, None)).collect();
                insist(&store, &gone);
            }
        });
        let (right, errors) = (right.into_inner(), errors.into_inner());
        println!("{durability:?}: {failed} writes failed; {right} answers, {errors} errors");
        assert!(failed > 50 && right > 500, "{failed} failures, {right} answers");
    }
}

/// A new opening may use the pages of a view that somebody still reads.
#[test]
fn pages_of_an_earlier_opening_are_no_damage() {
    let disk = Disk::default();
    let (store, truth) = filled(&disk, 400);
    let mut visited = 0;
    let outcome = store.read(EVERY_DIGEST, &mut |_, _| {
        visited += 1;
        if visited > 1 {
            return;
        }
        disk.fail_in(2, Fault::Refused);
        store.write(&[(Digest::new([1, 1]), Some(b"new"))]).expect_err("it fails");
        disk.heal();
        for round in 0..20_u8 {
            let record = [round; 40];
            let changes: Vec<_> = truth.keys().map(|&digest| (digest, Some(&record[..]))).collect();
            insist(&store, &changes);
        }
    });
    let error = outcome.expect_err("its view is gone").to_string();
    assert!(visited < truth.len() && error.contains("read it once more"), "{visited}, {error}");
}

/// Others may write while somebody looks at what was found: its page stays. With
/// debug assertions `redb` panics if it would not.
#[test]
fn what_is_looked_at_stays_while_others_write() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = crate::store::redb::file(&directory.path().join("records.redb")).expect("a file");
    let store = over(file, Durability::Process).expect("it opens");
    let digest = Digest::new([1, 1]);
    store.write(&[(digest, Some(b"old"))]).expect("written");
    let mut seen = Vec::new();
    let found = store.find(digest, &mut |record| {
        for _ in 0..4 {
            store.write(&[(digest, Some(b"new"))]).expect("written");
        }
        seen = record.to_vec();
    });
    assert_eq!((found.expect("read"), &seen[..]), (Some(true), &b"old"[..]));
    store.find(digest, &mut |record| seen = record.to_vec()).expect("read");
    assert_eq!(seen, b"new");
}
