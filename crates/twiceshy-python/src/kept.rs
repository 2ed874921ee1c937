//! A directory that is open until it is closed, or until the process is forked.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::RwLockExt as _;
use pyo3::types::PyDict;

use twiceshy::guard::GuardStats;
use twiceshy::store::{Durability, Guarding, Kept, Options};

use crate::error;

/// How many forks lie between this process and the one that loaded the module.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Tells that this process was forked off; the package calls it.
#[pyfunction]
pub(crate) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A guard or sidecar with its directory.
///
/// A forked process shares the files of its parent, and both would write to them. So it can only
/// forget what its parent had opened.
pub(crate) struct Open<G: Guarding> {
    kept: RwLock<Option<Kept<G>>>,
    directory: PathBuf,
    forks: u32,
}

impl<G: Guarding + Send + Sync> Open<G> {
    pub(crate) fn new(directory: PathBuf, kept: Kept<G>) -> Self {
        let forks = FORKS.load(Ordering::Relaxed);
        Open { kept: RwLock::new(Some(kept)), directory, forks }
    }

    /// Uses it detached from the interpreter: for everything that reads or writes files.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        use_it: impl FnOnce(&Kept<G>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        self.check_forks()?;
        py.detach(|| {
            error::no_panic(|| {
                let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner);
                use_it(kept.as_ref().ok_or_else(|| self.closed())?)
            })
        })
    }

    /// Uses it without detaching: for what only asks the filters.
    #[inline]
    pub(crate) fn with_attached<T>(
        &self,
        py: Python<'_>,
        use_it: impl FnOnce(&Kept<G>) -> T,
    ) -> PyResult<T> {
        self.check_forks()?;
        error::no_panic(|| {
            let kept = self.kept.read_py_attached(py).unwrap_or_else(PoisonError::into_inner);
            Ok(use_it(kept.as_ref().ok_or_else(|| self.closed())?))
        })
    }

    /// Closes it, if it is open; waits for those that use it.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let kept = self.kept.write().unwrap_or_else(PoisonError::into_inner).take();
            if self.check_forks().is_err() {
                std::mem::forget(kept);
                return Ok(());
            }
            error::no_panic(|| {
                kept.map_or(Ok(()), |kept| kept.close().map(drop).map_err(error::from_store))
            })
        })
    }

    pub(crate) fn is_closed(&self, py: Python<'_>) -> bool {
        self.kept.read_py_attached(py).unwrap_or_else(PoisonError::into_inner).is_none()
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The guard's statistics.
    pub(crate) fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.with(py, |kept| Ok(kept.guard().stats()))?;
        to_dict(py, &stats)
    }

    fn closed(&self) -> PyErr {
        PyValueError::new_err(format!("{} is closed; open it again", self.directory.display()))
    }

    fn check_forks(&self) -> PyResult<()> {
        if self.forks == FORKS.load(Ordering::Relaxed) {
            return Ok(());
        }
        let directory = self.directory.display();
        Err(PyRuntimeError::new_err(format!(
            "{directory} was opened before this process was forked, and only one process can use \
             it: open it after the fork, in one of them"
        )))
    }
}

impl<G: Guarding> Drop for Open<G> {
    fn drop(&mut self) {
        if self.forks != FORKS.load(Ordering::Relaxed) {
            let kept = self.kept.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(kept.take());
        }
    }
}

/// The options that Python names.
pub(crate) fn options(capacity: usize, durability: &str) -> PyResult<Options> {
    let durability = match durability {
        "power" => Durability::Power,
        "process" => Durability::Process,
        other => {
            return Err(PyValueError::new_err(format!(
                "durability={other:?}: there are \"power\" (a write survives a loss of power) and \
                 \"process\" (it survives the death of the process)"
            )));
        }
    };
    Ok(Options::default().capacity(capacity).durability(durability))
}

fn to_dict<'py>(py: Python<'py>, stats: &GuardStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("keys", stats.keys)?;
    dict.set_item("queries", stats.queries)?;
    dict.set_item("reads_avoided", stats.reads_avoided)?;
    dict.set_item("reads_avoided_by_adapting", stats.reads_avoided_by_adapting)?;
    dict.set_item("store_reads", stats.store_reads)?;
    dict.set_item("sidecar_reads", stats.sidecar_reads)?;
    dict.set_item("false_positives", stats.false_positives)?;
    dict.set_item("adapted", stats.adapted)?;
    dict.set_item("adapted_again", stats.adapted_again)?;
    dict.set_item("postponed", stats.postponed)?;
    dict.set_item("spent", stats.spent)?;
    dict.set_item("growths", stats.growths)?;
    dict.set_item("bytes", stats.bytes)?;
    Ok(dict)
}
