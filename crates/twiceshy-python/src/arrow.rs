//! Columns of pyarrow, polars, pandas and others, read in place through Arrow's C data interface.
//!
//! The three structs are those of its specification. What this file relies on is what that
//! promises: an exported array is valid, does not change, and stays until it is released. All that
//! can be checked is checked: lengths, offsets, nulls and views. Only the size of a buffer is not
//! known here, except for those of views.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::ptr;

use pyo3::exceptions::{PyOSError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyString};

use twiceshy::{Digest, KeyHasher};

use crate::buffer::{Chunk, Items};

#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *const *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

impl Schema {
    const NONE: Self = Schema {
        format: ptr::null(),
        name: ptr::null(),
        metadata: ptr::null(),
        flags: 0,
        n_children: 0,
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: None,
        private_data: ptr::null_mut(),
    };
}

impl Array {
    const NONE: Self = Array {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: ptr::null(),
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: None,
        private_data: ptr::null_mut(),
    };
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the producer's own callback, which was not called yet.
            unsafe { release(self) };
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: the producer's own callback, which was not called yet.
            unsafe { release(self) };
        }
    }
}

/// What the values of a column are.
#[derive(Clone, Copy)]
enum Format {
    Integers {
        size: usize,
        is_signed: bool,
    },
    /// Text or bytes behind offsets of four or eight bytes.
    Offsets {
        size: usize,
    },
    /// Text or bytes behind views: short ones are in them.
    Views,
}

impl Format {
    /// `None` for types that are no keys, or that have to be converted.
    fn of(schema: &Schema) -> Option<Self> {
        if schema.format.is_null() || !schema.dictionary.is_null() {
            return None;
        }
        // SAFETY: the producer's text, which ends with a zero.
        Some(match unsafe { CStr::from_ptr(schema.format) }.to_bytes() {
            b"c" => Format::Integers { size: 1, is_signed: true },
            b"C" => Format::Integers { size: 1, is_signed: false },
            b"s" => Format::Integers { size: 2, is_signed: true },
            b"S" => Format::Integers { size: 2, is_signed: false },
            b"i" => Format::Integers { size: 4, is_signed: true },
            b"I" => Format::Integers { size: 4, is_signed: false },
            b"l" => Format::Integers { size: 8, is_signed: true },
            b"L" => Format::Integers { size: 8, is_signed: false },
            b"u" | b"z" => Format::Offsets { size: 4 },
            b"U" | b"Z" => Format::Offsets { size: 8 },
            b"vu" | b"vz" => Format::Views,
            _ => return None,
        })
    }
}

/// Where the arrays of a column come from.
enum Source<'py> {
    One(Array),
    /// The capsule releases the stream.
    Stream(Bound<'py, PyCapsule>),
}

/// A column of keys.
pub(crate) struct Column<'py> {
    source: Source<'py>,
    format: Format,
}

