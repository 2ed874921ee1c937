//! Curves as an SVG, with everything a reader needs to read them: labelled axes,
//! a mark of its own shape for each curve, bars of one standard error, and a
//! legend below, where it covers nothing.

use std::fmt::Write;

use super::marker::Look;
use super::scale::{Scale, Tick};
use super::text::{escape, number, wrap};
use crate::experiment::Axis;

/// Curves over one pair of axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What stands above it; nothing if empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves. One without points is not shown, but its look stays taken: so
    /// the same curve looks the same in several plots.
    pub series: Vec<Series>,
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub label: String,
    /// x, y, and the standard error of y (0 for none).
    pub points: Vec<(f64, f64, f64)>,
}

/// Units across: few enough for the text to be legible on a phone.
pub(super) const WIDTH: f64 = 460.0;
const PLOT_HEIGHT: f64 = 250.0;
const EDGE: f64 = 16.0;
const LINE: f64 = 15.0;
/// Of a tick beside its axis.
const TICK: f64 = 4.0;
/// Wide guesses at the widths of a letter in prose and of a digit, as shares of
/// the font's size: the reader's font is not known here.
const LETTER: f64 = 0.54;
const DIGIT: f64 = 0.62;
const FONT: f64 = 11.0;
const TITLE_FONT: f64 = 13.0;
/// Line and mark of a legend's entry.
const SWATCH: f64 = 30.0;
/// Curves of more points have marks on some of them only.
const MARKS: usize = 24;

const ZEROS: &str = "Open marks on the edge: 0, which has no place on a log scale.";

impl Plot {
    /// The plot as an element of a page that has the page's styles.
    #[must_use]
    pub fn svg(&self) -> String {
        Drawing::of(self).element(None).0
    }

    /// The same at a place of an image, with its height.
    pub(super) fn part(&self, x: f64, y: f64) -> (String, f64) {
        Drawing::of(self).element(Some((x, y)))
    }
}

/// A plot with its scales, and where its parts are.
struct Drawing<'a> {
    plot: &'a Plot,
    x: Scale,
    y: Scale,
    y_ticks: Vec<Tick>,
    y_label: Vec<String>,
    title: Vec<String>,
    left: f64,
    top: f64,
}

impl<'a> Drawing<'a> {
    fn of(plot: &'a Plot) -> Self {
        let points = || plot.series.iter().flat_map(|series| &series.points).filter(|p| shown(p));
        let x = Scale::new(plot.x.log, points().map(|&(x, _, _)| x));
        // The lower end of an error bar is cut off where it is below 0 and nothing
        // else is, or below what a logarithm knows.
        let foot = |y: f64, error: f64| if plot.y.log { y } else { (y - error).max(y.min(0.0)) };
        let y = Scale::new(
            plot.y.log,
            points().flat_map(|&(_, y, error)| [foot(y, error), y, y + error]),
        );
        let title = wrap(&plot.title, letters(WIDTH - 2.0 * EDGE, TITLE_FONT));
        let y_label = wrap(plot.y.label, letters(PLOT_HEIGHT + EDGE, FONT));
        let y_ticks = y.ticks(8);
        let widest = y_ticks.iter().filter_map(|tick| tick.label.as_deref()).map(width);
        let left = 6.0 + LINE * lines(&y_label) + widest.fold(0.0, f64::max) + TICK + 4.0;
        let top = if title.is_empty() { EDGE } else { 10.0 + 17.0 * lines(&title) };
        Drawing { plot, x, y, y_ticks, y_label, title, left, top }
    }

    fn right(&self) -> f64 {
        WIDTH - EDGE
    }

    fn bottom(&self) -> f64 {
        self.top + PLOT_HEIGHT
    }

    fn x_at(&self, share: f64) -> f64 {
        self.left + share * (self.right() - self.left)
    }

    fn y_at(&self, share: f64) -> f64 {
        self.bottom() - share * PLOT_HEIGHT
    }

    fn element(&self, place: Option<(f64, f64)>) -> (String, f64) {
        let mut body = String::new();
        self.draw_title(&mut body);
        self.draw_y_axis(&mut body);
        let mut height = self.draw_x_axis(&mut body);
        for (index, series) in self.plot.series.iter().enumerate() {
            self.draw_series(&mut body, series, Look(index));
        }
        height = self.draw_zero_note(&mut body, height);
        height = self.draw_legend(&mut body, height);
        let name = escape(&format!(
            "{}{}{} over {}",
            self.plot.title,
            if self.plot.title.is_empty() { "" } else { ": " },
            self.plot.y.label,
            self.plot.x.label
        ));
        let place = place.map(|(x, y)| {
            format!(" x=\"{x}\" y=\"{y:.0}\" width=\"{WIDTH}\" height=\"{height:.0}\"")
        });
        let place = place.unwrap_or_default();
        let element = format!(
            "<svg class=\"plot\"{place} viewBox=\"0 0 {WIDTH} \
             {height:.0}\" role=\"img\" aria-label=\"{name}\">{body}</svg>"
        );
        (element, height)
    }

