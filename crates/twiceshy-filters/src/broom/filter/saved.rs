//! A broom filter that is made: empty, or from its bytes (`docs/format.md`).

use super::ghosts::{Ghost, Outside};
use super::{BroomFilter, GROUP};
use crate::broom::form::{self, Form};
use crate::broom::level::Level;
use crate::broom::params::Params;
use crate::broom::sizing::shape;
use crate::broom::strings::Text;
use crate::digest::Digest;
use crate::digest_trie::DigestTrie;
use crate::error::{Error, Result};
use crate::filter::Stats;
use crate::format::{Reader, Writer};
use crate::make::{Build, histogram};
use crate::params::MAX_BINS;
use crate::remote::{read_digest, write_digest};
use crate::rng::Rng;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

impl<F: Form> Build for BroomFilter<F> {
    type Params = Params;

    /// A filter's bins are its quotients.
    fn empty(params: Params, capacity: usize, bins: usize) -> Self {
        let mut filter = BroomFilter {
            level: Level::new(bins, shape(params.slots.f, bins)),
            yard: DigestTrie::default(),
            outside: Outside::default(),
            functions: [0, 0],
            phase: 0,
            frontier: 0,
            rng: Rng::new(0),
            params,
            counts: Stats { capacity, ..Stats::default() },
            form: core::marker::PhantomData,
        };
        let first = if F::BEGINS_WITH_THE_DIGEST { 0 } else { filter.draw() };
        filter.functions = [first, filter.draw()];
        filter
    }

    fn read(params: Params, reader: Reader<'_>) -> Result<Self> {
        form::expect::<F>(&params)?;
        Self::from_reader(params, reader)
    }

    fn params(&self) -> Params {
        self.params
    }

    fn states(&self) -> Vec<usize> {
        histogram(self.adaptivity_bits().map(|bits| bits as usize))
    }
}