impl<'py> Column<'py> {
    /// The column behind an object; `None` if there is none that can be read in place.
    ///
    /// # Errors
    /// Those of a stream that cannot say what it has.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if let Some(export) = object.getattr_opt("__arrow_c_array__")?
            && let Ok(capsules) = export.call0()
        {
            let (schema, array) =
                capsules.extract::<(Bound<'_, PyCapsule>, Bound<'_, PyCapsule>)>()?;
            let schema = schema.pointer_checked(Some(c"arrow_schema"))?.cast::<Schema>();
            let array = array.pointer_checked(Some(c"arrow_array"))?.cast::<Array>();
            // SAFETY: capsules of these names have these structs, and they exist. Whoever takes an
            // array leaves one behind that is released.
            let (format, array) =
                unsafe { (Format::of(schema.as_ref()), ptr::replace(array.as_ptr(), Array::NONE)) };
            return Ok(format.map(|format| Column { source: Source::One(array), format }));
        }
        // pandas would copy an array of numpy.
        let dtype = object.getattr_opt("dtype")?;
        if dtype
            .is_some_and(|dtype| dtype.get_type().module().is_ok_and(|module| is_numpy(&module)))
        {
            return Ok(None);
        }
        if let Some(export) = object.getattr_opt("__arrow_c_stream__")?
            && let Ok(capsule) = export.call0()
            && let Ok(capsule) = capsule.cast_into::<PyCapsule>()
        {
            let mut schema = Schema::NONE;
            call(&capsule, |stream| {
                // SAFETY: `schema` is a struct to fill, and the stream is the producer's.
                stream.get_schema.map(|get| unsafe { get(stream, &mut schema) })
            })?;
            let format = Format::of(&schema);
            return Ok(format.map(|format| Column { source: Source::Stream(capsule), format }));
        }
        Ok(None)
    }

    /// The next part of the column.
    ///
    /// # Errors
    /// Those of the stream, and for an array that has nulls or is not as its type says.
    pub(crate) fn next_part(&mut self) -> PyResult<Option<Part>> {
        let array = match &mut self.source {
            Source::One(array) => std::mem::replace(array, Array::NONE),
            Source::Stream(capsule) => {
                let mut array = Array::NONE;
                call(capsule, |stream| {
                    // SAFETY: `array` is a struct to fill, and the stream is the producer's.
                    stream.get_next.map(|get| unsafe { get(stream, &mut array) })
                })?;
                array
            }
        };
        array.release.is_some().then(|| Part::new(array, self.format)).transpose()
    }
}

/// Whether a module is numpy or a part of it.
pub(crate) fn is_numpy(module: &Bound<'_, PyString>) -> bool {
    module.to_str().is_ok_and(|name| name.split('.').next() == Some("numpy"))
}

/// Calls a function of a stream.
fn call(
    capsule: &Bound<'_, PyCapsule>,
    function: impl FnOnce(&mut Stream) -> Option<c_int>,
) -> PyResult<()> {
    let stream = capsule.pointer_checked(Some(c"arrow_array_stream"))?.cast::<Stream>();
    // SAFETY: a capsule of this name has a stream, which nobody else uses: it was made for us.
    let stream = unsafe { &mut *stream.as_ptr() };
    if stream.release.is_some() && function(stream) == Some(0) {
        return Ok(());
    }
    let reason = stream.get_last_error.map_or(ptr::null(), |last| {
        // SAFETY: the text stays until the next call.
        unsafe { last(stream) }
    });
    let reason = match reason.is_null() {
        true => "no reason is given".into(),
        // SAFETY: a text that ends with a zero.
        false => unsafe { CStr::from_ptr(reason) }.to_string_lossy(),
    };
    Err(PyOSError::new_err(format!("the column cannot be read: {reason}")))
}

/// An array of a column, without nulls.
pub(crate) struct Part {
    values: Values,
    len: usize,
    /// Keeps the memory of the values.
    _array: Array,
}

