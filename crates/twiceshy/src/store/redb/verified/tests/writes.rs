//! Writes give new checksums to pages: damage in those has to be found before.

use std::ops::ControlFlow;

use redb::StorageBackend as _;
use xxhash_rust::xxh3::xxh3_128;

use super::*;
use crate::guard::Header;
use crate::store::redb::pages::{BRANCH, LEAF, Layout, Root, child, count};
use crate::store::redb::verified::{Reader, Tree, Unsound};

/// A store whose engine keeps no pages in memory, and finds damage as soon as it is there.
fn forgetful(medium: impl Medium + 'static) -> Redb {
    let options = EngineOptions { durability: Durability::Process, cache: 0 };
    let opened = Redb::over(Box::new(medium), Path::new("records.redb"), &options, false);
    opened.map_err(|error| format!("{error:?}")).expect("it opens")
}

fn tree(store: &Redb) -> Tree {
    store.shown.load_full().expect("it is open").tree
}

/// The pages of the records: where each is, and where its first digest is.
fn pages(disk: &Disk, tree: &Tree) -> BTreeMap<usize, usize> {
    let bytes = disk.bytes();
    let mut found = BTreeMap::new();
    let mut stack: Vec<_> = tree.root.into_iter().collect();
    while let Some(root) = stack.pop() {
        let place = tree.layout.place(root.page).expect("a page");
        let start = place.start as usize;
        let page = &bytes[start..place.end as usize];
        let keys = if page[0] == BRANCH {
            stack.extend((0..=count(page)).filter_map(|index| child(page, index)));
            8 + 24 * (count(page) + 1)
        } else {
            4 + 4 * count(page)
        };
        found.insert(start, start + keys);
    }
    found
}

/// Fills a store with records, of which some are replaced by short ones: this leaves pages that
/// are almost empty, and removals beside them merge many.
fn sparse(disk: &Disk, random: &mut Random, records: usize) -> Vec<Digest> {
    let store = over(disk.clone(), Durability::Process).expect("it opens");
    let mut truth = Truth::new();
    let longest = [1000, 2000, 4000, 5000][random.below(4) as usize];
    let mut record = |longest| Some(vec![7; random.below(longest) as usize]);
    let long: Vec<_> = (0..records as u64)
        .map(|n| (Digest::new([n.wrapping_mul(0x9e37_79b9_7f4a_7c15), n]), record(longest)))
        .collect();
    long.chunks(20).for_each(|changes| write(&store, &mut truth, changes));
    let keeps = 1 + random.below(4);
    let short =
        truth.keys().filter(|_| random.below(keeps + 1) > 0).map(|&d| (d, Some(vec![1; 4])));
    let short: Vec<_> = short.collect();
    write(&store, &mut truth, &short);
    truth.into_keys().collect()
}

/// Removals at one place, or all over the store.
fn removals(
    digests: &[Digest],
    random: &mut Random,
    longest: u64,
) -> Vec<(Digest, Option<&'static [u8]>)> {
    let many = 1 + random.below(longest) as usize;
    let first = random.below((digests.len() - many) as u64 + 1) as usize;
    let step = [1, 1, 2, digests.len() / many][random.below(4) as usize];
    digests[first..].iter().step_by(step).take(many).map(|&digest| (digest, None)).collect()
}

/// Over trees of two and three levels. With the two neighbours of each page and no more, 78 of
/// 300 rounds failed: all 120 would pass with a probability of 0.74^120 < 1e-15.
#[test]
fn every_page_that_a_batch_writes_again_is_verified() {
    let mut random = Random(8);
    let mut joined = 0;
    for round in 0..120 {
        let disk = Disk::default();
        let (records, longest) = if round % 8 == 0 { (800, 300) } else { (80, 12) };
        let digests = sparse(&disk, &mut random, records);
        let store = over(disk.clone(), Durability::Process).expect("it opens");
        let mut batch = removals(&digests, &mut random, longest);
        let removed: Vec<_> = batch.iter().map(|(digest, _)| digest.number()).collect();
        // What is put beside a page that is gone goes to another one.
        let puts = if round % 3 == 0 { batch.len() } else { 0 };
        for number in &removed[..puts] {
            let digest = Digest::from_number(number.wrapping_add(1));
            batch.push((digest, Some(&[2; 90])));
        }
        let committed = tree(&store);
        let before = pages(&disk, &committed);
        disk.take_reads();
        let mut reader = committed.reader(&disk);
        reader.verify_removals(&committed, &removed).expect("nothing is damaged");
        for (digest, _) in &batch[removed.len()..] {
            let range = digest.number()..=digest.number();
            // As the guard does.
            let mut nothing = |_, _: &[u8]| ControlFlow::Continue(());
            reader.visit(&committed, &range, &mut nothing).expect("nothing is damaged");
        }
        let verified = disk.take_reads();
        store.write(&batch).expect("nothing is damaged");
        let after = pages(&disk, &tree(&store));
        let mut again: Vec<_> = before.keys().filter(|start| !after.contains_key(start)).collect();
        joined += again.len();
        again.retain(|&&start| !verified.contains(&(start as u64)));
        assert!(again.is_empty(), "round {round}: the pages at {again:?} were not verified");
        // Not more than removals one by one would need, at three levels.
        assert!(verified.len() <= 9 * removed.len() + 3 * puts, "round {round}");
    }
    assert!(joined > 1000, "{joined} pages");
}

