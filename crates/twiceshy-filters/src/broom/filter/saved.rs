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
