//! The compiled part of the Python package `twiceshy`.
//!
//! `python/twiceshy` is the package that users import: it re-exports `Filter`
//! and wraps the two stores on disk.

mod arrow;
mod batch;
mod buffer;
mod error;
mod filter;
mod kept;
mod key;
mod sidecar;
mod store;

/// The module `twiceshy._twiceshy`.
#[pyo3::pymodule]
mod _twiceshy {
    use pyo3::exceptions::PyImportError;
    use pyo3::prelude::*;

    #[cfg(debug_assertions)]
    use crate::error::test_panic::panic_next;

    /// Refuses a subinterpreter, which would share the types of the main one.
    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        // SAFETY: this thread is attached to the interpreter that loads the module.
        let id =
            unsafe { pyo3::ffi::PyInterpreterState_GetID(pyo3::ffi::PyInterpreterState_Get()) };
        if id == 0 {
            #[cfg(debug_assertions)]
            _module.setattr("_panic_next", wrap_pyfunction!(panic_next, _module)?)?;
            return Ok(());
        }
        Err(PyImportError::new_err(
            "this is a subinterpreter; import it in the main interpreter, or start a process",
        ))
    }

    #[pymodule_export]
    use crate::filter::Filter;
    #[pymodule_export]
    use crate::kept::forked;
    #[pymodule_export]
    use crate::sidecar::Sidecar;
    #[pymodule_export]
    use crate::store::Store;

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
