//! A stash for each subtable: fingerprints that found no cell.
//!
//! Eppstein, "Cuckoo Filter: Simplification and Analysis", section 5. An entry is the low `f`
//! bits of the smaller of the fingerprint's two bins, and the fingerprint; a query matches that
//! pair as rarely as a cell, so the stash does not raise the false-positive rate (Theorem 5.1).

use crate::error::{Error, Result};
use crate::format::{Reader, Writer};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// Fingerprints without a cell, by subtable.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Stash {
    /// One list for each subtable; none at all for a filter without a stash.
    subtables: Vec<Vec<Entry>>,
    /// Entries of all lists.
    len: usize,
    /// The most entries of a list.
    most: usize,
    /// Bits of a bin's number within its subtable: those of a fingerprint.
    width: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry {
    location: u32,
    fingerprint: u32,
}

impl Stash {
    /// One for fingerprints of `width` bits in so many bins, with up to `most` entries
    /// per subtable.
    pub(crate) fn new(most: u32, width: u32, bins: usize) -> Self {
        let subtables = if most == 0 { 0 } else { bins >> width };
        Stash { subtables: vec![Vec::new(); subtables], len: 0, most: most as usize, width }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        let lists = self.subtables.capacity() * size_of::<Vec<Entry>>();
        let entries: usize = self.subtables.iter().map(Vec::capacity).sum();
        (lists + entries * size_of::<Entry>()) * 8
    }

    fn entry(&self, bins: [usize; 2], fingerprint: u64) -> (usize, Entry) {
        let smaller = bins[0].min(bins[1]);
        let location = smaller & ((1 << self.width) - 1);
        (
            smaller >> self.width,
            Entry { location: location as u32, fingerprint: fingerprint as u32 },
        )
    }

    #[inline]
    pub(crate) fn holds(&self, bins: [usize; 2], fingerprint: u64) -> bool {
        self.len != 0 && self.search(bins, fingerprint)
    }

    fn search(&self, bins: [usize; 2], fingerprint: u64) -> bool {
        let (subtable, entry) = self.entry(bins, fingerprint);
        self.subtables[subtable].contains(&entry)
    }

    /// `false` when the subtable's stash is full, or there is none.
    #[must_use]
    pub(crate) fn push(&mut self, bins: [usize; 2], fingerprint: u64) -> bool {
        let (subtable, entry) = self.entry(bins, fingerprint);
        match self.subtables.get_mut(subtable) {
            Some(list) if list.len() < self.most => {
                list.reserve_exact(1);
                list.push(entry);
                self.len += 1;
                true
            }
            _ => false,
        }
    }

    /// Removes one such fingerprint, if there is one.
    pub(crate) fn remove(&mut self, bins: [usize; 2], fingerprint: u64) -> bool {
        let (subtable, entry) = self.entry(bins, fingerprint);
        self.take(subtable, |stashed| *stashed == entry).is_some()
    }

    /// Takes out a fingerprint that may sit in this bin.
    pub(crate) fn pop_for(&mut self, bin: usize) -> Option<u64> {
        if self.len == 0 {
            return None;
        }
        let location = (bin & ((1 << self.width) - 1)) as u32;
        let belongs = |entry: &Entry| {
            entry.location == location || entry.location ^ entry.fingerprint == location
        };
        self.take(bin >> self.width, belongs).map(|entry| u64::from(entry.fingerprint))
    }

    fn take(&mut self, subtable: usize, wanted: impl Fn(&Entry) -> bool) -> Option<Entry> {
        let list = self.subtables.get_mut(subtable)?;
        let index = list.iter().position(wanted)?;
        self.len -= 1;
        Some(list.swap_remove(index))
    }

    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.len as u64);
        for (subtable, list) in self.subtables.iter().enumerate() {
            for entry in list {
                writer.u64(subtable as u64);
                writer.u32(entry.location);
                writer.u32(entry.fingerprint);
            }
        }
    }

    pub(crate) fn read(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        for _ in 0..reader.count("stashed fingerprints", 16)? {
            let subtable = reader.size("a subtable")?;
            let location = reader.u32("a location")?;
            let fingerprint = reader.u32("a fingerprint")?;
            let end = 1u64 << self.width;
            if subtable >= self.subtables.len()
                || u64::from(location) >= end
                || !(1..end).contains(&u64::from(fingerprint))
            {
                return Err(Error::format("a stashed fingerprint is out of range"));
            }
            let bin = subtable << self.width | location as usize;
            let entry = Entry { location, fingerprint };
            let bins = [bin, bin ^ fingerprint as usize];
            if self.entry(bins, fingerprint.into()) != (subtable, entry) {
                return Err(Error::format("a stashed fingerprint names the larger of its bins"));
            }
            if !self.push(bins, fingerprint.into()) {
                return Err(Error::format("a stash holds more than it may"));
            }
        }
        Ok(())
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let entries: usize = self.subtables.iter().map(Vec::len).sum();
        if entries != self.len {
            return Err(format!("the stash counts {} entries and has {entries}", self.len));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Four subtables of sixteen bins, against a list of the fingerprints and their bins.
    #[test]
    fn a_stash_agrees_with_a_list() {
        let (mut rng, most) = (Rng::new(1), 3);
        let mut stash = Stash::new(most, 4, 64);
        let mut list: Vec<([usize; 2], u64)> = Vec::new();
        let mut refused = 0;
        for _ in 0..5000 {
            let (bin, fingerprint) = (rng.below(64) as usize, 1 + rng.below(15));
            let bins = [bin, bin ^ fingerprint as usize];
            let is_same =
                |&(own, other): &([usize; 2], u64)| other == fingerprint && own.contains(&bin);
            assert_eq!(stash.holds(bins, fingerprint), list.iter().any(is_same));
            match rng.below(4) {
                0 | 1 => {
                    let there = list.iter().filter(|(own, _)| own[0] / 16 == bin / 16).count();
                    let room = there < most as usize;
                    assert_eq!(stash.push(bins, fingerprint), room);
                    refused += usize::from(!room);
                    list.extend(room.then_some((bins, fingerprint)));
                }
                2 => {
                    let at = list.iter().position(is_same);
                    assert_eq!(stash.remove(bins, fingerprint), at.is_some());
                    at.map(|at| list.swap_remove(at));
                }
                _ => match stash.pop_for(bin) {
                    Some(popped) => {
                        let belongs = |(own, other): &([usize; 2], u64)| {
                            *other == popped && own.contains(&bin)
                        };
                        let at = list.iter().position(belongs).expect("it was there");
                        list.swap_remove(at);
                    }
                    None => assert!(list.iter().all(|(own, _)| !own.contains(&bin))),
                },
            }
            assert_eq!(stash.len(), list.len());
            stash.check().expect("as many as are counted");
        }
        assert!(refused > 100, "{refused} were refused");
        let mut writer = Writer::new("stash");
        stash.write(&mut writer);
        let bytes = writer.finish();
        let mut read = Stash::new(most, 4, 64);
        read.read(&mut Reader::open(&bytes).expect("a whole file")).expect("its own bytes");
        assert!(read == stash && !list.is_empty());
        stash.len += 1;
        assert!(stash.check().is_err());
        let mut none = Stash::new(0, 4, 64);
        assert!(!none.push([1, 2], 3) && !none.holds([1, 2], 3) && none.pop_for(1).is_none());
    }
}
