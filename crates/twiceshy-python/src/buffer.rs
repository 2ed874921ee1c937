//! Arrays of integers and of fixed-width strings, read in place through the buffer protocol.

use std::ops::Range;

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

/// Memory for a chunk of keys, which the next chunk uses again.
#[derive(Default)]
pub(crate) struct Chunk {
    words: Vec<u64>,
    pub(crate) digests: Vec<Digest>,
    bytes: Vec<u8>,
    text: String,
}

/// An integer as a word; a negative one has the highest bit.
fn signed(number: i64) -> u64 {
    number.cast_unsigned()
}

/// The items of an [`Array`], or integers somewhere else.
#[derive(Clone, Copy)]
pub(crate) struct Items<'a> {
    address: usize,
    stride: isize,
    size: usize,
    item: Item,
    array: std::marker::PhantomData<&'a Array>,
}

impl Items<'_> {
    /// Integers of one, two, four or eight bytes, side by side.
    ///
    /// # Safety
    /// They stay there, and do not change, while the items exist.
    pub(crate) unsafe fn integers(address: usize, size: usize, is_signed: bool) -> Self {
        let item = if is_signed { Item::Signed } else { Item::Unsigned };
        let stride = size.cast_signed();
        Items { address, stride, size, item, array: std::marker::PhantomData }
    }

    /// The digests of these items, which the array must have.
    ///
    /// # Errors
    /// The number of an item that is not Unicode text.
    pub(crate) fn digests<'c>(
        &self,
        hasher: &KeyHasher,
        range: Range<usize>,
        chunk: &'c mut Chunk,
    ) -> Result<&'c [Digest], usize> {
        if matches!(self.item, Item::Bytes | Item::Text) {
            // SAFETY: the caller's numbers are within the array.
            return unsafe { self.strings(hasher, range, chunk) };
        }
        let Chunk { words, digests, .. } = chunk;
        words.resize(range.len(), 0);
        let start = range.start;
        // SAFETY: the caller's numbers are within the array, each of whose items has `size` bytes
        // at its place.
        unsafe {
            match (self.item, self.size) {
                (Item::Unsigned, 1) => self.read(start, words, |item: u8| item.into()),
                (Item::Unsigned, 2) => self.read(start, words, |item: u16| item.into()),
                (Item::Unsigned, 4) => self.read(start, words, |item: u32| item.into()),
                (Item::Signed, 1) => self.read(start, words, |item: i8| signed(item.into())),
                (Item::Signed, 2) => self.read(start, words, |item: i16| signed(item.into())),
                (Item::Signed, 4) => self.read(start, words, |item: i32| signed(item.into())),
                _ => self.read(start, words, |item: u64| item),
            }
        }
        digests.resize(words.len(), Digest::default());
        let is_negative = words.iter().fold(0, |bits, word| bits | word) >> 63 == 1;
        if self.item == Item::Signed && is_negative {
            // The encodings of negative numbers are longer.
            for (digest, word) in digests.iter_mut().zip(words) {
                *digest = word.cast_signed().encode(|bytes| hasher.digest(bytes));
            }
        } else {
            hasher.digest_words(words, digests);
        }
        Ok(digests)
    }

    /// [`Items::digests`] of bytes or text.
    ///
    /// # Safety
    /// The array has these items.
    unsafe fn strings<'c>(
        &self,
        hasher: &KeyHasher,
        range: Range<usize>,
        chunk: &'c mut Chunk,
    ) -> Result<&'c [Digest], usize> {
        let Chunk { digests, bytes, text, .. } = chunk;
        digests.clear();
        bytes.resize(self.size, 0);
        for index in range {
            // SAFETY: the array has this item, and `bytes` has its size.
            unsafe { self.copy(index, bytes) };
            digests.push(match self.item {
                Item::Text => {
                    decode(bytes, text).ok_or(index)?;
                    hasher.digest(&*text)
                }
                _ => hasher.digest(without_zeros(bytes)),
            });
        }
        Ok(digests)
    }

    /// Where an item is.
    fn place(&self, index: usize) -> *const u8 {
        self.address.wrapping_add_signed(self.stride * index as isize) as *const u8
    }

    /// Reads as many items as there are words.
    ///
    /// # Safety
    /// The array has these items, and `T` has their size and is valid for all bits.
    #[inline]
    unsafe fn read<T>(&self, start: usize, words: &mut [u64], word: impl Fn(T) -> u64) {
        // SAFETY: the buffer protocol keeps the item's memory in place as long as the `Array`
        // exists, and all bits are valid. As with numpy itself, a thread that writes to the array
        // meanwhile decides which value is read.
        let item = |place: *const u8| word(unsafe { place.cast::<T>().read_unaligned() });
        if self.stride == size_of::<T>().cast_signed() {
            // A loop of its own, which the compiler turns into wide loads.
            let place = self.place(start);
            for (index, word) in words.iter_mut().enumerate() {
                *word = item(place.wrapping_add(size_of::<T>() * index));
            }
        } else {
            for (index, word) in (start..).zip(words) {
                *word = item(self.place(index));
            }
        }
    }

    /// # Safety
    /// The array has this item, and `bytes` has its size.
    unsafe fn copy(&self, index: usize, bytes: &mut [u8]) {
        // SAFETY: as in `read`; `bytes` is memory of our own.
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
