//! How a curve looks. Seven colours, eight shapes and dashes: 56 curves before
//! two look alike, and never two that only their colour tells apart.
//!
//! The colours are those of Okabe and Ito, which the colour-blind can tell apart;
//! of their eight, yellow is left to dark pages and blue to light ones.

/// Colours, and where they come from: the reader's system says light or dark.
/// The first ones are the most different.
pub(super) const COLOURS: &str = "\
:root{color-scheme:light dark;--paper:#fff;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;\
--card:#f6f8fa;--link:#0969da;--good:#1a7f37;--bad:#9a3412;\
--s0:#0072b2;--s1:#d55e00;--s2:#009e73;--s3:#e69f00;--s4:#cc79a7;--s5:#56b4e9;--s6:#000}
@media(prefers-color-scheme:dark){:root{--paper:#14171c;--ink:#e6e9ee;--soft:#9aa4b0;\
--line:#343b45;--card:#1c2128;--link:#6cb6ff;--good:#57c26f;--bad:#ffa366;\
--s0:#f0e442;--s6:#fff}}
";

/// What the parts of a plot look like.
pub(super) const STYLE: &str = "\
.plot{font:11px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:var(--ink)}
.plot .title{font-size:13px;font-weight:600}.plot .soft{fill:var(--soft)}
.plot .grid{stroke:var(--line);stroke-width:.6;fill:none}
.plot .frame{stroke:var(--soft);stroke-width:1;fill:none}
.plot .curve{stroke:currentColor;stroke-width:1.7;fill:none;stroke-linejoin:round}
.plot .thin{stroke-width:1;stroke-dasharray:1 3}
.plot .dashed{stroke-dasharray:6 3}
.plot .error{stroke:currentColor;stroke-width:1;fill:none}
.plot .full{fill:currentColor;stroke:var(--paper);stroke-width:.6}
.plot .open{fill:none;stroke:currentColor;stroke-width:1.4}
.s0{color:var(--s0)}.s1{color:var(--s1)}.s2{color:var(--s2)}.s3{color:var(--s3)}\
.s4{color:var(--s4)}.s5{color:var(--s5)}.s6{color:var(--s6)}
";

const COLOUR_COUNT: usize = 7;

/// Outlines around 0, in units of about a radius.
const SHAPES: [&[(f64, f64)]; 7] = [
    // square, triangle, diamond, triangle on its tip
    &[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    &[(0.0, -1.2), (1.15, 0.8), (-1.15, 0.8)],
    &[(0.0, -1.3), (1.2, 0.0), (0.0, 1.3), (-1.2, 0.0)],
    &[(0.0, 1.2), (1.15, -0.8), (-1.15, -0.8)],
    // plus, bow tie, hourglass
    &[
        (-0.4, -1.2),
        (0.4, -1.2),
        (0.4, -0.4),
        (1.2, -0.4),
        (1.2, 0.4),
        (0.4, 0.4),
        (0.4, 1.2),
        (-0.4, 1.2),
        (-0.4, 0.4),
        (-1.2, 0.4),
        (-1.2, -0.4),
        (-0.4, -0.4),
    ],
    &[(-1.2, -1.0), (0.0, -0.2), (1.2, -1.0), (1.2, 1.0), (0.0, 0.2), (-1.2, 1.0)],
    &[(-1.0, -1.2), (1.0, -1.2), (0.2, 0.0), (1.0, 1.2), (-1.0, 1.2), (-0.2, 0.0)],
];

/// Radius of a mark.
const RADIUS: f64 = 3.5;

/// The look of a plot's curve by its number.
#[derive(Clone, Copy)]
pub(super) struct Look(pub usize);

impl Look {
    /// The class of its colour.
    pub(super) fn colour(self) -> String {
        format!("s{}", self.0 % COLOUR_COUNT)
    }

    /// The classes of its line.
    pub(super) fn line(self) -> &'static str {
        let dashed = (self.0 / COLOUR_COUNT) % 2 == 1;
        if dashed { "curve dashed" } else { "curve" }
    }

    /// A mark of its shape, full or open.
    pub(super) fn mark(self, x: f64, y: f64, open: bool) -> String {
        let class = if open { "open" } else { "full" };
        // A circle first, and then the outlines in turn.
        let Some(shape) = (self.0 % (SHAPES.len() + 1)).checked_sub(1) else {
            return format!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{RADIUS}"/>"#);
        };
        let corners = SHAPES[shape]
            .iter()
            .map(|(dx, dy)| format!("{:.1},{:.1}", x + dx * RADIUS, y + dy * RADIUS));
        let corners = corners.collect::<Vec<_>>().join(" ");
        format!(r#"<polygon class="{class}" points="{corners}"/>"#)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_of_56_curves_look_alike_and_neighbours_differ_in_shape() {
        let looks = (0..56).map(|index| {
            let look = Look(index);
            (look.colour(), look.mark(0.0, 0.0, false))
        });
        assert_eq!(looks.collect::<HashSet<_>>().len(), 56);
        for index in 0..7 {
            let mark = |index| Look(index).mark(0.0, 0.0, false);
            assert_ne!(mark(index), mark(index + 1));
            assert_ne!(Look(index).line(), Look(index + 7).line());
        }
    }

    #[test]
    fn every_colour_is_defined() {
        for index in 0..COLOUR_COUNT {
            let colour = Look(index).colour();
            assert!(COLOURS.contains(&format!("--{colour}:#")), "{colour}");
            assert!(STYLE.contains(&format!(".{colour}{{color:var(--{colour})}}")), "{colour}");
        }
    }
}