impl<F: Form> BroomFilter<F> {
    fn from_reader(params: Params, mut reader: Reader<'_>) -> Result<Self> {
        let quotients = reader.size("the number of quotients")?;
        let len = reader.size("the number of keys")?;
        let counts = Stats {
            capacity: reader.size("the capacity")?,
            adaptations: reader.counter("the adaptations")?,
            rebuilds: reader.counter("the rebuilds")?,
            kicks: reader.counter("the kicks")?,
            ..Stats::default()
        };
        let capacities = 1..=quotients;
        if !(1..=MAX_BINS).contains(&quotients) || !capacities.contains(&counts.capacity) {
            let capacity = counts.capacity;
            return Err(Error::format(format!(
                "{quotients} quotients have no capacity of {capacity}"
            )));
        }
        let functions = [reader.u64("the old function")?, reader.u64("the new function")?];
        let phase = reader.counter("the phase")?;
        let frontier = reader.size("the frontier")?;
        let rng = Rng::new(reader.u64("the generator")?);
        let groups = reader.block("the groups")?;
        let yard_len = reader.count("digests of the yard", 16)?;
        let yard: Vec<Digest> =
            (0..yard_len).map(|_| read_digest(&mut reader)).collect::<Result<_>>()?;
        let ghosts = reader.count("ghosts", 24)?;
        let mut outside = Outside::default();
        for _ in 0..ghosts {
            let quotient = reader.size("a ghost's quotient")?;
            let (tag, length) = (reader.u32("a ghost's tag")?, reader.u32("a ghost's length")?);
            let bits = reader.u64("a ghost's bits")?;
            if quotient >= quotients || tag > 1 || !(1..=64).contains(&length) {
                return Err(Error::format("a ghost belongs nowhere"));
            }
            let string = Text::prefix(bits, length as u8);
            outside.insert(Ghost::new(quotient, tag == 1, string));
        }
        reader.finish()?;
        if !yard.is_sorted_by(|a, b| a < b) {
            return Err(Error::format("the digests of its yard are out of order"));
        }
        if frontier >= quotients {
            return Err(Error::format("its frontier is behind the last quotient"));
        }
        let shape = shape(params.slots.f, quotients);
        let level = Level::from_bytes(groups, quotients, shape).map_err(Error::format)?;
        let filter = BroomFilter {
            level,
            yard: DigestTrie::from_sorted(&yard),
            outside,
            functions,
            phase,
            frontier,
            rng,
            params,
            counts,
            form: core::marker::PhantomData,
        };
        // They may be more than the quotients: the sweep takes in keys of the remote that
        // the filter never got, and the yard has room for any number.
        if filter.len() != len {
            return Err(Error::format("its number of keys is not that of its fingerprints"));
        }
        filter.check_prefixes().map_err(Error::format)?;
        for digest in yard {
            if !filter.level.overflowed(filter.hash(digest).quotient / GROUP) {
                return Err(Error::format("a group does not know of its digest in the yard"));
            }
        }
        Ok(filter)
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(&self.params.to_string());
        writer.u64(self.level.quotients() as u64);
        writer.u64(self.len() as u64);
        writer.u64(self.counts.capacity as u64);
        writer.u64(self.counts.adaptations);
        writer.u64(self.counts.rebuilds);
        writer.u64(self.counts.kicks);
        self.functions.iter().for_each(|&function| writer.u64(function));
        writer.u64(self.phase);
        writer.u64(self.frontier as u64);
        writer.u64(self.rng.state);
        writer.block(&self.level.as_bytes());
        writer.u64(self.yard.len() as u64);
        self.yard.iter().for_each(|digest| write_digest(&mut writer, digest));
        writer.u64(self.outside.len() as u64);
        for ghost in self.outside.iter() {
            writer.u64(ghost.quotient() as u64);
            writer.u32(ghost.tag().into());
            writer.u32(ghost.string().length.into());
            writer.u64(ghost.string().bits);
        }
        writer.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broom::form::Practical;
    use crate::format::seal;

    type Filter = BroomFilter<Practical>;

    /// Two keys in the yard and a ghost outside, of groups behind the first.
    fn filter() -> Filter {
        let params = "broom:f=8".parse().expect("a filter");
        let mut filter = Filter::new(&params, 1000).expect("a capacity");
        for digest in [Digest::new([5 << 60, 7]), Digest::new([9 << 60, 7])] {
            let hash = filter.hash(digest);
            assert!(hash.quotient / GROUP != hash.quotient % GROUP && hash.quotient > GROUP);
            filter.put_into_yard(&hash);
        }
        filter.outside.insert(Ghost::new(100, true, Text::prefix(1 << 60, 7)));
        filter.counts = Stats { adaptations: 3, rebuilds: 2, kicks: 5, ..filter.counts };
        filter
    }

    /// The file with a few bytes replaced, counted from its body's start or, if negative, from the
    /// checksum back.
    fn load(at: isize, bytes: &[u8]) -> Result<Filter> {
        let mut file = filter().to_bytes();
        let kind_len = filter().params.to_string().len() as isize;
        let from = if at < 0 { file.len() as isize - 8 } else { 8 + 4 + 4 + kind_len };
        let start = usize::try_from(from + at).expect("it is in the file");
        file[start..start + bytes.len()].copy_from_slice(bytes);
        seal(&mut file);
        Filter::load(&file)
    }

    const QUOTIENTS: isize = 0;
    const LEN: isize = 8;
    const CAPACITY: isize = 16;
    const FRONTIER: isize = 72;
    const GHOST_BITS: isize = -8;
    const GHOST_LENGTH: isize = GHOST_BITS - 4;
    const GHOST_TAG: isize = GHOST_LENGTH - 4;
    const GHOST_QUOTIENT: isize = GHOST_TAG - 8;
    /// Behind them is the number of ghosts.
    const YARD: isize = GHOST_QUOTIENT - 8 - 2 * 16;

    #[test]
    fn a_loaded_filter_is_what_was_saved() {
        let bytes = filter().to_bytes();
        assert!(Filter::load(&bytes).expect("its own bytes").to_bytes() == bytes);
        let capacity = filter().counts.capacity as u64;
        assert!(load(CAPACITY, &capacity.to_le_bytes()).expect("the same").to_bytes() == bytes);
        let ghost = 100_u64.to_le_bytes();
        assert!(load(GHOST_QUOTIENT, &ghost).expect("the same").to_bytes() == bytes);
        let first = (5_u64 << 60).to_le_bytes();
        assert!(load(YARD, &first).expect("the same").to_bytes() == bytes);
    }

    /// The last value that is allowed, and the next one, of each field that the file may lie in.
    #[test]
    fn every_field_of_a_file_is_checked_at_its_bounds() {
        let quotients = filter().level.quotients() as u64;
        let wide = |at, value: u64| load(at, &value.to_le_bytes());
        let narrow = |at, value: u32| load(at, &value.to_le_bytes());
        let good = [
            wide(CAPACITY, 1),
            wide(CAPACITY, quotients),
            wide(GHOST_QUOTIENT, 0),
            wide(GHOST_QUOTIENT, quotients - 1),
            narrow(GHOST_TAG, 0),
            narrow(GHOST_LENGTH, 1),
            narrow(GHOST_LENGTH, 64),
        ];
        for (index, filter) in good.into_iter().enumerate() {
            filter.unwrap_or_else(|error| panic!("good file {index}: {error}"));
        }
        let bad = [
            (wide(CAPACITY, 0), "quotients have no capacity of 0"),
            (wide(CAPACITY, quotients + 1), "quotients have no capacity of"),
            (wide(QUOTIENTS, 0), "0 quotients have no capacity"),
            (wide(QUOTIENTS, MAX_BINS as u64 + 1), "quotients have no capacity of"),
            (wide(LEN, 1), "its number of keys"),
            (wide(LEN, 3), "its number of keys"),
            (wide(GHOST_QUOTIENT, quotients), "a ghost belongs nowhere"),
            (narrow(GHOST_TAG, 2), "a ghost belongs nowhere"),
            (narrow(GHOST_LENGTH, 0), "a ghost belongs nowhere"),
            (narrow(GHOST_LENGTH, 65), "a ghost belongs nowhere"),
            // The first key of the yard twice, and behind the second.
            (wide(YARD + 16, 5 << 60), "out of order"),
            (wide(YARD, 10 << 60), "out of order"),
            // In a group that has none there.
            (wide(YARD, 6 << 60), "a group does not know"),
            (wide(FRONTIER, quotients), "its frontier is behind"),
        ];
        for (index, (loaded, message)) in bad.into_iter().enumerate() {
            let error = loaded.err().unwrap_or_else(|| panic!("bad file {index}, {message}"));
            assert!(error.to_string().contains(message), "bad file {index}: {error}");
        }
        // Keys of the yard before the frontier have another hash, but not another quotient.
        wide(FRONTIER, quotients - 1).expect("it is before the last quotient");
    }
}
