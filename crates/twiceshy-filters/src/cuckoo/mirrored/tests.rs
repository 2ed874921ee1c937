//! What a filter does when a key finds no room.

use super::*;
use crate::cuckoo::plain_full::PlainFull;

/// A filter with fewer keys than it was made for, and a key that no moves make room for. In tables
/// with one cell per bin that are 48.5 % full, cells in circles are taken for good.
fn stuck(text: &str) -> (Mirrored<PlainFull>, MemoryMirror, Digest) {
    let attempt = |seed| {
        let mut rng = Rng::new(seed);
        let mut digest = || Digest::new([rng.next(), rng.next()]);
        let mut filter = Mirrored::empty(text.parse().expect("a filter"), 200, 205);
        let mut mirror = MemoryMirror::new(filter.stats().cells);
        while filter.len() < 199 {
            // Without a rebuild where there is no room.
            filter.place(digest(), &mut mirror).expect("in memory");
        }
        let mut keys = (0..1000).map(|_| digest());
        let key = keys.find(|&key| {
            filter.empty_for(key).is_none()
                && filter.make_room(key, &mut mirror).expect("in memory").is_none()
                && !filter.contains(key)
        });
        key.map(|key| (filter, mirror, key))
    };
    (0..100).find_map(attempt).expect("a graph with circles")
}

/// The key needs a rebuild, or a larger filter. Where one has just failed with as many keys, none
/// is tried: the key is refused, and neither filter nor mirror has changed.
#[test]
fn a_rebuild_that_has_just_failed_is_not_tried_again() {
    for full in ["rebuild", "grow"] {
        let (filter, mirror, key) = stuck(&format!("plain-full:f=8,k=2,b=1,full={full}"));
        let (mut renewed, mut its_mirror) = (filter.clone(), mirror.clone());
        assert!(renewed.insert(key, &mut its_mirror).expect("other hash functions"), "{full}");
        assert_eq!(renewed.stats().rebuilds, filter.stats().rebuilds + 1, "{full}");
        let (mut refusing, mut its_mirror) = (filter.clone(), mirror);
        refusing.futile.note(filter.len());
        let before = its_mirror.save();
        let refused = refusing.insert(key, &mut its_mirror);
        assert!(matches!(refused, Err(Error::Full { len: 199, .. })), "{full}");
        assert!(refusing.save() == filter.save() && its_mirror.save() == before, "{full}");
    }
}
