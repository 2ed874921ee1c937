use std::thread;

use twiceshy_filters::internals::Rng;

use super::*;

fn digest(number: u64) -> Digest {
    Digest::new([Rng::new(number).next(), Rng::new(!number).next()])
}

/// One set, as the policy is told in a sentence: most recent first.
#[derive(Default)]
struct Model(Vec<Entry>);

impl Model {
    fn hit(&mut self, entry: Entry) -> bool {
        let Some(at) = self.0.iter().position(|other| *other == entry) else { return false };
        let entry = self.0.remove(at);
        self.0.insert(0, entry);
        true
    }

    fn insert(&mut self, entry: Entry) {
        if !self.hit(entry) {
            self.0.truncate(SLOTS - 1);
            self.0.insert(self.0.len().min(2), entry);
        }
    }

    fn remove(&mut self, entry: Entry) -> bool {
        let len = self.0.len();
        self.0.retain(|other| *other != entry);
        self.0.len() != len
    }
}

#[test]
fn a_set_is_a_cache_line() {
    assert_eq!((size_of::<Set>(), align_of::<Set>()), (64, 64));
}

/// Equal are tables of one size with the same entries, in whatever order they were used.
#[test]
fn tables_with_other_entries_or_sizes_differ() {
    let with = |sets: usize, numbers: &[u64]| {
        let mut table = Exceptions::<4>::new(sets, SET_BITS);
        assert!(numbers.iter().all(|&number| table.insert(digest(number))));
        table
    };
    let table = with(2, &[1, 2, 3]);
    assert!(table == with(2, &[3, 1, 2]));
    for other in [with(2, &[1, 2]), with(2, &[1, 2, 4]), with(4, &[1, 2, 3]), with(2, &[])] {
        assert!(table != other);
    }
    assert!(with(2, &[]) != with(4, &[]));
}

/// Four bits for an entry, so that other digests' entries are found, too.
#[test]
fn sets_keep_to_their_policy() {
    for sets in 1..4 {
        let mut table = Exceptions::<4>::new(sets, SET_BITS);
        let mut models: Vec<Model> = (0..sets).map(|_| Model::default()).collect();
        let (mut rng, mut cleared) = (Rng::new(7), 0);
        for step in 0..20_000 {
            let digest = digest(rng.below(100));
            let (set, entry) = table.place(digest);
            let model = &mut models[set];
            match rng.below(8) {
                0..3 => {
                    assert!(table.insert(digest));
                    model.insert(entry);
                }
                3 => assert_eq!(table.remove(digest), model.remove(entry), "step {step}"),
                4 => assert_eq!(table.holds(digest), model.0.contains(&entry), "step {step}"),
                5 if rng.below(100) == 0 => {
                    table.clear();
                    models.iter_mut().for_each(|model| model.0.clear());
                    cleared += 1;
                }
                _ => assert_eq!(table.hit(digest), model.hit(entry), "step {step}"),
            }
            for (set, model) in table.in_order().zip(&models) {
                let entries = set.into_iter().flat_map(Set::entries);
                assert!(entries.eq(model.0.iter().copied()), "step {step}");
            }
            assert_eq!(table.len(), models.iter().map(|model| model.0.len()).sum());
        }
        table.check().expect("all in order");
        assert!(cleared > 5, "it was cleared {cleared} times");
    }
}

/// All 96 bits of an entry are of the digest, and shorter ones are its lowest bits.
#[test]
fn entries_have_as_many_bits_as_they_say() {
    let long = Exceptions::<ENTRY_BITS>::new(7, SET_BITS);
    let short = Exceptions::<40>::new(7, SET_BITS);
    for number in 0..100 {
        let digest = digest(number);
        let [first, second] = digest.rehashed(HASH_FUNCTIONS).words();
        let [low, middle, high] = [second, second >> 32, first].map(|word| word as u32);
        let set = ((u128::from(first) * 7) >> 64) as usize;
        assert_eq!(long.place(digest), (set, [low, middle, high]));
        assert_eq!(short.place(digest), (set, [low, middle & 0xff, 0]));
    }
}

