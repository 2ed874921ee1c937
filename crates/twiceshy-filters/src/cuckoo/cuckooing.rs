//! The cuckooing adaptive cuckoo filter: a key that collides with a query
//! moves on to its bin in the next table.
//!
//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo Filters", section 2.3.
//! Their analysis requires that a moved key collides again with probability `epsilon / n`. With
//! one fingerprint for all tables it would be `1 / n`, so by default the fingerprint depends on
//! the table.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bits::lanes::Lanes;
use crate::digest::Digest;
use crate::error::Result;
use crate::make::Build as _;
use crate::params::{Field, Kind, Valid, Word, field, within};
use crate::remote::Mirror;

use super::draft::Draft;
use super::hashes::{Fingerprints, Hashes};
use super::mirrored::{Mirrored, Rule};
use super::params::Cells;
use super::table::Place;

/// Whether a fingerprint depends on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tags {
    Table,
    Common,
}

impl Word for Tags {
    const WORDS: &'static [(&'static str, Self)] =
        &[("table", Tags::Table), ("common", Tags::Common)];
}

/// The parameters of "cuckooing".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 32 | 12 |
/// | `k` | tables, 2 to 16 | 4 |
/// | `b` | cells per bin, 1 to 64 | 1 |
/// | `tags` | fingerprints that depend on the table (`table`) or not (`common`) | `table` |
/// | `moves` | moves of one adaptation, times log2 of the keys, 1 to 65,536 | 32 |
/// | `search` | how a full bin makes room: `bfs`, `walk`, or `next` as published | `bfs` |
/// | `full` | what a full filter does: `error`, `rebuild` or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    cells: Cells,
    tags: Tags,
    moves: u32,
}

impl Kind for Values {
    type Shape = Cells;

    const NAME: &'static str = "cuckooing";
    const ADAPTS: bool = true;
    const USUAL: Self = Values { cells: Cells::new(4, 1), tags: Tags::Table, moves: 32 };

    fn shape(&self) -> &Cells {
        &self.cells
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let of_adapting = [field("tags", &mut self.tags), field("moves", &mut self.moves)];
        self.cells.fields([], of_adapting)
    }

    fn validate(&self) -> Result<(), String> {
        self.cells.validate_tables(1)?;
        within("moves", self.moves, 1, 1 << 16)?;
        self.cells.validate_fingerprint(0)
    }
}

/// One fingerprint for each table, or one for all.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Cuckooing {
    fingerprints: Fingerprints,
    per_table: bool,
}

impl Cuckooing {
    #[inline(always)]
    fn tag(&self, hashes: Hashes, table: u32) -> u64 {
        self.fingerprints.of(hashes.tag(if self.per_table { table } else { 0 }))
    }
}

impl Rule for Cuckooing {
    const BY_PATTERN: bool = true;
    const SAME_IN_BIN: bool = true;

    type Params = Params;

    fn new(params: &Params) -> Self {
        let fingerprints = Fingerprints::new(params.cells.f);
        Cuckooing { fingerprints, per_table: params.tags == Tags::Table }
    }

    #[inline]
    fn arrival(&self, hashes: Hashes, place: Place) -> u64 {
        self.tag(hashes, place.table)
    }

    #[inline(always)]
    fn pattern(&self, hashes: Hashes, table: u32, lanes: &Lanes) -> u64 {
        lanes.broadcast(self.tag(hashes, table))
    }

    /// Moves each colliding key to its next table, and the keys there out of its way, in a
    /// draft, which is written when all keys have a place. After too many moves the whole filter
    /// takes new hash functions.
    fn fix(
        filter: &mut Mirrored<Self>,
        query: Digest,
        colliding: &[(usize, Digest)],
        remote: &mut dyn Mirror,
    ) -> Result<()> {
        filter.rng.stir(query);
        let size = libm::ceil(libm::log2(filter.len() as f64)).max(1.0) as usize;
        let most = filter.params().moves as usize * size;
        let mut draft = Draft::default();
        for &(cell, stored) in colliding {
            let moved_already = draft.edit(cell).is_some_and(|now| now != Some(stored));
            if !moved_already && !move_on(&mut draft, filter, (cell, stored), most, remote)? {
                // If no hash functions fit either, nothing changes.
                return filter.rehash(remote).map(|_| ());
            }
        }
        draft.write(filter, remote)
    }
}

