//! Many keys at once: lists, arrays, columns, and anything that can be iterated over.

use std::ops::Range;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString, PyTuple};

use twiceshy::filters::internals::prefetch_address;
use twiceshy::{Digest, KeyHasher};

use crate::arrow::{Column, is_numpy};
use crate::buffer::{Array, Chunk};
use crate::error::no_panic;
use crate::key;

/// Digests of an array that are made before they are used. With their words and answers they
/// take 12.5 KiB, which stay in the first cache.
const ARRAY_CHUNK: usize = 1 << 9;

/// Digests of Python objects, which are made while attached: enough work to detach for.
const OBJECT_CHUNK: usize = 1 << 14;

/// How far ahead of its use an object of a list is prefetched. With it, a shuffled list of 10^6 str
/// was 2.2 times as fast as a loop of `in`, and without it 0.9 times.
const AHEAD: usize = 16;

const CACHE_LINE: usize = 64;

/// How the answers to a batch are given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    List,
    /// An array of numpy.
    Array,
}

/// Calls `take` with the digests of all keys, chunk by chunk and detached from the interpreter.
///
/// # Errors
/// For the first key that is none; `take` has seen the chunks before it.
pub(crate) fn for_each_chunk(
    keys: &Bound<'_, PyAny>,
    hasher: &KeyHasher,
    take: impl FnMut(&[Digest]) -> PyResult<()> + Send,
) -> PyResult<Form> {
    no_panic(|| {
        if keys.is_instance_of::<PyList>() || keys.is_instance_of::<PyTuple>() {
            return each_item(keys, hasher, take).map(|()| Form::List);
        }
        if let Some(mut column) = Column::of(keys)? {
            each_value(keys.py(), &mut column, hasher, take)?;
            return Ok(Form::Array);
        }
        // Other columns become a list or an array of numpy.
        for method in ["to_pylist", "to_numpy"] {
            if let Some(convert) = keys.getattr_opt(method)? {
                each_item(&convert.call0()?, hasher, take)?;
                return Ok(Form::Array);
            }
        }
        let module = keys.get_type().module()?;
        if module.to_str()?.starts_with("numpy.ma") {
            return Err(PyTypeError::new_err(
                "a masked array has items that are no keys: give array.compressed()",
            ));
        }
        each_item(keys, hasher, take)?;
        Ok(if is_numpy(&module) { Form::Array } else { Form::List })
    })
}

/// [`for_each_chunk`] for a column that is read in place.
fn each_value(
    py: Python<'_>,
    column: &mut Column<'_>,
    hasher: &KeyHasher,
    mut take: impl FnMut(&[Digest]) -> PyResult<()> + Send,
) -> PyResult<()> {
    let mut chunk = Chunk::default();
    while let Some(part) = column.next_part()? {
        let (len, values) = (part.len(), part.values());
        py.detach(|| {
            ranges(len).try_for_each(|range| {
                take(values.digests(hasher, range, &mut chunk).map_err(not_valid)?)
            })
        })?;
    }
    Ok(())
}

/// [`for_each_chunk`] for arrays and all that can be iterated over.
fn each_item(
    keys: &Bound<'_, PyAny>,
    hasher: &KeyHasher,
    mut take: impl FnMut(&[Digest]) -> PyResult<()> + Send,
) -> PyResult<()> {
    let py = keys.py();
    if keys.is_instance_of::<PyString>()
        || keys.is_instance_of::<PyBytes>()
        || keys.is_instance_of::<PyByteArray>()
    {
        let name = keys.get_type().name()?;
        return Err(PyTypeError::new_err(format!(
            "a list, an array or another iterable of keys is needed, not one {name}"
        )));
    }
    if let Ok(list) = keys.cast::<PyList>() {
        // The list may change while `take` runs detached.
        let next = |index: usize| {
            prefetch(list, index + AHEAD);
            list.get_item(index).ok().map(Ok)
        };
        return objects(py, hasher, next, take);
    }
    if let Ok(tuple) = keys.cast::<PyTuple>() {
        return objects(py, hasher, |index| tuple.get_item(index).ok().map(Ok), take);
    }
    if let Some(array) = Array::of(keys)? {
        let (items, mut chunk) = (array.items(), Chunk::default());
        return py.detach(|| {
            ranges(array.len()).try_for_each(|range| {
                take(items.digests(hasher, range, &mut chunk).map_err(not_text)?)
            })
        });
    }
    let mut iterator = keys.try_iter()?;
    objects(py, hasher, |_| iterator.next(), take)
}

/// The chunks of an array of `len` items.
fn ranges(len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(ARRAY_CHUNK).map(move |start| start..len.min(start + ARRAY_CHUNK))
}

/// [`for_each_chunk`] for objects, until there is no next one.
fn objects<'py>(
    py: Python<'py>,
    hasher: &KeyHasher,
    mut next: impl FnMut(usize) -> Option<PyResult<Bound<'py, PyAny>>>,
    mut take: impl FnMut(&[Digest]) -> PyResult<()> + Send,
) -> PyResult<()> {
    let mut digests = Vec::new();
    let mut index = 0;
    loop {
        digests.clear();
        while digests.len() < OBJECT_CHUNK
            && let Some(key) = next(index)
        {
            digests.push(key::digest(hasher, &key?)?);
            index += 1;
        }
        if digests.is_empty() {
            return Ok(());
        }
        py.detach(|| take(&digests))?;
    }
}

/// Prefetches an item of a list, if there is one: the object, and the text behind its header.
#[inline]
fn prefetch(list: &Bound<'_, PyList>, index: usize) {
    if index >= list.len() {
        return;
    }
    // SAFETY: `list` is a list. It lends the item, whose address alone is used. Without a GIL,
    // another thread may have shortened the list, which is an error that nobody waits for.
    let address = unsafe {
        let item = pyo3::ffi::PyList_GetItem(list.as_ptr(), index.cast_signed());
        if item.is_null() {
            pyo3::ffi::PyErr_Clear();
        }
        item as usize
    };
    prefetch_address(address);
    prefetch_address(address.wrapping_add(CACHE_LINE));
}

fn not_text(index: usize) -> PyErr {
    PyValueError::new_err(format!("item {index} of the array is not Unicode text"))
}

fn not_valid(index: usize) -> PyErr {
    PyValueError::new_err(format!("item {index} of the column is not where its offset says"))
}

/// The answers to a batch. Without numpy, they are a list in any case.
pub(crate) fn answers<'py>(
    py: Python<'py>,
    form: Form,
    found: &[bool],
) -> PyResult<Bound<'py, PyAny>> {
    if form == Form::Array
        && let Ok(numpy) = py.import("numpy")
    {
        let bytes = PyByteArray::new_with(py, found.len(), |bytes| {
            for (byte, found) in bytes.iter_mut().zip(found) {
                *byte = u8::from(*found);
            }
            Ok(())
        })?;
        return numpy.call_method1("frombuffer", (bytes, "?"));
    }
    Ok(PyList::new(py, found)?.into_any())
}