#[test]
fn a_table_of_no_bits_has_no_room() {
    let mut table = Exceptions::<ENTRY_BITS>::new(1000, 0.0);
    assert!(!table.insert(digest(1)) && !table.hit(digest(1)) && !table.remove(digest(1)));
    assert_eq!((table.room(), table.bytes()), (0, 0));
    assert_eq!(Exceptions::<ENTRY_BITS>::new(1, LEAST_BITS).room(), SLOTS);
    assert_eq!(Exceptions::<ENTRY_BITS>::new(1088, 0.5).room(), SLOTS);
    assert_eq!(Exceptions::<ENTRY_BITS>::new(1089, 0.5).room(), 2 * SLOTS);
}

/// Readers that all move entries of one set leave a permutation of the same slots, and each
/// finds what is there all the time.
#[test]
fn hits_of_many_threads_lose_nothing() {
    let mut table = Exceptions::<ENTRY_BITS>::new(1, SET_BITS);
    (0..5).for_each(|number| assert!(table.insert(digest(number))));
    thread::scope(|scope| {
        for seed in 0..4 {
            let table = &table;
            scope.spawn(move || {
                let mut rng = Rng::new(seed);
                for _ in 0..200_000 {
                    let number = rng.below(6);
                    assert_eq!(table.hit(digest(number)), number < 5);
                }
            });
        }
    });
    table.check().expect("a permutation");
    assert_eq!(table.len(), 5);
}

/// The bytes of two sets, one of them empty, by hand.
#[test]
fn bytes_written_by_hand() {
    let file = |sets: u64, bytes: &[u8]| {
        let mut writer = Writer::new("test");
        writer.u64(sets);
        writer.block(bytes);
        writer.finish()
    };
    let read = |bytes: &[u8]| {
        let mut reader = Reader::open(bytes).expect("a whole file");
        Exceptions::<ENTRY_BITS>::read(&mut reader)
    };
    let [first, second] = [[1; 12], [2; 12]];
    let good = [&[0, 2][..], &first, &second].concat();
    let table = read(&file(2, &good)).expect("two sets");
    let expected = [[0x0101_0101; 3], [0x0202_0202; 3]];
    let sets: Vec<Option<&Set>> = table.in_order().collect();
    assert!(sets[0].is_none() && sets[1].expect("two entries").entries().eq(expected));
    let mut writer = Writer::new("test");
    table.write(&mut writer);
    assert_eq!(writer.finish(), file(2, &good));

    let twice = [&[0, 2][..], &first, &first].concat();
    let six = [&[0, 6][..], &[first; 6].concat()].concat();
    for (sets, bytes) in [(2, &good[..20]), (2, &twice), (2, &six), (1, &good), (3, &good)] {
        assert!(read(&file(sets, bytes)).is_err(), "{sets} sets: {bytes:?}");
    }
    assert!(read(&file(u64::MAX, &good)).is_err());
}

/// A file with empty sets loads into their index, and grows set by set up to the table's size.
#[test]
fn empty_sets_of_a_file_take_no_memory_until_they_are_used() {
    const SETS: usize = 1000;
    let mut writer = Writer::new("test");
    Exceptions::<ENTRY_BITS>::new(SETS, SET_BITS).write(&mut writer);
    let file = writer.finish();
    let mut reader = Reader::open(&file).expect("a whole file");
    let mut table = Exceptions::<ENTRY_BITS>::read(&mut reader).expect("its own bytes");
    assert_eq!((table.bytes(), table.room()), (4 * SETS, 5 * SETS));
    (0..5 * SETS as u64).for_each(|number| assert!(table.insert(digest(number))));
    table.check().expect("all in order");
    assert!(table.bytes() <= 68 * SETS && table.sets.len() > 900);
}

/// What the module says: below 10^-15 for 10^9 adaptations with the smallest table, and so for
/// every other.
#[test]
fn entries_are_long_enough() {
    let hidden = |bits: f64| SET_BITS * 1e9 / (bits * f64::from(ENTRY_BITS).exp2());
    assert!(hidden(LEAST_BITS) < 1e-15);
    assert!((hidden(0.5) / 1.4e-17 - 1.0).abs() < 0.03);
    assert!((hidden(0.25) / 2.7e-17 - 1.0).abs() < 0.03);
}