impl Part {
    fn new(array: Array, format: Format) -> PyResult<Self> {
        let wrong = || PyValueError::new_err("the column has an array that is not valid");
        let size = |number: i64| usize::try_from(number).map_err(|_| wrong());
        let (len, offset, count) =
            (size(array.length)?, size(array.offset)?, size(array.n_buffers)?);
        offset.checked_add(len).ok_or_else(wrong)?;
        // SAFETY: the array has so many buffers.
        let buffers = || (0..count).map(|index| unsafe { *array.buffers.add(index) } as usize);
        let needed = match format {
            Format::Integers { .. } => 2,
            Format::Offsets { .. } | Format::Views => 3,
        };
        if count < needed || array.buffers.is_null() {
            return Err(wrong());
        }
        let buffers: Vec<usize> = buffers().collect();
        if len > 0 && buffers[1] == 0 {
            return Err(wrong());
        }
        if array.null_count != 0 && buffers[0] != 0 {
            // SAFETY: the array has a bit for each of its values.
            let is_null = |index: &usize| unsafe {
                let bit = offset + index;
                *((buffers[0] + bit / 8) as *const u8) >> (bit % 8) & 1 == 0
            };
            if let Some(index) = (0..len).find(is_null) {
                return Err(PyTypeError::new_err(format!(
                    "item {index} of the column is null, which is no key; drop the nulls first"
                )));
            }
        }
        let values = match format {
            Format::Integers { size, is_signed } => {
                Values::Integers { address: buffers[1] + offset * size, size, is_signed }
            }
            Format::Offsets { size } => {
                Values::Offsets { address: buffers[1] + offset * size, size, data: buffers[2] }
            }
            Format::Views => {
                let (sizes, data) = (buffers[count - 1] as *const i64, &buffers[2..count - 1]);
                // SAFETY: the last buffer has the sizes of those before it.
                let size_of = |index| unsafe { sizes.add(index).read_unaligned() };
                let sized = |(index, &data)| Ok((data, size(size_of(index))?));
                let data = data.iter().enumerate().map(sized).collect::<PyResult<_>>()?;
                Values::Views { address: buffers[1] + offset * VIEW, data }
            }
        };
        Ok(Part { values, len, _array: array })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The values, which can be read while detached from the interpreter.
    pub(crate) fn values(&self) -> &Values {
        &self.values
    }
}

/// Bytes of a view, of which twelve are the text if that is enough.
const VIEW: usize = 16;
const SHORT: usize = 12;

/// Where the values of a [`Part`] are, as addresses.
pub(crate) enum Values {
    Integers { address: usize, size: usize, is_signed: bool },
    Offsets { address: usize, size: usize, data: usize },
    Views { address: usize, data: Vec<(usize, usize)> },
}

impl Values {
    /// The digests of these values, which the part must have.
    ///
    /// # Errors
    /// The number of a value with a wrong offset.
    pub(crate) fn digests<'c>(
        &self,
        hasher: &KeyHasher,
        range: Range<usize>,
        chunk: &'c mut Chunk,
    ) -> Result<&'c [Digest], usize> {
        if let Values::Integers { address, size, is_signed } = *self {
            // SAFETY: the part has these values, side by side.
            return unsafe { Items::integers(address, size, is_signed) }
                .digests(hasher, range, chunk);
        }
        chunk.digests.clear();
        for index in range {
            let (address, len) = self.string(index).ok_or(index)?;
            let bytes = match len {
                0 => &[],
                // SAFETY: the producer says that there are so many bytes.
                _ => unsafe { std::slice::from_raw_parts(address as *const u8, len) },
            };
            chunk.digests.push(hasher.digest(bytes));
        }
        Ok(&chunk.digests)
    }

    /// Where a string is; `None` if it cannot be there.
    fn string(&self, index: usize) -> Option<(usize, usize)> {
        // SAFETY: the part has a view, or two offsets, at each index that it has.
        let number = |address: usize| unsafe { (address as *const i32).read_unaligned() };
        // SAFETY: as for `number`.
        let long = |address: usize| unsafe { (address as *const i64).read_unaligned() };
        match self {
            Values::Integers { .. } => None,
            &Values::Offsets { address, size, data } => {
                let place = address + index * size;
                let [start, end] = match size {
                    4 => [number(place).into(), number(place + 4).into()],
                    _ => [long(place), long(place + 8)],
                };
                let [start, end] = [usize::try_from(start).ok()?, usize::try_from(end).ok()?];
                Some((data + start, end.checked_sub(start)?))
            }
            Values::Views { address, data } => {
                let view = address + index * VIEW;
                let len = usize::try_from(number(view)).ok()?;
                if len <= SHORT {
                    return Some((view + 4, len));
                }
                let (buffer, size) = *data.get(usize::try_from(number(view + 8)).ok()?)?;
                let start = usize::try_from(number(view + 12)).ok()?;
                (start.checked_add(len)? <= size).then_some((buffer + start, len))
            }
        }
    }
}