    fn draw_title(&self, out: &mut String) {
        for (index, line) in self.title.iter().enumerate() {
            let y = 17.0 + 17.0 * index as f64;
            let x = WIDTH / 2.0;
            put(out, format_args!(r#"<text class="title" x="{x}" y="{y}" text-anchor="middle">"#));
            put(out, format_args!("{}</text>\n", escape(line)));
        }
    }

    fn draw_y_axis(&self, out: &mut String) {
        let (left, right) = (self.left, self.right());
        for tick in &self.y_ticks {
            let y = self.y_at(tick.at);
            let Some(label) = &tick.label else {
                let out_to = left - TICK / 2.0;
                line(out, "frame", [left, y, out_to, y]);
                continue;
            };
            line(out, "grid", [left, y, right, y]);
            line(out, "frame", [left, y, left - TICK, y]);
            text(out, [left - TICK - 3.0, y + 4.0], "end", label);
        }
        let middle = self.top + PLOT_HEIGHT / 2.0;
        for (index, words) in self.y_label.iter().enumerate() {
            let x = 4.0 + LINE * (index as f64 + 0.7);
            let turn = format!(r#"transform="rotate(-90 {x:.1} {middle:.1})""#);
            put(out, format_args!(r#"<text x="{x:.1}" y="{middle:.1}" {turn} "#));
            put(out, format_args!("text-anchor=\"middle\">{}</text>\n", escape(words)));
        }
    }

    /// Returns where it ends.
    fn draw_x_axis(&self, out: &mut String) -> f64 {
        let (top, bottom) = (self.top, self.bottom());
        for tick in self.x_ticks() {
            let x = self.x_at(tick.at);
            let Some(label) = &tick.label else {
                line(out, "frame", [x, bottom, x, bottom + TICK / 2.0]);
                continue;
            };
            line(out, "grid", [x, top, x, bottom]);
            line(out, "frame", [x, bottom, x, bottom + TICK]);
            text(out, [x, bottom + TICK + 12.0], "middle", label);
        }
        let (x, width) = (self.left, self.right() - self.left);
        put(out, format_args!(r#"<rect class="frame" x="{x:.1}" y="{top:.1}" "#));
        put(out, format_args!("width=\"{width:.1}\" height=\"{PLOT_HEIGHT}\"/>\n"));
        let mut y = bottom + TICK + 14.0;
        for words in wrap(self.plot.x.label, letters(width, FONT)) {
            y += LINE;
            text(out, [self.x_at(0.5), y], "middle", &words);
        }
        y
    }

    /// As many labels as fit side by side.
    fn x_ticks(&self) -> Vec<Tick> {
        let fits = |ticks: &[Tick]| {
            let mut end = f64::NEG_INFINITY;
            ticks.iter().filter_map(|tick| Some((tick.at, tick.label.as_deref()?))).all(|tick| {
                let (middle, half) = (self.x_at(tick.0), width(tick.1) / 2.0);
                let apart = middle - half >= end;
                end = middle + half + FONT * DIGIT;
                apart
            })
        };
        let by_room = |room| self.x.ticks(room);
        (2..=10).rev().map(by_room).find(|ticks| fits(ticks)).unwrap_or_else(|| by_room(1))
    }

    fn draw_series(&self, out: &mut String, series: &Series, look: Look) {
        let mut points: Vec<_> = series.points.iter().copied().filter(shown).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.is_empty() {
            return;
        }
        put(out, format_args!("<g class=\"{}\">\n", look.colour()));
        self.draw_curve(out, &points, look);
        let every = points.len().div_ceil(MARKS);
        for &(x, y, error) in points.iter().step_by(every) {
            self.draw_mark(out, (x, y, error), &series.label, look);
        }
        out.push_str("</g>\n");
    }

    /// The line through the points; thin where it goes to or from the edge.
    fn draw_curve(&self, out: &mut String, points: &[(f64, f64, f64)], look: Look) {
        let is_off = |&(x, y, _): &_| self.x.is_off(x) || self.y.is_off(y);
        let mut rest = points;
        while rest.len() > 1 {
            let thin = |pair: &[_]| pair.iter().any(is_off);
            let first = thin(&rest[..2]);
            let pairs = rest.windows(2).take_while(|pair| thin(pair) == first).count();
            let corners = rest[..=pairs].iter().map(|&(x, y, _)| {
                format!("{:.1},{:.1}", self.x_at(self.x.place(x)), self.y_at(self.y.place(y)))
            });
            let corners = corners.collect::<Vec<_>>().join(" ");
            let class = if first { "curve thin" } else { look.line() };
            put(out, format_args!("<polyline class=\"{class}\" points=\"{corners}\"/>\n"));
            rest = &rest[pairs..];
        }
    }

    fn draw_mark(&self, out: &mut String, point: (f64, f64, f64), label: &str, look: Look) {
        let (x, y, error) = point;
        let (across, down) = (self.x_at(self.x.place(x)), self.y_at(self.y.place(y)));
        if error > 0.0 {
            // Not into the strip of the zeros, where no number is.
            let low = self.y.place(y - error).max(self.y.floor().min(self.y.place(y)));
            let (low, high) = (self.y_at(low), self.y_at(self.y.place(y + error)));
            let (from, to) = (across - 3.0, across + 3.0);
            let bar = format!("M{across:.1} {low:.1}V{high:.1}M{from:.1} {high:.1}H{to:.1}");
            put(
                out,
                format_args!("<path class=\"error\" d=\"{bar}M{from:.1} {low:.1}H{to:.1}\"/>\n"),
            );
        }
        let deviation = if error > 0.0 { format!(" ± {}", number(error)) } else { String::new() };
        let hint = format!("{label}: {} at {}{deviation}", number(y), number(x));
        let mark = look.mark(across, down, self.x.is_off(x) || self.y.is_off(y));
        put(out, format_args!("<g><title>{}</title>{mark}</g>\n", escape(&hint)));
    }

    fn draw_zero_note(&self, out: &mut String, y: f64) -> f64 {
        if self.x.floor() == 0.0 && self.y.floor() == 0.0 {
            return y;
        }
        let y = y + LINE + 2.0;
        put(out, format_args!(r#"<text class="soft" x="{}" y="{y:.1}" "#, WIDTH / 2.0));
        put(out, format_args!("text-anchor=\"middle\">{ZEROS}</text>\n"));
        y
    }

    /// In as many columns as fit.
    fn draw_legend(&self, out: &mut String, y: f64) -> f64 {
        let present = |series: &Series| series.points.iter().any(shown);
        let entries: Vec<_> =
            self.plot.series.iter().enumerate().filter(|(_, series)| present(series)).collect();
        let text_width = WIDTH - 2.0 * EDGE - SWATCH;
        let labels: Vec<_> = entries
            .iter()
            .map(|(index, series)| (Look(*index), wrap(&series.label, letters(text_width, FONT))))
            .collect();
        let widest = labels.iter().flat_map(|(_, lines)| lines).map(|line| width(line));
        let widest = widest.fold(0.0, f64::max) + SWATCH + 14.0;
        let columns = (((WIDTH - EDGE) / widest) as usize).clamp(1, labels.len().max(1));
        let start = ((WIDTH - widest * columns as f64) / 2.0).max(EDGE / 2.0);
        let mut y = y + 8.0;
        for row in labels.chunks(columns) {
            for (column, (look, words)) in row.iter().enumerate() {
                let x = start + widest * column as f64;
                let middle = y + LINE - 4.0;
                put(out, format_args!("<g class=\"{}\">", look.colour()));
                let class = look.line();
                line(out, class, [x, middle, x + SWATCH - 6.0, middle]);
                put(
                    out,
                    format_args!("{}</g>\n", look.mark(x + SWATCH / 2.0 - 3.0, middle, false)),
                );
                for (index, words) in words.iter().enumerate() {
                    let y = y + LINE * (index as f64 + 1.0);
                    text(out, [x + SWATCH, y], "start", words);
                }
            }
            let tallest = row.iter().map(|(_, words)| words.len()).max().unwrap_or(0);
            y += LINE * tallest as f64 + 2.0;
        }
        y + 8.0
    }
}

/// Whether a point can be drawn at all.
fn shown(&(x, y, error): &(f64, f64, f64)) -> bool {
    x.is_finite() && y.is_finite() && error.is_finite()
}

/// How many letters of a font fit.
fn letters(width: f64, font: f64) -> usize {
    (width / (font * LETTER)) as usize
}

/// How wide a text is, roughly and rather too wide.
fn width(text: &str) -> f64 {
    text.chars().count() as f64 * FONT * DIGIT
}

fn lines(text: &[String]) -> f64 {
    text.len() as f64
}

fn put(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("a string takes everything");
}

fn line(out: &mut String, class: &str, [x1, y1, x2, y2]: [f64; 4]) {
    put(out, format_args!(r#"<path class="{class}" d="M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}"/>"#));
    out.push('\n');
}

fn text(out: &mut String, [x, y]: [f64; 2], anchor: &str, words: &str) {
    let words = escape(words);
    put(out, format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{words}</text>"#));
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: Axis = Axis { label: "A/S", log: false };
    const LOG: Axis = Axis { label: "rate", log: true };

    type Curve<'a> = (&'a str, &'a [(f64, f64, f64)]);

    fn plot(y: Axis, series: &[Curve<'_>]) -> Plot {
        let series = series
            .iter()
            .map(|(label, points)| Series { label: (*label).to_string(), points: points.to_vec() });
        Plot { title: "panel".to_string(), x: LINEAR, y, series: series.collect() }
    }

    fn count(svg: &str, part: &str) -> usize {
        svg.matches(part).count()
    }

    #[test]
    fn a_curve_has_a_line_a_mark_a_point_and_bars_where_there_is_an_error() {
        let points = [(0.0, 1.0, 0.0), (1.0, 2.0, 0.5), (2.0, 4.0, 0.25)];
        let svg = plot(LINEAR, &[("plain", &points)]).svg();
        assert_eq!(count(&svg, "<polyline"), 1);
        // One more in the legend.
        assert_eq!(count(&svg, "<circle"), 3 + 1);
        assert_eq!(count(&svg, "class=\"error\""), 2);
        assert!(svg.contains("<title>plain: 2 at 1 ± 0.5</title>"), "{svg}");
        assert_eq!(count(&svg, ZEROS), 0);
    }

    #[test]
    fn zeros_on_a_log_axis_are_open_marks_on_the_edge_and_said_so() {
        let points = [(0.0, 0.1, 0.0), (1.0, 0.0, 0.0), (2.0, 0.001, 0.0), (3.0, 0.01, 0.0)];
        let drawn = plot(LOG, &[("plain", &points)]);
        let svg = drawn.svg();
        let bottom = Drawing::of(&drawn).bottom();
        assert_eq!(count(&svg, "class=\"open\""), 1);
        let open = svg.lines().find(|line| line.contains("\"open\"")).expect("the open mark");
        assert!(open.contains(&format!("cy=\"{bottom:.1}\"")), "{open}");
        assert_eq!(count(&svg, ZEROS), 1);
        // To the zero and back again, and the rest.
        assert_eq!((count(&svg, "\"curve thin\""), count(&svg, "<polyline")), (1, 2));
    }

    #[test]
    fn a_curve_without_points_is_not_shown_and_keeps_its_look() {
        let points = [(0.0, 1.0, 0.0), (1.0, 2.0, 0.0)];
        let svg = plot(LINEAR, &[("first", &[]), ("second", &points)]).svg();
        assert!(!svg.contains("first") && svg.contains("second"));
        assert!(svg.contains("class=\"s1\"") && !svg.contains("class=\"s0\""));
    }

    #[test]
    fn the_legend_is_below_the_axis_and_within_the_picture() {
        let points = [(0.0, 1.0, 0.0)];
        let labels: Vec<String> = (0..13).map(|index| format!("filter number {index}")).collect();
        let series: Vec<Curve<'_>> =
            labels.iter().map(|label| (label.as_str(), &points[..])).collect();
        let drawn = plot(LINEAR, &series);
        let svg = drawn.svg();
        let bottom = Drawing::of(&drawn).bottom();
        let height = svg.split_once("viewBox=\"0 0 460 ").expect("a size").1;
        let height: f64 = height.split_once('"').expect("an end").0.parse().expect("a height");
        for label in labels {
            let end = format!(">{label}</text>");
            let entry = svg.lines().find(|line| line.ends_with(&end)).expect("in the legend");
            let y = entry.split_once("y=\"").expect("a place").1;
            let y: f64 = y.split_once('"').expect("an end").0.parse().expect("a number");
            assert!(bottom + 20.0 < y && y < height, "{label} at {y}");
        }
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let points = [(0.0, f64::NAN, 0.0), (1.0, f64::INFINITY, 0.0), (2.0, 1.0, f64::NAN)];
        for axis in [LINEAR, LOG] {
            let svg = plot(axis, &[("plain", &points)]).svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            assert_eq!(count(&svg, "<circle"), 0);
        }
    }

    #[test]
    fn long_curves_have_marks_on_some_points_only() {
        let points: Vec<_> = (0..1000).map(|x| (f64::from(x), f64::from(x), 0.0)).collect();
        let svg = plot(LINEAR, &[("plain", &points)]).svg();
        assert!((12..=MARKS + 1).contains(&count(&svg, "<circle")));
    }

    #[test]
    fn no_text_is_markup() {
        let svg = plot(LINEAR, &[("<b>&", &[(0.0, 1.0, 0.0)])]).svg();
        assert!(svg.contains("&lt;b&gt;&amp;") && !svg.contains("<b>"));
    }
}
