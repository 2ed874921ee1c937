//! Errors as Python's own exceptions, with their texts.

use std::any::Any;
use std::error::Error as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use twiceshy::{Error, filters, guard};

/// `ValueError`: the arguments or the bytes are wrong.
pub(crate) fn from_filter(error: filters::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// `OSError` with its number, or `ValueError` for a file that is not a filter.
pub(crate) fn from_io(error: io::Error) -> PyErr {
    if error.kind() == io::ErrorKind::InvalidData {
        return PyValueError::new_err(error.to_string());
    }
    // PyO3 chooses the subclass by the error's kind.
    error.into()
}

/// `OSError` where the disk or another process is the reason, otherwise `ValueError`.
pub(crate) fn from_store(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Io { source, .. } => io::Error::new(source.kind(), text).into(),
        Error::Locked { .. } => io::Error::new(io::ErrorKind::WouldBlock, text).into(),
        Error::Engine { .. } => PyOSError::new_err(text),
        Error::Guard(error) => from_guard(error),
        _ => PyValueError::new_err(text),
    }
}

/// As [`from_store`].
pub(crate) fn from_guard(error: guard::Error) -> PyErr {
    let text = error.to_string();
    match error {
        guard::Error::Damaged { .. } => PyOSError::new_err(text),
        // Those that a store is the source of.
        _ if error.source().is_some() && !matches!(error, guard::Error::Filter(_)) => {
            PyOSError::new_err(text)
        }
        _ => PyValueError::new_err(text),
    }
}

/// Calls `work`, and turns a panic into a `RuntimeError`. PyO3 would raise `PanicException`, which
/// `except Exception` does not catch. A panic halfway through a change poisons the filter's lock.
#[inline]
pub(crate) fn no_panic<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let work = || {
        #[cfg(debug_assertions)]
        test_panic::check();
        work()
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(internal(&*payload)))
}

#[cold]
fn internal(payload: &(dyn Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    PyRuntimeError::new_err(format!("internal error of twiceshy, please report it: {text}"))
}

/// A panic on demand, for the tests of debug builds.
#[cfg(debug_assertions)]
pub(crate) mod test_panic {
    use std::cell::Cell;

    thread_local!(static NEXT: Cell<bool> = const { Cell::new(false) });

    /// Lets the next call of this thread panic; returns whether it was to do so already.
    #[pyo3::pyfunction]
    pub(crate) fn panic_next() -> bool {
        NEXT.replace(true)
    }

    pub(super) fn check() {
        assert!(!NEXT.take(), "a test wants this panic");
    }
}
