//! What every cuckoo filter saves before its cells.

use crate::error::{Error, Result};
use crate::filter::Stats;
use crate::format::{Reader, Writer};
use crate::params::MAX_BINS;
use crate::rng::Rng;
use alloc::format;
use alloc::string::ToString;

use super::params::Cuckoo;
use super::table::{Shape, Table};

/// Begins a file: the numbers that every cuckoo filter has, and its cells.
pub(crate) fn save(
    params: &impl Cuckoo,
    version: u32,
    table: &Table,
    seed: u64,
    rng: &Rng,
    counts: &Stats,
) -> Writer {
    let mut writer = Writer::of_version(&params.to_string(), version);
    writer.u64(table.shape.bins as u64);
    writer.u64(seed);
    writer.u64(rng.state);
    writer.u64(counts.len as u64);
    writer.u64(counts.capacity as u64);
    writer.u64(counts.adaptations);
    writer.u64(counts.rebuilds);
    writer.u64(counts.kicks);
    writer.block(table.as_bytes());
    writer
}

/// The numbers that [`save`] wrote before the cells.
pub(crate) struct Header {
    pub(crate) bins: usize,
    pub(crate) seed: u64,
    pub(crate) rng: Rng,
    pub(crate) counts: Stats,
}

impl Header {
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Header {
            bins: reader.size("the number of bins")?,
            seed: reader.u64("the seed")?,
            rng: Rng::new(reader.u64("the random state")?),
            counts: Stats {
                len: reader.size("the number of keys")?,
                capacity: reader.size("the capacity")?,
                adaptations: reader.counter("the adaptations")?,
                rebuilds: reader.counter("the rebuilds")?,
                kicks: reader.counter("the kicks")?,
                ..Stats::default()
            },
        })
    }

    /// The saved cells, when they are as many as the shape has and the
    /// capacity is one that they can hold.
    pub(crate) fn table(&self, params: &impl Cuckoo, shape: Shape, bytes: &[u8]) -> Result<Table> {
        let cells = (shape.tables as usize * shape.slots as usize).checked_mul(self.bins);
        cells
            .filter(|_| (1..=MAX_BINS).contains(&self.bins))
            .filter(|cells| (1..=*cells).contains(&self.counts.capacity))
            .and_then(|_| Table::from_bytes(bytes, shape, params.cell_bits()))
            .ok_or_else(|| {
                Error::format(format!(
                    "{} bytes of cells are not {} bins of {params}",
                    bytes.len(),
                    self.bins
                ))
            })
    }
}
