//! [`Sidecar`]: what the Python class `Guard` is made of.

use std::path::{Path, PathBuf};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use twiceshy::store::Redb;
use twiceshy::{Adapted, Digest};

use crate::kept::{Open, options};
use crate::{error, key};

/// A filter in front of a store of the caller's own, in a directory.
#[pyclass(frozen, module = "twiceshy._twiceshy")]
pub(crate) struct Sidecar {
    open: Open<twiceshy::Sidecar<Redb>>,
}

impl Sidecar {
    fn digest(&self, key: &Bound<'_, PyAny>) -> PyResult<Digest> {
        key::encode(key, |bytes| self.open.with_attached(key.py(), |kept| kept.digest(bytes)))?
    }

    fn digests(&self, keys: &Bound<'_, PyList>) -> PyResult<Vec<Digest>> {
        keys.iter().map(|key| self.digest(&key)).collect()
    }
}

#[pymethods]
impl Sidecar {
    #[new]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        capacity: usize,
        durability: &str,
    ) -> PyResult<Self> {
        let options = options(capacity, durability)?;
        let kept = py.detach(|| {
            error::no_panic(|| {
                let opened = options.open_sidecar::<Redb>(&directory, &mut |_, _| ());
                opened.map_err(error::from_store)
            })
        })?;
        Ok(Sidecar { open: Open::new(directory, kept) })
    }

    /// Whether the store may have the key. False is certain.
    fn contains(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        key::encode(key, |bytes| {
            self.open.with_attached(key.py(), |kept| kept.guard().contains(bytes))
        })?
    }

    /// Adapts to a key that ``contains`` answered True and the store does not have.
    fn missed(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let bytes = key::encode(key, <[u8]>::to_vec)?;
        self.open.with(key.py(), |kept| {
            // If the sidecar's own files cannot be read, the answer still stands.
            let adapted = kept.guard().adapt(&bytes).unwrap_or(Adapted::Unfixed);
            if adapted == Adapted::Stored {
                kept.count_false_positive(kept.digest(&bytes));
            }
            Ok(adapted == Adapted::Fixed)
        })
    }

    /// Reports keys that are about to be stored. Returns how many are new.
    fn added(&self, keys: &Bound<'_, PyList>) -> PyResult<usize> {
        let digests = self.digests(keys)?;
        self.open.with(keys.py(), |kept| kept.added_digests(&digests).map_err(error::from_guard))
    }

    /// Reports keys that are no longer stored. Returns how many there were.
    fn removed(&self, keys: &Bound<'_, PyList>) -> PyResult<usize> {
        let digests = self.digests(keys)?;
        self.open.with(keys.py(), |kept| kept.removed_many(&digests).map_err(error::from_guard))
    }

    /// Declares that every key of the store has been reported.
    fn built(&self, py: Python<'_>) -> PyResult<()> {
        self.open.with(py, |kept| kept.built().map_err(error::from_store))
    }

    /// Whether it has been declared built.
    fn is_built(&self, py: Python<'_>) -> PyResult<bool> {
        self.open.with_attached(py, |kept| kept.is_built())
    }

    /// Writes the filters with their adaptations to disk.
    fn snapshot(&self, py: Python<'_>) -> PyResult<()> {
        self.open.with(py, |kept| kept.snapshot().map_err(error::from_store))
    }

    /// Counts since it was opened, and sizes.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.open.stats(py)
    }

    /// Writes a snapshot and closes the directory, if it is open.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.open.close(py)
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        self.open.is_closed(py)
    }

    #[getter]
    fn directory(&self) -> &Path {
        self.open.directory()
    }
}
