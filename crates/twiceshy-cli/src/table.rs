//! Tables for people: aligned columns, numbers with separators.

use std::fmt;

/// Columns of a terminal that output should fit.
pub const WIDTH: usize = 100;

/// Rows under a header. The first column is text, the others are numbers.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with nothing but a header.
    pub fn new(header: &[&str]) -> Self {
        Table { rows: vec![header.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub fn push(&mut self, row: impl Into<Vec<String>>) {
        let row = row.into();
        assert_eq!(row.len(), self.rows[0].len(), "a row has a cell for each column");
        self.rows.push(row);
    }

    /// Leaves out these columns, one after the other, until it fits [`WIDTH`], and then shortens
    /// the first one.
    pub fn fit(&mut self, dispensable: &[&str]) {
        let widths = |rows: &[Vec<String>]| -> Vec<usize> {
            let columns = 0..rows[0].len();
            let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
            columns.map(|column| width(column).unwrap_or(0)).collect()
        };
        let total = |widths: &[usize]| widths.iter().sum::<usize>() + GAP * (widths.len() - 1);
        for name in dispensable {
            if total(&widths(&self.rows)) <= WIDTH {
                return;
            }
            if let Some(column) = self.rows[0].iter().position(|cell| cell == name) {
                self.rows.iter_mut().for_each(|row| drop(row.remove(column)));
            }
        }
        let widths = widths(&self.rows);
        let room = WIDTH.saturating_sub(total(&widths) - widths[0]).max(1);
        for row in &mut self.rows {
            if row[0].chars().count() > room {
                row[0] = row[0].chars().take(room - 1).chain(['…']).collect();
            }
        }
    }
}

/// Spaces between two columns.
const GAP: usize = 2;

/// Words in lines of at most [`WIDTH`] letters.
pub fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= WIDTH {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines.join("\n")
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = 0..self.rows[0].len();
        let width = |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max();
        let widths: Vec<usize> = columns.map(|column| width(column).unwrap_or(0)).collect();
        for row in &self.rows {
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// `1234567` as "1,234,567".
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `0.00125` as "0.1250 %".
pub fn percent(share: f64) -> String {
    format!("{:.4} %", share * 100.0)
}

/// `1536` as "1.5 KiB".
pub fn bytes(number: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    // The largest unit of which there is at least one.
    let unit = number.checked_ilog2().unwrap_or(0) / 10;
    match unit {
        0 => format!("{number} B"),
        _ => format!("{:.1} {}", number as f64 / f64::from(10 * unit).exp2(), UNITS[unit as usize]),
    }
}

/// A mean time, or "-" where nothing was timed.
pub fn nanoseconds(mean: Option<f64>) -> String {
    mean.map_or_else(|| "-".to_string(), |mean| format!("{mean:.1}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["filter", "n"]);
        table.push(["a".to_string(), count(1000)]);
        table.push(["long name".to_string(), count(1)]);
        assert_eq!(table.to_string(), "filter         n\na          1,000\nlong name      1\n");
    }

    #[test]
    fn a_table_gives_up_columns_and_then_letters() {
        let table = |name: &str, number: usize| {
            let mut table = Table::new(&["filter", "spare", "n"]);
            table.push([name.to_string(), "1".repeat(number), "2".to_string()]);
            table.fit(&["spare", "no such column"]);
            table.to_string()
        };
        let first = |text: String| text.lines().next().expect("a header").to_string();
        assert_eq!(first(table("a", 88)).chars().count(), 99);
        assert!(table("a", 88).contains("spare"));
        assert!(!table("a", 90).contains("spare"));
        assert!(!table(&"a".repeat(97), 1).contains("spare"));
        let short = table(&"a".repeat(98), 1);
        assert!(short.contains(&format!("{}…  2", "a".repeat(96))), "{short}");
    }

    #[test]
    fn lines_end_between_words() {
        let text = wrapped(&"word ".repeat(40));
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(lengths[0], 99);
        assert!(lengths.iter().all(|length| *length <= WIDTH), "{lengths:?}");
        assert_eq!(wrapped("a b"), "a b");
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (123_456, "123,456"),
            (1_234_567, "1,234,567"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(count(number), text);
        }
    }

    #[test]
    fn sizes_have_binary_units() {
        for (number, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (5 << 20, "5.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(number), text);
        }
    }

    #[test]
    fn shares_and_times_are_rounded() {
        assert_eq!(percent(0.00125), "0.1250 %");
        assert_eq!(nanoseconds(Some(12.34)), "12.3");
        assert_eq!(nanoseconds(None), "-");
    }
}
