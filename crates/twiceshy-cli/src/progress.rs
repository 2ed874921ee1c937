//! A progress bar on standard error; nothing at all where that is no terminal.

use indicatif::{ProgressBar, ProgressStyle};
use twiceshy_lab::race::Watch;

/// Steps between two looks at the bar: often enough to move smoothly, rarely
/// enough to cost nothing.
pub const STRIDE: usize = 1 << 14;

/// A progress bar, or a count while the total is unknown. A clone is the same bar.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar of that many steps.
    pub fn new(steps: u64) -> Self {
        let progress = Self::counting();
        progress.set_total(steps);
        progress
    }

    /// A count of steps, until a total is known ([`Progress::set_total`]). A bar of no
    /// steps would show 100 %.
    pub fn counting() -> Self {
        // On standard error, and hidden where that is no terminal. It has no
        // thread of its own, which would disturb what is timed.
        Progress { bar: ProgressBar::no_length().with_style(style("{spinner} {msg}  {human_pos}")) }
    }

    /// There are that many steps in all: 0 if that is not known.
    pub fn set_total(&self, steps: u64) {
        match (steps, self.bar.length()) {
            (0, _) => (),
            (_, None) => {
                self.bar.set_length(steps);
                self.bar.set_style(style("{bar:30} {percent:>3} %  {msg}  ({eta} left)"));
            }
            (_, Some(before)) if before != steps => self.bar.set_length(steps),
            _ => (),
        }
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

    /// That many steps of so many are done, where both become known as it goes; a total
    /// of 0 is not known yet.
    pub fn arrive_of(&self, steps: u64, total: u64) {
        self.set_total(total);
        self.arrive(steps);
    }

    /// Prints something where the bar is in the way.
    pub fn suspend<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    /// The share that the bar shows, if it shows one.
    #[cfg(test)]
    pub fn share(&self) -> Option<f64> {
        Some(self.bar.position() as f64 / self.bar.length()? as f64)
    }
}

impl Watch for Progress {
    fn phase(&self, name: String) {
        Progress::phase(self, name);
    }

    fn advance(&self, steps: usize) {
        Progress::advance(self, steps);
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_no_share_before_there_is_a_total() {
        let progress = Progress::counting();
        assert_eq!(progress.share(), None);
        progress.advance(5);
        progress.arrive_of(7, 0);
        assert_eq!(progress.share(), None);
        progress.arrive_of(7, 28);
        assert_eq!(progress.share(), Some(0.25));
        // A total that is lost again stays what it was.
        progress.arrive_of(14, 0);
        assert_eq!(progress.share(), Some(0.5));
        assert_eq!(Progress::new(0).share(), None);
        assert_eq!(Progress::new(9).share(), Some(0.0));
    }
}