/// Moves the key in a cell to its next table, and others on as an insertion
/// would. `false` when that takes the draft past `most` moves.
fn move_on(
    draft: &mut Draft,
    filter: &mut Mirrored<Cuckooing>,
    (cell, stored): (usize, Digest),
    most: usize,
    remote: &mut dyn Mirror,
) -> Result<bool> {
    let shape = filter.table.shape;
    draft.clear(cell);
    let (mut homeless, mut from) = (stored, shape.place(cell).table);
    let mut first = true;
    while draft.moves() < most {
        let hashes = filter.hashes(homeless);
        let next = (from + 1) % shape.tables;
        // The collided key has to take the next table. A key that it displaces may take any
        // empty cell of its own. So may the collided key if a loop displaces it in turn, except
        // its old cell.
        let tables = if first { next..next + 1 } else { 0..shape.tables };
        first = false;
        let empty = tables
            .filter(|&table| table != from)
            .flat_map(|table| shape.cells_of(filter.bin(hashes, table)))
            .find(|&at| draft.is_empty(filter, at) && (homeless, at) != (stored, cell));
        if let Some(at) = empty {
            draft.move_to(at, homeless);
            return Ok(true);
        }
        let slot = filter.rng.below(u64::from(shape.slots)) as usize;
        let victim_cell = shape.cells_of(filter.bin(hashes, next)).start + slot;
        // Only the cell that the collided key left may be empty here.
        let Some(victim) = draft.content(filter, victim_cell, remote)? else { return Ok(false) };
        draft.move_to(victim_cell, homeless);
        (homeless, from) = (victim, next);
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::DigestFilter as _;
    use crate::remote::MemoryMirror;
    use crate::rng::Rng;

    fn filter(text: &str, keys: usize) -> (Mirrored<Cuckooing>, MemoryMirror, Rng) {
        let filter = Mirrored::new(&text.parse().expect("a filter"), keys).expect("a capacity");
        let mirror = MemoryMirror::new(filter.stats().cells);
        (filter, mirror, Rng::new(1))
    }

    fn digest(rng: &mut Rng) -> Digest {
        Digest::new([rng.next(), rng.next()])
    }

    /// Of 10,000 digests, each of the 7 fingerprints of 3 bits is that of 1,429 in a table; 250 are 7
    /// standard deviations. Two tables have the same one for a seventh of the digests, or for
    /// all.
    #[test]
    fn a_fingerprint_is_any_and_depends_on_the_table_or_not() {
        for (text, per_table) in [("cuckooing:f=3", true), ("cuckooing:f=3,tags=common", false)] {
            let (filter, _, mut rng) = filter(text, 4);
            let mut counts = [[0; 8]; 4];
            let mut same = 0;
            for _ in 0..10_000 {
                let hashes = filter.hashes(digest(&mut rng));
                let tags = [0, 1, 2, 3].map(|table| filter.rule.tag(hashes, table) as usize);
                counts.iter_mut().zip(tags).for_each(|(counts, tag)| counts[tag] += 1);
                same += usize::from(tags[0] == tags[3]);
            }
            for counts in counts {
                assert_eq!(counts[0], 0, "{text}: empty cells are 0");
                assert!(counts[1..].iter().all(|count| (1178..1679).contains(count)), "{counts:?}");
            }
            let wanted = if per_table { 1178..1679 } else { 10_000..10_001 };
            assert!(wanted.contains(&same), "{text}: {same}");
        }
    }

    /// A key that collides goes to the next table, though all are free.
    #[test]
    fn a_key_moves_to_the_next_table() {
        for (text, tables) in [("cuckooing:f=3", 4), ("cuckooing:f=3,k=3,b=2,tags=common", 3)] {
            let (mut filter, mut mirror, mut rng) = filter(text, 4);
            let key = digest(&mut rng);
            filter.insert(key, &mut mirror).expect("room");
            let table = |filter: &Mirrored<Cuckooing>| {
                let cell = filter.table.occupied().next().expect("one key is stored");
                filter.table.shape.place(cell).table
            };
            for _ in 0..3 * tables {
                let before = table(&filter);
                let query = loop {
                    let query = digest(&mut rng);
                    if filter.contains(query) {
                        break query;
                    }
                };
                filter.adapt(query, &mut mirror).expect("in memory");
                assert_eq!(table(&filter), (before + 1) % tables, "{text}");
                assert!(filter.contains(key), "a false negative");
            }
            assert_eq!(filter.stats().kicks, 3 * u64::from(tables), "a move each");
        }
    }

    /// In a full table moves have no end but their limit.
    #[test]
    fn moves_end_in_a_full_table() {
        let text = "cuckooing:f=2,k=2,b=4,moves=1,full=error";
        let (mut filter, mut mirror, mut rng) = filter(text, 64);
        while filter.insert(digest(&mut rng), &mut mirror).is_ok() {}
        let (most, cells) = (7, filter.table.occupied().collect::<Vec<_>>());
        let mut given_up = 0;
        for cell in cells {
            let stored = filter.occupant(cell, &mut mirror).expect("in memory");
            let mut draft = Draft::default();
            let moved = move_on(&mut draft, &mut filter, (cell, stored), most, &mut mirror);
            let moved = moved.expect("in memory");
            assert!(draft.moves() <= most, "{} moves of {most}", draft.moves());
            given_up += u32::from(!moved && draft.moves() == most);
        }
        assert!(given_up > 0, "no key came to the limit");
    }
}
