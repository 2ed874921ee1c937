//! A progress bar on standard error; nothing at all where that is no terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// Steps between two looks at the bar: often enough to move smoothly, rarely
/// enough to cost nothing.
pub const STRIDE: usize = 1 << 14;

/// The bar, or its absence. A clone is the same bar.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of that many steps.
    pub fn new(steps: u64) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}  ({eta} left)");
        // On standard error, and hidden where that is no terminal. It has no
        // thread of its own, which would disturb what is timed.
        let bar = ProgressBar::new(steps);
        Progress { bar: bar.with_style(style.expect("the template is well-formed")) }
    }

    /// There are that many more steps to do.
    pub fn expect(&self, steps: u64) {
        self.bar.inc_length(steps);
    }

    /// No bar, where nobody knows how long it takes.
    pub fn hidden() -> Self {
        Progress { bar: ProgressBar::hidden() }
    }

    /// Says what is going on now.
    pub fn phase(&self, name: impl Into<String>) {
        self.bar.set_message(name.into());
    }

    /// Some steps are done.
    pub fn advance(&self, steps: usize) {
        self.bar.inc(steps as u64);
    }

    /// That many steps are done or left out in all.
    pub fn arrive(&self, steps: u64) {
        self.bar.set_position(steps);
    }

    /// That many steps of so many are done, where both become known as it goes.
    pub fn arrive_of(&self, steps: u64, total: u64) {
        self.bar.set_length(total);
        self.arrive(steps);
    }

    /// Passes items through, each one step.
    pub fn watch<T>(&self, items: impl Iterator<Item = T>) -> impl Iterator<Item = T> {
        items.enumerate().map(|(index, item)| {
            if (index + 1).is_multiple_of(STRIDE) {
                self.advance(STRIDE);
            }
            item
        })
    }

    /// Prints something where the bar is in the way.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
