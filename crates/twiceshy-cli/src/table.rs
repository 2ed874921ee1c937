//! Tables for people: aligned columns, numbers with separators.

use std::fmt;

/// Rows under a header. The first column is text, the others are numbers.
pub struct Table<const COLUMNS: usize> {
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    /// A table with nothing but a header.
    pub fn new(header: &[&str; COLUMNS]) -> Self {
        Table { rows: vec![header.map(str::to_string)] }
    }

    /// Adds a row.
    pub fn push(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }
}

impl<const COLUMNS: usize> fmt::Display for Table<COLUMNS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        });
        for row in &self.rows {
            for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
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
