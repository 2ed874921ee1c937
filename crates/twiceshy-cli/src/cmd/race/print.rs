//! A race in print: a table for people, and a page with curves. With several seeds, means
//! and their standard errors.

use std::fmt;

use twiceshy_lab::experiment::Axis;
use twiceshy_lab::experiment::runner::mean_and_error;
use twiceshy_lab::race::{Checkpoint, Mean, Row, Sizes, Standings, verdict};
use twiceshy_lab::report::{Page, Plot, Section, Series, Sheet};

use crate::table::{Table, count, nanoseconds, percent, wrapped};

/// A mean, with its standard error if it has one.
fn print(value: &Mean, number: impl Fn(f64) -> String) -> String {
    match value.error {
        None => number(value.mean),
        Some(error) => format!("{} ± {}", number(value.mean), number(error)),
    }
}

/// A mean of counts.
fn whole(number: f64) -> String {
    count(number.round() as u64)
}

const HEADER: [&str; 10] = [
    "filter",
    "bits/key",
    "load",
    "first pass",
    "false pos.",
    "store reads",
    "insert ns",
    "query ns",
    "adapt ns",
    "false neg.",
];

/// Columns that a terminal can do without: they are on the page, in CSV and in JSON.
const DISPENSABLE: [&str; 5] = ["false neg.", "load", "insert ns", "adapt ns", "query ns"];

/// The standings of a race at so many bits per key.
pub struct Printed<'a> {
    pub standings: &'a Standings,
    pub bits: f64,
}

impl Printed<'_> {
    fn cells(&self) -> impl Iterator<Item = [String; HEADER.len()]> {
        self.standings.filters().map(|rows| {
            let mean = |value: fn(&Row) -> f64| Mean::of(rows, value);
            let adapting: Vec<f64> = rows.iter().filter_map(|row| row.adapt_ns).collect();
            let adapt_ns = (!adapting.is_empty()).then(|| mean_and_error(&adapting).0);
            [
                rows[0].name.clone(),
                format!("{:.3}", mean(|row| row.bits_per_key).mean),
                format!("{:.3}", mean(|row| row.load).mean),
                print(&mean(|row| row.first_pass_rate), percent),
                print(&mean(|row| row.false_positives as f64), whole),
                print(&mean(|row| row.remote_reads as f64), whole),
                nanoseconds(Some(mean(|row| row.insert_ns).mean)),
                nanoseconds(Some(mean(|row| row.query_ns).mean)),
                nanoseconds(adapt_ns),
                count(rows.iter().map(|row| row.false_negatives).sum()),
            ]
        })
    }

    /// What was raced on, in one line.
    fn conditions(&self) -> String {
        let courses = self.standings.courses();
        let mean = |value: fn(&Sizes) -> u64| {
            let values: Vec<f64> = courses.iter().map(|course| value(course) as f64).collect();
            whole(mean_and_error(&values).0)
        };
        let (first, last) = match courses {
            [] => return String::new(),
            [one] => (one, one),
            [first, .., last] => (first, last),
        };
        let seeds = match courses.len() {
            1 => format!("seed {}", first.seed),
            _ => format!("means and standard errors of seeds {} to {}", first.seed, last.seed),
        };
        format!(
            "{} keys, {} absent keys, {} queries ({}), at most {} bits per key, {seeds}",
            mean(|course| course.keys),
            mean(|course| course.absent),
            mean(|course| course.queries),
            first.workload,
            self.bits,
        )
    }

    /// The page with the curves.
    pub fn page(&self) -> Page {
        let plot = |title: &str, label, value: fn(&Checkpoint) -> u64| Plot {
            title: title.to_string(),
            x: Axis { label: "queries asked", log: false },
            y: Axis { label, log: true },
            series: self.standings.filters().map(|rows| curve(rows, value)).collect(),
        };
        let plots = vec![
            plot("Store reads", "store reads so far", |point| point.reads),
            plot("False positives", "false positives so far", |point| point.false_positives),
        ];
        let rows: Vec<_> = self.cells().collect();
        let sheet = Sheet {
            header: HEADER.map(str::to_string).to_vec(),
            rows: rows.into_iter().map(Vec::from).collect(),
            csv: csv(self.standings.filters().flatten()),
        };
        let reading = "The scale is logarithmic: the same distance is the same factor. A filter \
                       that does not adapt repeats a mistake each time it is asked; one that \
                       adapts makes it about once, so its curve flattens as keys repeat. Each \
                       false positive reads the store once; what adapting reads comes on top.";
        Page {
            title: "A race of filters".to_string(),
            about: vec![format!("{}.", self.conditions())],
            sections: vec![Section {
                id: "race".to_string(),
                title: "Store reads and false positives over the stream".to_string(),
                facts: vec![
                    ("Result".to_string(), verdict(self.standings)),
                    ("How to read it".to_string(), reading.to_string()),
                ],
                plots,
                table: Some(sheet),
                ..Section::default()
            }],
        }
    }
}

/// The mean curve of a filter.
fn curve(rows: &[Row], value: fn(&Checkpoint) -> u64) -> Series {
    let points = (0..rows[0].curve.len()).map(|index| {
        let queries = Mean::of(rows, |row| row.curve[index].queries as f64);
        let counted = Mean::of(rows, |row| value(&row.curve[index]) as f64);
        (queries.mean, counted.mean, counted.error.unwrap_or(0.0))
    });
    Series { label: rows[0].name.clone(), points: points.collect() }
}

/// All rows, for machines.
fn csv<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).expect("a row is flat, and memory takes all");
    }
    let bytes = writer.into_inner().expect("memory takes all");
    String::from_utf8(bytes).expect("names and numbers are text")
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new(&HEADER);
        for cells in self.cells() {
            table.push(cells);
        }
        table.fit(&DISPENSABLE);
        let reading = "How to read it: \"first pass\" is the false-positive rate before any \
                       adaptation; false positives and store reads are those of the whole stream, \
                       where a filter that does not adapt repeats its mistakes (so its total \
                       depends on which popular keys it gets wrong: try more --seeds).";
        let [conditions, verdict, reading] =
            [&self.conditions(), &verdict(self.standings), reading].map(wrapped);
        writeln!(f, "{conditions}\n\n{table}\n{verdict}\n\n{reading}")?;
        for rows in self.standings.filters() {
            if let Some(space) = rows[0].space_beside_the_fingerprints() {
                writeln!(f, "{}", wrapped(&format!("{}: {space}", rows[0].name)))?;
            }
            let refused: u64 = rows.iter().map(|row| row.refused).sum();
            if refused > 0 {
                let (name, refused) = (&rows[0].name, count(refused));
                let text = format!("{name}: full, no room to adapt to {refused} false positives");
                writeln!(f, "{}", wrapped(&text))?;
            }
        }
        Ok(())
    }
}
