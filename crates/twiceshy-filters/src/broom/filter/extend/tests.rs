use super::super::ghosts::Ghost;
use super::*;
use crate::broom::form::{Faithful, Practical};
use crate::broom::group::SLOTS;
use crate::digest::Digest;
use crate::filter::{Adapted, DigestFilter};
use crate::remote::{MemoryIndex, MemorySet};
use crate::rng::Rng;
use alloc::format;
use alloc::vec::Vec;

/// An empty filter for 1000 keys.
fn filter<F: Form>(f: u32) -> BroomFilter<F> {
    let form = F::NAME;
    let name = if form == crate::broom::Form::Faithful { "faithful" } else { "practical" };
    let spec = format!("broom:f={f},form={name},sweep=1").parse().expect("a filter");
    BroomFilter::new(&spec, 1000).expect("a capacity")
}

/// Digests of the upper half, where the frontier does not come.
fn digests(rng: &mut Rng) -> impl Iterator<Item = Digest> + '_ {
    core::iter::from_fn(|| Some(Digest::new([rng.next() | 1 << 63, rng.next()])))
}

/// The first digest whose hash `pick` likes.
fn search<F: Form>(filter: &BroomFilter<F>, rng: &mut Rng, pick: impl Fn(&Hash) -> bool) -> Digest {
    let mut found = digests(rng).filter(|&digest| pick(&filter.hash(digest)));
    found.next().expect("there is no end of digests")
}

fn collide(one: &Hash, other: &Hash) -> bool {
    (one.quotient, one.remainder) == (other.quotient, other.remainder)
}

fn common(one: &Hash, other: &Hash) -> u32 {
    (one.bits ^ other.bits).leading_zeros()
}

/// Leaves a group so many bits of room, by strings of ghosts that no key matches.
fn leave_room<F: Form>(filter: &mut BroomFilter<F>, key: &Hash, room: u32) {
    let other = key.quotient / SLOTS * SLOTS + (key.quotient + 1) % SLOTS;
    let group = key.quotient / SLOTS;
    for length in [60, 128 - 60 - room - filter.level.used_bits(group)] {
        let string = Text::prefix(u64::from(length).reverse_bits(), length as u8);
        filter.leave(Ghost::new(other, filter.tag(key.new), string));
    }
    assert_eq!(filter.level.used_bits(group), 128 - room);
}

/// Property 10 for a key that EXTEND sends to the yard: 60 of 60 queries were false positives
/// again once the key was removed and inserted.
fn a_query_stays_fixed_when_its_key_went_to_the_yard<F: Form>(remote: &mut F::Remote) {
    let (mut filter, mut rng) = (filter::<F>(1), Rng::new(1));
    let key = digests(&mut rng).next().expect("a digest");
    assert!(filter.insert(key, remote).expect("in memory"));
    let hash = filter.hash(key);
    leave_room(&mut filter, &hash, 8);
    let query =
        search(&filter, &mut rng, |other| collide(other, &hash) && common(other, &hash) >= 8);
    assert!(filter.contains(query));
    assert_eq!(filter.adapt(query, remote).expect("in memory"), Adapted::Fixed);
    assert_eq!((filter.level.len(), filter.yard.len()), (0, 1), "there is no room for 9 bits");
    for _ in 0..60 {
        assert!(filter.remove(key, remote).expect("in memory"));
        assert!(!filter.contains(key));
        assert!(filter.insert(key, remote).expect("in memory"));
        assert!(!filter.contains(query), "Property 10");
        assert!(filter.contains(key), "a false negative");
    }
    // Its ghost is outside the group, and has moved the frontier by one group.
    assert_eq!((filter.phase, filter.frontier), (0, SLOTS));
    assert_eq!(filter.ghosts(), 3, "one ghost is enough");
    filter.check(remote).expect("every invariant holds");
    // With room, the key lives in its group again, with the bits that EXTEND wanted.
    assert!(filter.remove(key, remote).expect("in memory"));
    let tag = filter.tag(hash.new);
    filter.level.drop_ghosts(hash.quotient / SLOTS, tag);
    assert!(filter.insert(key, remote).expect("in memory"));
    let slot = filter.matching_slot(&hash).expect("its group has room");
    let length = filter.level.string(hash.quotient, slot).length;
    assert_eq!(u32::from(length), common(&filter.hash(query), &hash) + 1);
    assert!(!filter.contains(query) && filter.contains(key));
}

