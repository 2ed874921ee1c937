//! [`Store`]: what the mapping of `twiceshy.open` is made of.

use std::path::{Path, PathBuf};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use twiceshy::guard::{Store as _, read_record};
use twiceshy::store::Redb;
use twiceshy::{Digest, Guard};

use crate::kept::{Open, options};
use crate::{error, key};

/// A record: its key and its value.
type Record<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>);

/// A store on disk behind a filter.
#[pyclass(frozen, module = "twiceshy._twiceshy")]
pub(crate) struct Store {
    open: Open<Guard<Redb>>,
}

#[pymethods]
impl Store {
    #[new]
    fn new(
        py: Python<'_>,
        directory: PathBuf,
        capacity: usize,
        durability: &str,
    ) -> PyResult<Self> {
        let options = options(capacity, durability)?;
        let kept = py.detach(|| {
            error::no_panic(|| options.open::<Redb>(&directory).map_err(error::from_store))
        })?;
        Ok(Store { open: Open::new(directory, kept) })
    }

    /// The value of a key, or None.
    fn get<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let (py, bytes) = (key.py(), key::to_bytes(key)?);
        let value = self.open.with(py, |kept| kept.get(bytes).map_err(error::from_guard))?;
        Ok(value.map(|value| PyBytes::new(py, &value)))
    }

    /// Stores records with one write. Returns how many keys are new.
    fn put(
        &self,
        py: Python<'_>,
        records: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)>,
    ) -> PyResult<usize> {
        let records = records
            .iter()
            .map(|(key, value)| Ok((key::to_bytes(key)?, key::to_bytes(value)?)))
            .collect::<PyResult<Vec<_>>>()?;
        self.open.with(py, |kept| kept.put_many(&records).map_err(error::from_guard))
    }

    /// Removes keys with one write. Returns how many there were.
    fn remove(&self, keys: &Bound<'_, PyList>) -> PyResult<usize> {
        let keys_bytes =
            keys.iter().map(|key| key::to_bytes(&key)).collect::<PyResult<Vec<_>>>()?;
        self.open.with(keys.py(), |kept| kept.remove_many(&keys_bytes).map_err(error::from_guard))
    }

    /// Whether a key is stored.
    fn exists(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let bytes = key::to_bytes(key)?;
        self.open.with(key.py(), |kept| kept.exists(bytes).map_err(error::from_guard))
    }

    /// The number of records.
    fn count(&self, py: Python<'_>) -> PyResult<u64> {
        self.open.with(py, |kept| {
            kept.store().count().map_err(|error| PyOSError::new_err(error.to_string()))
        })
    }

    /// The records of a part of the store, in the order of their digests. The store has `parts`
    /// parts of about the same size.
    fn records<'py>(&self, py: Python<'py>, part: u64, parts: u64) -> PyResult<Vec<Record<'py>>> {
        let width = u128::MAX / u128::from(parts.max(1));
        let start = Digest::from_number(u128::from(part) * width);
        let end = match part + 1 == parts {
            true => Digest::from_number(u128::MAX),
            false => Digest::from_number(u128::from(part + 1) * width - 1),
        };
        let records = self.open.with(py, |kept| {
            let mut records = Vec::new();
            let mut damaged = None;
            let read =
                kept.store().read(start..=end, &mut |digest, record| match read_record(record) {
                    Some((key, value)) => records.push((key.to_vec(), value.to_vec())),
                    None => damaged = damaged.or(Some(digest)),
                });
            read.map_err(|error| PyOSError::new_err(error.to_string()))?;
            match damaged {
                Some(digest) => Err(error::from_guard(twiceshy::guard::Error::Damaged { digest })),
                None => Ok(records),
            }
        })?;
        let to_python =
            |(key, value): (Vec<u8>, Vec<u8>)| (PyBytes::new(py, &key), PyBytes::new(py, &value));
        Ok(records.into_iter().map(to_python).collect())
    }

    /// Copies the store, as of one moment, to a new directory. Returns the number of records.
    fn backup(&self, py: Python<'_>, to: PathBuf) -> PyResult<u64> {
        self.open.with(py, |kept| kept.backup(to).map_err(error::from_store))
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
