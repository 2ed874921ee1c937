//! Errors as Python's own exceptions, with their texts.

use std::error::Error as _;
use std::io;

use pyo3::exceptions::{PyOSError, PyValueError};
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