#[test]
fn property_10_in_the_yard() {
    a_query_stays_fixed_when_its_key_went_to_the_yard::<Practical>(&mut MemorySet::new());
    a_query_stays_fixed_when_its_key_went_to_the_yard::<Faithful>(&mut MemoryIndex::new());
}

/// The same for a key with all of a query's 64 bits: nothing but the yard tells them apart.
#[test]
fn property_10_for_equal_strings() {
    let (mut filter, mut remote) = (filter::<Practical>(8), MemorySet::new());
    // The last bits of a hash are of a derived word, which the key's own do not show.
    let key = Digest::new([3 << 62, 5]);
    assert!(filter.insert(key, &mut remote).expect("in memory"));
    let hash = filter.hash(key);
    let twin = Hash { digest: Digest::new([3 << 62, 6]), ..hash };
    let slot = filter.matching_slot(&hash).expect("it is in its group");
    assert_eq!(filter.ranges_for_extension(hash.quotient, slot, Some(hash), &twin), SLOTS);
    filter.extend(hash.quotient, slot, Some(hash), &twin);
    assert!(filter.remove(key, &mut remote).expect("in memory"));
    assert!(filter.insert(key, &mut remote).expect("in memory"));
    assert!(filter.in_yard(&hash) && filter.matches(&twin) == 0);
}

/// EXTEND keeps as many bits as tell a key from the query, and not one more.
fn an_extension_is_as_short_as_it_can_be<F: Form>(remote: &mut F::Remote) {
    let (mut filter, mut rng) = (filter::<F>(1), Rng::new(2));
    let keys: Vec<Digest> = digests(&mut rng).take(100).collect();
    keys.iter().for_each(|&key| assert!(filter.insert(key, remote).expect("in memory")));
    let mut lengths = [0; 65];
    for &key in &keys {
        let (hash, strings) = (filter.hash(key), &filter.level);
        let slot = filter.matching_slot(&hash).expect("there is room");
        let before = strings.string(hash.quotient, slot);
        let query = search(&filter, &mut rng, |other| {
            collide(other, &hash) && before.is_prefix_of(other.bits)
        });
        let shared = common(&filter.hash(query), &hash);
        assert_eq!(filter.adapt(query, remote).expect("in memory"), Adapted::Fixed);
        let slot = filter.matching_slot(&hash).expect("there is room");
        let length = filter.level.string(hash.quotient, slot).length;
        assert_eq!(u32::from(length), shared + 1);
        lengths[usize::from(length)] += 1;
    }
    assert!(lengths[1] > 20 && lengths[2] > 5, "{lengths:?}");
    assert!(keys.iter().all(|&key| !filter.is_new(key)), "no key was rehashed");
}

#[test]
fn extensions_are_as_short_as_they_can_be() {
    an_extension_is_as_short_as_it_can_be::<Practical>(&mut MemorySet::new());
    an_extension_is_as_short_as_it_can_be::<Faithful>(&mut MemoryIndex::new());
}

/// Section 5.4: of two keys with one quotient and signature, the second goes to the yard, though
/// their remainders differ and there is room.
fn a_signature_has_one_key<F: Form>(remote: &mut F::Remote) {
    let (mut filter, mut rng) = (filter::<F>(16), Rng::new(3));
    let tail = shape(16, filter.level.quotients()).tail;
    assert!(tail > 0, "remainders of 16 bits have signatures");
    let key = digests(&mut rng).next().expect("a digest");
    let hash = filter.hash(key);
    let near = |same_signature: bool| {
        move |other: &Hash| {
            other.quotient == hash.quotient
                && other.remainder != hash.remainder
                && (other.remainder >> tail == hash.remainder >> tail) == same_signature
        }
    };
    let twin = search(&filter, &mut rng, near(true));
    let neighbour = search(&filter, &mut rng, near(false));
    for key in [key, twin, neighbour] {
        assert!(filter.insert(key, remote).expect("in memory"));
    }
    assert_eq!(filter.yard.iter().collect::<Vec<_>>(), [twin]);
    assert_eq!(filter.level.len(), 2);
    filter.check(remote).expect("every invariant holds");
}

#[test]
fn a_signature_collision_goes_to_the_yard() {
    a_signature_has_one_key::<Practical>(&mut MemorySet::new());
    a_signature_has_one_key::<Faithful>(&mut MemoryIndex::new());
}
