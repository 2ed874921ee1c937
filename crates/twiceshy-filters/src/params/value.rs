//! Values of parameters and their text form.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A parameter's name and value.
pub type Field<'a> = (&'static str, &'a mut dyn Value);

/// One parameter, for the list of them.
pub(crate) fn field<'a>(name: &'static str, value: &'a mut dyn Value) -> Field<'a> {
    (name, value)
}

/// A value with a text form.
pub trait Value {
    /// Its text.
    fn text(&self) -> String;

    /// Parses it.
    ///
    /// # Errors
    /// What is expected.
    fn set(&mut self, text: &str) -> Result<(), String>;

    /// Whether a description has it.
    fn is_written(&self) -> bool {
        true
    }
}

impl Value for u32 {
    fn text(&self) -> String {
        self.to_string()
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        *self = text.parse().map_err(|_| "a number is expected".to_string())?;
        Ok(())
    }
}

impl Value for bool {
    fn text(&self) -> String {
        u32::from(*self).to_string()
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        *self = match text {
            "0" => false,
            "1" => true,
            _ => return Err("0 or 1 is expected".to_string()),
        };
        Ok(())
    }
}

/// Whether a filter follows its paper to the letter where we know better. Written only if it
/// does: descriptions, and files, are older than this parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Literal(pub(crate) bool);

impl Literal {
    /// The label of a filter that is otherwise called `name`.
    pub(crate) fn label(self, name: &str) -> String {
        format!("{name}{}", if self.0 { "-literal" } else { "" })
    }
}

impl Value for Literal {
    fn text(&self) -> String {
        self.0.text()
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        self.0.set(text)
    }

    fn is_written(&self) -> bool {
        self.0
    }
}

/// A value that is one of a few words.
pub(crate) trait Word: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: Word> Value for T {
    fn text(&self) -> String {
        let word = T::WORDS.iter().find(|(_, named)| named == self);
        word.expect("every value has a word").0.to_string()
    }

    fn set(&mut self, text: &str) -> Result<(), String> {
        *self =
            T::WORDS.iter().find(|(word, _)| *word == text).map(|(_, named)| *named).ok_or_else(
                || {
                    let known: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
                    format!("one of {} is expected", known.join(", "))
                },
            )?;
        Ok(())
    }
}

/// What happens to an insertion that finds no cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The key is handed back in [`Error::Full`](crate::Error::Full).
    Error,
    /// Up to its capacity the filter is rebuilt with new hash functions; past
    /// it the key is handed back.
    Rebuild,
    /// The filter is rebuilt half as large again when it reaches its capacity, or earlier if a
    /// key finds no cell.
    Grow,
}

impl WhenFull {
    /// The number of keys at which a filter of this capacity, with room for `most`, counts as
    /// full. One that grows does so at its capacity: at a load of 0.95 an insertion into a
    /// quotient filter takes 0.24 us, at 0.99 1.3 us and at 0.999 55 us, and queries slow down
    /// as well.
    #[inline]
    pub(crate) fn most_keys(self, capacity: usize, most: usize) -> usize {
        if self == WhenFull::Grow { capacity } else { most }
    }
}

impl Word for WhenFull {
    const WORDS: &'static [(&'static str, Self)] =
        &[("error", WhenFull::Error), ("rebuild", WhenFull::Rebuild), ("grow", WhenFull::Grow)];
}
