//! What the static and the adaptive quotient filters have in common around their runs:
//! files, counts and the comparison with a remote.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::params::Quotient;
use super::runs::Runs;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::Stats;
use crate::format::{Reader, Writer};
use crate::params::{MAX_BINS, growth};
use crate::remote::{EVERY_DIGEST, Ordered};

/// Counts and sizes of a filter with these runs.
pub(super) fn stats(runs: &Runs, counts: Stats) -> Stats {
    Stats { len: runs.len(), cells: runs.quotients(), bits: runs.bits(), ..counts }
}

/// The file of a filter: the numbers that all of them have, those of its own, its blocks.
pub(super) fn save(params: &impl Quotient, runs: &Runs, counts: &Stats, own: &[u64]) -> Vec<u8> {
    let mut writer = Writer::new(&params.to_string());
    writer.u64(runs.quotients() as u64);
    writer.u64(runs.len() as u64);
    writer.u64(counts.capacity as u64);
    writer.u64(counts.rebuilds);
    writer.u64(counts.kicks);
    own.iter().for_each(|&number| writer.u64(number));
    writer.block(runs.as_bytes());
    writer.finish()
}

/// What [`save`] wrote; `own` reads the numbers of the filter's own.
///
/// # Errors
/// [`Error::Format`].
pub(super) fn read(
    params: &impl Quotient,
    mut reader: Reader<'_>,
    own: impl FnOnce(&mut Reader<'_>, &mut Stats) -> Result<()>,
) -> Result<(Runs, Stats)> {
    let slots = reader.size("the number of slots")?;
    let len = reader.size("the number of keys")?;
    let mut counts = Stats {
        capacity: reader.size("the capacity")?,
        rebuilds: reader.counter("the rebuilds")?,
        kicks: reader.counter("the kicks")?,
        ..Stats::default()
    };
    own(&mut reader, &mut counts)?;
    let blocks = reader.block("the blocks")?;
    reader.finish()?;
    if !(1..=MAX_BINS).contains(&slots) || !(1..=slots).contains(&counts.capacity) {
        let capacity = counts.capacity;
        return Err(Error::format(format!("{slots} slots have no capacity of {capacity}")));
    }
    let runs = Runs::from_bytes(blocks, slots, params.slots().f, params.state_bytes())
        .map_err(Error::format)?;
    if runs.len() != len || len > slots {
        return Err(Error::format("its number of keys is not that of its remainders"));
    }
    Ok((runs, counts))
}

/// Capacity and slots of the filter that takes the place of a full one. Half as many slots
/// again always have room for one more key.
///
/// # Errors
/// [`Error::Spec`] for more slots than a filter can have.
pub(super) fn next_size(
    params: &impl Quotient,
    runs: &Runs,
    capacity: usize,
) -> Result<(usize, usize)> {
    let mut sizes = growth(*params, capacity.max(runs.len()), runs.quotients());
    sizes.next().expect("there is a next size")
}

/// Compares a filter's slots with the remote's digests, both in order: each digest has a
/// slot of its own, and there are no others.
///
/// # Errors
/// What does not hold.
pub(super) fn check_owners<S>(
    mut slots: impl Iterator<Item = S>,
    remote: &mut dyn Ordered,
    mut is_owner: impl FnMut(Digest, S) -> bool,
) -> Result<(), String> {
    let mut stray = None;
    remote
        .visit(EVERY_DIGEST, &mut |digest| {
            let owns_one = slots.next().is_some_and(|slot| is_owner(digest, slot));
            if stray.is_none() && !owns_one {
                stray = Some(digest);
            }
        })
        .map_err(|error| error.to_string())?;
    if let Some(digest) = stray {
        return Err(format!("{digest:?} is stored and has no fingerprint of its own"));
    }
    match slots.count() {
        0 => Ok(()),
        orphans => Err(format!("{orphans} fingerprints belong to no stored key")),
    }
}
