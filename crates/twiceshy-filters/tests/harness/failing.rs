//! Remotes that fail in the middle of an operation.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::rc::Rc;

use twiceshy_filters::remote::{
    Accesses, Entry, Indexed, MemoryIndex, MemoryMirror, MemorySet, Mirror, Ordered,
};
use twiceshy_filters::{Digest, RemoteError};

/// Accesses until the remote fails once; zero: it does not.
pub type Fuse = Rc<Cell<u32>>;

/// A remote in memory that fails once, when its fuse has burnt down.
pub struct Failing<M> {
    pub memory: M,
    pub fuse: Fuse,
}

impl<M> Failing<M> {
    fn burn(&self) -> Result<(), RemoteError> {
        match self.fuse.get() {
            0 => Ok(()),
            1 => {
                self.fuse.set(0);
                Err("unplugged".into())
            }
            left => {
                self.fuse.set(left - 1);
                Ok(())
            }
        }
    }
}

impl Mirror for Failing<MemoryMirror> {
    fn get(&mut self, cell: usize) -> Result<Option<Digest>, RemoteError> {
        self.burn()?;
        self.memory.get(cell)
    }

    fn put(&mut self, writes: &[(usize, Option<Digest>)]) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.put(writes)
    }

    fn replace(&mut self, layout: MemoryMirror) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.replace(layout)
    }

    fn visit(&mut self, visitor: &mut dyn FnMut(Digest)) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.visit(visitor)
    }

    fn accesses(&self) -> Accesses {
        Mirror::accesses(&self.memory)
    }
}

impl Indexed for Failing<MemoryIndex> {
    fn put(&mut self, removed: &[Entry], added: &[Entry]) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.put(removed, added)
    }

    fn replace(&mut self, entries: &[Entry]) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.replace(entries)
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.visit(range, visitor)
    }

    fn visit_index(
        &mut self,
        function: u64,
        addresses: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.visit_index(function, addresses, visitor)
    }

    fn accesses(&self) -> Accesses {
        Indexed::accesses(&self.memory)
    }
}

impl Ordered for Failing<MemorySet> {
    fn insert(&mut self, digest: Digest) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.insert(digest)
    }

    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError> {
        self.burn()?;
        self.memory.remove(digest)
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.visit(range, visitor)
    }

    fn accesses(&self) -> Accesses {
        Ordered::accesses(&self.memory)
    }
}