/// As above, with damage in one of those pages. With the two neighbours of each page and no
/// more, 22 of 100 rounds hid some: all would pass with a probability of 0.78^100 < 1e-10.
#[test]
fn a_batch_that_would_hide_damage_is_refused() {
    let mut random = Random(9);
    for round in 0..100 {
        let disk = Disk::default();
        let digests = sparse(&disk, &mut random, 80);
        let batch = removals(&digests, &mut random, 12);
        let intact = disk.bytes();
        let store = forgetful(disk.clone());
        let before = pages(&disk, &tree(&store));
        store.write(&batch).expect("nothing is damaged");
        let after = pages(&disk, &tree(&store));
        for (start, key) in before.into_iter().filter(|(start, _)| !after.contains_key(start)) {
            let disk = Disk::with(intact.clone());
            let store = forgetful(disk.clone());
            disk.damage(key + 3);
            let Err(error) = store.write(&batch).map_err(|error| error.to_string()) else {
                panic!("round {round}: damage in the page at {start} is hidden");
            };
            assert!(error.contains("twiceshy check"), "round {round}: {error}");
        }
    }
}

/// Changes a letter wherever a name is in a file. Returns what the file was.
fn damage_name(disk: &Disk, name: &str) -> Vec<u8> {
    let bytes = disk.bytes();
    let found = |&at: &usize| bytes[at..].starts_with(name.as_bytes());
    (0..bytes.len() - name.len()).filter(found).for_each(|at| disk.damage(at + 1));
    bytes
}

/// Takes the damage back.
fn mend(disk: &Disk, intact: &[u8]) {
    let damaged = disk.bytes();
    (0..intact.len()).filter(|&at| intact[at] != damaged[at]).for_each(|at| disk.damage(at));
    assert!(disk.bytes() == intact, "a refused write has changed the file");
}

/// `redb` makes a table that it does not find, and all records would be gone; with the name of
/// the other table, the commit would give the damage a checksum that is right.
#[test]
fn a_write_over_a_damaged_name_of_a_table_is_refused() {
    for name in ["records", "meta"] {
        let disk = Disk::default();
        let (store, truth) = filled(&disk, 400);
        store.set_header(Header { tag: 1, generation: 2 }).expect("written");
        drop(store);
        let store = forgetful(disk.clone());
        let intact = damage_name(&disk, name);
        let put = store.write(&[(Digest::new([1, 1]), Some(b"new"))]).expect_err("refused");
        assert!(put.to_string().contains("twiceshy check"), "{name}: {put}");
        let first = truth.keys().next().expect("one of 400");
        store.write(&[(*first, None)]).expect_err("refused");
        store.set_header(Header { tag: 3, generation: 4 }).expect_err("refused");
        mend(&disk, &intact);
        let all = read(&store, *EVERY_DIGEST.start(), *EVERY_DIGEST.end()).expect("whole");
        assert_eq!(all, truth.into_iter().collect::<Vec<_>>());
        assert_eq!(store.header().expect("read"), Some(Header { tag: 1, generation: 2 }));
        store.write(&[(Digest::new([1, 1]), Some(b"new"))]).expect("nothing is damaged any more");
    }
}

/// The file is intact, but one read of the name is not, whoever makes it.
#[test]
fn records_stay_if_the_name_of_their_table_is_misread() {
    let mut refused = 0;
    for reads in 0.. {
        let disk = Disk::default();
        let (store, mut truth) = filled(&disk, 400);
        drop(store);
        let store = forgetful(disk.clone());
        let committed = tree(&store);
        let tables = committed.layout.place(committed.tables.page).expect("a page");
        let start = tables.start as usize;
        let bytes = disk.bytes();
        let name = bytes[start..].windows(7).position(|name| name == b"records").expect("its name");
        disk.misread_in(reads, start + name + 1);
        let digest = Digest::new([1, 1]);
        match store.write(&[(digest, Some(b"new"))]) {
            Ok(()) => drop(truth.insert(digest, b"new".to_vec())),
            Err(_) => refused += 1,
        }
        if !disk.misread() {
            break;
        }
        let all = read(&store, *EVERY_DIGEST.start(), *EVERY_DIGEST.end());
        assert_eq!(all.expect("whole"), truth.into_iter().collect::<Vec<_>>(), "read {reads}");
    }
    assert!(refused > 1, "{refused}");
}

/// Branches whose two children are the same page: there are 2^60 ways to the leaf.
#[test]
fn a_page_that_is_part_of_the_tables_twice_is_damage() {
    const LEVELS: u64 = 60;
    let disk = Disk::default();
    let layout = tree(&filled(&disk, 1).0).layout;
    let last = layout.place(LEVELS).expect("a page");
    disk.set_len(last.end).expect("it grows");
    // A leaf with one entry: the ends of its key and of its value, and these.
    let mut page = [&[LEAF, 0, 1, 0, 13, 0, 0, 0, 14, 0, 0, 0][..], b"kv"].concat();
    let mut root = Root { page: 0, checksum: xxh3_128(&page) };
    for number in 1..=LEVELS {
        write_page(&disk, &layout, root, &page);
        let (checksum, below) = (root.checksum.to_le_bytes(), root.page.to_le_bytes());
        let start = [BRANCH, 0, 1, 0, 0, 0, 0, 0];
        let key = [&[8 + 2 * 24 + 4 + 1, 0, 0, 0][..], b"k"].concat();
        page = [&start[..], &checksum, &checksum, &below, &below, &key].concat();
        root = Root { page: number, checksum: xxh3_128(&page) };
    }
    write_page(&disk, &layout, root, &page);
    let outcome = Reader::new(&disk, layout).visit_tables(root, &mut |_, _| ());
    let Err(Unsound::Damaged(reason)) = outcome else { panic!("{outcome:?}") };
    assert!(reason.contains("twice"), "{reason}");
}

fn write_page(disk: &Disk, layout: &Layout, root: Root, bytes: &[u8]) {
    let place = layout.place(root.page).expect("a page");
    disk.write(place.start, bytes).expect("written");
}
