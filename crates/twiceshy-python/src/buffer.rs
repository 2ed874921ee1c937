//! Arrays of integers and of fixed-width strings, read in place through the buffer protocol.

use pyo3::buffer::{ElementType, PyUntypedBuffer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use twiceshy::{Digest, Key, KeyHasher};

/// What the items of an array are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Item {
    Signed,
    Unsigned,
    /// Bytes, and zeros behind them.
    Bytes,
    /// Code points of four bytes, and zeros behind them.
    Text,
}

/// A one-dimensional array of keys, whose memory stays while it exists.
pub(crate) struct Array {
    buffer: PyUntypedBuffer,
    item: Item,
}

impl Array {
    /// The array behind an object; `None` if there is none whose items can be read in place.
    ///
    /// # Errors
    /// For an array of more than one dimension, or of floats or bools.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        let Ok(buffer) = PyUntypedBuffer::get(object) else { return Ok(None) };
        if buffer.dimensions() != 1 {
            let dimensions = buffer.dimensions();
            return Err(PyValueError::new_err(format!(
                "an array of keys has one dimension, not {dimensions}; give array.ravel()"
            )));
        }
        if buffer.suboffsets().is_some_and(|offsets| offsets.iter().any(|offset| *offset >= 0)) {
            return Ok(None);
        }
        let item = match buffer.format().to_bytes() {
            [b'0'..=b'9', .., b's'] | b"s" => Item::Bytes,
            [b'0'..=b'9', .., b'w'] | [b'=' | b'<', b'0'..=b'9', .., b'w'] | b"w" => Item::Text,
            // A big-endian array, which is read item by item.
            [b'>' | b'!', ..] => return Ok(None),
            _ => match ElementType::from_format(buffer.format()) {
                ElementType::SignedInteger { .. } => Item::Signed,
                ElementType::UnsignedInteger { .. } => Item::Unsigned,
                ElementType::Bool => return Err(unsupported("bool")),
                ElementType::Float { .. } => return Err(unsupported("float")),
                _ => return Ok(None),
            },
        };
        let is_known = match item {
            Item::Signed | Item::Unsigned => matches!(buffer.item_size(), 1 | 2 | 4 | 8),
            Item::Bytes => true,
            Item::Text => buffer.item_size().is_multiple_of(4),
        };
        Ok(is_known.then_some(Array { buffer, item }))
    }

    pub(crate) fn len(&self) -> usize {
        self.buffer.item_count()
    }

    /// The items, for as long as the array is there.
    pub(crate) fn items(&self) -> Items<'_> {
        Items {
            // An address instead of a pointer: it may go to a thread that is detached from Python.
            address: self.buffer.buf_ptr() as usize,
            stride: self.buffer.strides().first().copied().unwrap_or_default(),
            size: self.buffer.item_size(),
            item: self.item,
            array: std::marker::PhantomData,
        }
    }
}

fn unsupported(items: &str) -> PyErr {
    PyTypeError::new_err(format!("a key is a str, bytes or an int, not {items}"))
}

/// The items of an [`Array`].
#[derive(Clone, Copy)]
pub(crate) struct Items<'a> {
    address: usize,
    stride: isize,
    size: usize,
    item: Item,
    array: std::marker::PhantomData<&'a Array>,
}

impl Items<'_> {
    /// The digests of the items from `start` to `end`, which the array must have.
    ///
    /// # Errors
    /// The number of an item that is not Unicode text.
    pub(crate) fn digests(
        &self,
        hasher: &KeyHasher,
        start: usize,
        end: usize,
    ) -> Result<Vec<Digest>, usize> {
        let mut words = Vec::with_capacity(end - start);
        let mut is_negative = false;
        let mut unsigned = |word: u64| words.push(word);
        // SAFETY: the caller's numbers are within the array, each of whose items has `size` bytes
        // at its place.
        unsafe {
            match (self.item, self.size) {
                (Item::Unsigned, 1) => self.each(start, end, |item: u8| unsigned(item.into())),
                (Item::Unsigned, 2) => self.each(start, end, |item: u16| unsigned(item.into())),
                (Item::Unsigned, 4) => self.each(start, end, |item: u32| unsigned(item.into())),
                (Item::Unsigned, _) => self.each(start, end, unsigned),
                (Item::Bytes | Item::Text, _) => return self.string_digests(hasher, start, end),
                (Item::Signed, size) => {
                    let mut signed = |item: i64| {
                        is_negative |= item < 0;
                        words.push(item.cast_unsigned());
                    };
                    match size {
                        1 => self.each(start, end, |item: i8| signed(item.into())),
                        2 => self.each(start, end, |item: i16| signed(item.into())),
                        4 => self.each(start, end, |item: i32| signed(item.into())),
                        _ => self.each(start, end, signed),
                    }
                }
            }
        }
        if is_negative {
            // The encodings of negative numbers are longer.
            let digest = |bytes: &[u8]| hasher.digest(bytes);
            return Ok(words.iter().map(|word| word.cast_signed().encode(digest)).collect());
        }
        let mut digests = vec![Digest::default(); words.len()];
        hasher.digest_words(&words, &mut digests);
        Ok(digests)
    }

    /// [`Items::digests`] of bytes or text.
    ///
    /// # Safety
    /// The array has these items.
    unsafe fn string_digests(
        &self,
        hasher: &KeyHasher,
        start: usize,
        end: usize,
    ) -> Result<Vec<Digest>, usize> {
        let (mut bytes, mut text) = (vec![0_u8; self.size], String::new());
        let digest = |index| {
            // SAFETY: the array has this item, and `bytes` has its size.
            unsafe { self.copy(index, &mut bytes) };
            if self.item == Item::Bytes {
                return Ok(hasher.digest(without_zeros(&bytes)));
            }
            decode(&bytes, &mut text).ok_or(index)?;
            Ok(hasher.digest(&text))
        };
        (start..end).map(digest).collect()
    }

    /// Where an item is.
    fn place(&self, index: usize) -> *const u8 {
        self.address.wrapping_add_signed(self.stride * index as isize) as *const u8
    }

    /// # Safety
    /// The array has these items, and `T` has their size and is valid for all bits.
    unsafe fn each<T>(&self, start: usize, end: usize, mut take: impl FnMut(T)) {
        for index in start..end {
            // SAFETY: the buffer protocol keeps the item's memory in place as long as the
            // `Array` exists, and all bits are valid. As with numpy itself, a thread that writes
            // to the array meanwhile decides which value is read.
            take(unsafe { self.place(index).cast::<T>().read_unaligned() });
        }
    }

    /// # Safety
    /// The array has this item, and `bytes` has its size.
    unsafe fn copy(&self, index: usize, bytes: &mut [u8]) {
        // SAFETY: as in `each`; `bytes` is memory of our own.
        unsafe { self.place(index).copy_to_nonoverlapping(bytes.as_mut_ptr(), self.size) };
    }
}

/// Without the zeros at the end, which numpy pads items with.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    let len = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &bytes[..len]
}

/// Decodes text of four bytes per character; `None` if there is no such character.
fn decode(bytes: &[u8], text: &mut String) -> Option<()> {
    text.clear();
    let (points, _) = bytes.as_chunks::<4>();
    let len = points.iter().rposition(|point| *point != [0; 4]).map_or(0, |last| last + 1);
    for point in &points[..len] {
        text.push(char::from_u32(u32::from_ne_bytes(*point))?);
    }
    Some(())
}
