//! Keys as Python objects. They are encoded as [`twiceshy::Key`] says, so that Python, Rust and
//! the command line mean the same key.

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyInt, PyMemoryView, PyString, PyTuple};

use twiceshy::{Digest, Key, KeyHasher};

/// The digest of a key.
#[inline]
pub(crate) fn digest(hasher: &KeyHasher, key: &Bound<'_, PyAny>) -> PyResult<Digest> {
    encode(key, |bytes| hasher.digest(bytes))
}

/// Calls `take` with the encoding of a key. Neither str nor bytes are copied.
#[inline]
pub(crate) fn encode<T>(key: &Bound<'_, PyAny>, take: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
    // The exact type first: a comparison of two pointers instead of a call.
    if let Ok(text) = key.cast_exact::<PyString>() {
        return Ok(take(text.to_str()?.as_bytes()));
    }
    if let Ok(bytes) = key.cast_exact::<PyBytes>() {
        return Ok(take(bytes.as_bytes()));
    }
    encode_other(key, take)
}

/// [`encode`] for what is not exactly a str or bytes.
#[inline(never)]
fn encode_other<T>(key: &Bound<'_, PyAny>, take: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(take(text.to_str()?.as_bytes()));
    }
    if let Ok(bytes) = key.cast::<PyBytes>() {
        return Ok(take(bytes.as_bytes()));
    }
    if key.is_instance_of::<PyBool>() {
        return Err(unsupported(key));
    }
    if let Ok(number) = key.cast::<PyInt>() {
        return encode_int(number, take);
    }
    if let Ok(bytes) = key.cast::<PyByteArray>() {
        return Ok(take(&bytes.to_vec()));
    }
    if key.is_instance_of::<PyMemoryView>() {
        let bytes = key.call_method0("tobytes")?;
        return Ok(take(bytes.cast::<PyBytes>()?.as_bytes()));
    }
    if let Ok(parts) = key.cast::<PyTuple>() {
        return encode_tuple(parts).map(|bytes| take(&bytes));
    }
    // Integers of numpy and others.
    if key.hasattr("__index__")? {
        match key.call_method0("__index__") {
            Ok(number) if number.is_instance_of::<PyInt>() => {
                return encode_int(number.cast::<PyInt>()?, take);
            }
            // As an array of several integers does.
            Err(error) if !error.is_instance_of::<PyTypeError>(key.py()) => return Err(error),
            _ => (),
        }
    }
    Err(unsupported(key))
}

fn encode_int<T>(number: &Bound<'_, PyInt>, take: impl FnOnce(&[u8]) -> T) -> PyResult<T> {
    if let Ok(number) = number.extract::<i64>() {
        Ok(number.encode(take))
    } else if let Ok(number) = number.extract::<i128>() {
        Ok(number.encode(take))
    } else if let Ok(number) = number.extract::<u128>() {
        Ok(number.encode(take))
    } else {
        Err(PyOverflowError::new_err(
            "an int that is a key is at least -2**127 and less than 2**128; \
             make longer ones bytes with int.to_bytes",
        ))
    }
}

/// As a tuple of Rust: for each part the length of its encoding, and the encoding.
fn encode_tuple(parts: &Bound<'_, PyTuple>) -> PyResult<Vec<u8>> {
    if parts.is_empty() {
        return Err(PyValueError::new_err("an empty tuple is no key: give it a part"));
    }
    let mut bytes = Vec::new();
    for part in parts.iter() {
        encode(&part, |part| {
            bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        })?;
    }
    Ok(bytes)
}

/// Names the type.
fn unsupported(key: &Bound<'_, PyAny>) -> PyErr {
    let name = key.get_type().fully_qualified_name().map_or("?".into(), |name| name.to_string());
    PyTypeError::new_err(format!("a key is a str, bytes, an int or a tuple of these, not {name}"))
}

/// The bytes of a key or value of a store: those of a str are its UTF-8.
pub(crate) fn to_bytes(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let is_known = object.is_instance_of::<PyBytes>()
        || object.is_instance_of::<PyString>()
        || object.is_instance_of::<PyByteArray>()
        || object.is_instance_of::<PyMemoryView>();
    if !is_known {
        let name = object.get_type().fully_qualified_name()?;
        return Err(PyTypeError::new_err(format!(
            "a store has keys and values of bytes or str, not {name}"
        )));
    }
    encode(object, <[u8]>::to_vec)
}
