//! The plots of a section as one SVG file, for documents that cannot hold the page.

use std::fmt::Write;

use super::marker::{COLOURS, STYLE};
use super::page::Section;
use super::plot::WIDTH;

/// Plots beside each other.
const ACROSS: usize = 3;

const GAP: f64 = 12.0;

impl Section {
    /// Its plots as an image, in the reader's light or dark theme.
    #[must_use]
    pub fn image(&self) -> String {
        let (mut parts, mut y) = (String::new(), 0.0);
        for row in self.plots.chunks(ACROSS) {
            let mut highest: f64 = 0.0;
            for (column, plot) in row.iter().enumerate() {
                let (part, height) = plot.part(column as f64 * (WIDTH + GAP), y);
                writeln!(parts, "{part}").expect("a string takes everything");
                highest = highest.max(height);
            }
            y += highest + GAP;
        }
        let columns = self.plots.len().clamp(1, ACROSS) as f64;
        let width = columns * (WIDTH + GAP) - GAP;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {y:.0}\" \
             width=\"{width}\" height=\"{y:.0}\">\n<style>\n{COLOURS}{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"var(--paper)\"/>\n{parts}</svg>\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::plot::{Plot, Series};
    use super::*;
    use crate::experiment::Axis;

    /// Four plots are a row of three and one below them, each with its own place.
    #[test]
    fn plots_stand_in_rows_of_three() {
        let plot = |title: &str| Plot {
            title: title.to_string(),
            x: Axis { label: "x", log: false },
            y: Axis { label: "y", log: false },
            series: vec![Series { label: "a".into(), points: vec![(1.0, 2.0, 0.0)] }],
        };
        let section =
            Section { plots: ["1", "2", "3", "4"].map(plot).to_vec(), ..Section::default() };
        let image = section.image();
        assert!(image.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1404 "));
        let places: Vec<&str> = image
            .lines()
            .filter_map(|line| line.strip_prefix("<svg class=\"plot\" x=\""))
            .filter_map(|rest| rest.split_once("\" y=\"")?.1.split_once('"').map(|(y, _)| y))
            .collect();
        assert_eq!(places.len(), 4);
        assert!(places[..3].iter().all(|&y| y == "0") && places[3] != "0", "{places:?}");
        for x in ["x=\"0\" ", "x=\"472\" ", "x=\"944\" "] {
            assert!(image.contains(x), "{x}");
        }
        assert!(image.contains(".plot .grid") && image.contains("--paper:#fff"));
    }
}
