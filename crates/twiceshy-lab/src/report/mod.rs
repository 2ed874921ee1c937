//! Rows as plots, and plots as one page.
//!
//! ```text
//! scale.rs    a range of numbers on an axis: where a number is, which are labelled
//! marker.rs   how a curve looks: colour, shape, dashes
//! plot.rs     curves as an SVG, to be put into a page
//! page.rs     sections of plots and tables as one HTML file
//! image.rs    the plots of a section as one SVG file
//! figure.rs   a figure of a paper and its rows as a section
//! text.rs     numbers for people, escapes for HTML and for addresses
//! ```
//!
//! The pages need neither network nor scripts, and follow the reader's light or dark theme.

mod figure;
mod image;
mod marker;
mod page;
mod plot;
mod scale;
mod text;

pub use figure::section;
pub use page::{Page, Section, Sheet, Standing};
pub use plot::{Plot, Series};
