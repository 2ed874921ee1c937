//! Who won a race, and why, in words.

use super::standings::{Mean, Sizes, Standings};
use super::trial::Row;

/// What a filter did, over all seeds.
struct Outcome<'a> {
    name: &'a str,
    adapts: bool,
    /// Reads of the store in the stream.
    reads: Mean,
    /// Queries of the stream that it got wrong.
    wrong: f64,
    /// Absent keys that it is wrong about before it adapts.
    wrong_at_first: f64,
}

impl<'a> Outcome<'a> {
    fn of(rows: &'a [Row], absent: f64) -> Self {
        Outcome {
            name: &rows[0].name,
            adapts: rows[0].adapts,
            reads: Mean::of(rows, |row| row.remote_reads as f64),
            wrong: Mean::of(rows, |row| row.false_positives as f64).mean,
            wrong_at_first: Mean::of(rows, |row| row.first_pass_rate).mean * absent,
        }
    }

    /// Whether more seeds may turn the two around: the difference is within two standard errors,
    /// or, of one seed, within a twentieth.
    fn is_close_to(&self, other: &Outcome<'_>) -> bool {
        let difference = (self.reads.mean - other.reads.mean).abs();
        match (self.reads.error, other.reads.error) {
            (Some(a), Some(b)) => difference <= 2.0 * a.hypot(b),
            _ => difference <= 0.05 * self.reads.mean.max(other.reads.mean),
        }
    }
}

/// Which filter read the store least often, why, and which came next. A filter that denied a
/// stored key cannot win.
#[must_use]
pub fn verdict(standings: &Standings) -> String {
    let mean = |value: fn(&Sizes) -> u64| {
        let courses = standings.courses();
        courses.iter().map(|course| value(course) as f64).sum::<f64>() / courses.len() as f64
    };
    let (absent, queries) = (mean(|course| course.absent), mean(|course| course.queries));
    let lossless = |rows: &&[Row]| rows.iter().all(|row| row.false_negatives == 0);
    let mut outcomes: Vec<Outcome<'_>> =
        standings.filters().filter(lossless).map(|rows| Outcome::of(rows, absent)).collect();
    outcomes.sort_by(|a, b| a.reads.mean.total_cmp(&b.reads.mean));
    let [best, others @ ..] = &outcomes[..] else {
        return "Nobody won: every filter denied a stored key.".to_string();
    };
    let mut text = format!("Winner: {}, with {} store reads.", best.name, count(best.reads.mean));
    if let Some(rival) = others.iter().find(|other| other.adapts != best.adapts) {
        text += &reason(best, rival, queries / absent);
    }
    if let Some(next) = others.first() {
        let close =
            if best.is_close_to(next) { ", too close to call: try more --seeds" } else { "" };
        text += &format!(" Next: {}, with {}{close}.", next.name, count(next.reads.mean));
    }
    text
}

/// Why a filter beats the best of the other sort.
fn reason(best: &Outcome<'_>, rival: &Outcome<'_>, repeats: f64) -> String {
    let (name, reads) = (rival.name, count(rival.reads.mean));
    let [wrong, rivals] = [best, rival].map(|outcome| count(outcome.wrong));
    let [first, rivals_first] = [best, rival].map(|outcome| count(outcome.wrong_at_first));
    if best.adapts {
        format!(
            " It adapts: at first it is wrong about {first} absent keys, and in the whole stream it \
             was wrong {wrong} times. {name}, the best that does not adapt, is wrong about \
             {rivals_first} keys, and was wrong {rivals} times ({reads} store reads)."
        )
    } else {
        format!(
            " Adapting did not pay: with {repeats:.1} queries per absent key, {name}, the best that \
             adapts, was wrong {rivals} times ({reads} store reads), and is wrong about \
             {rivals_first} keys at first; the winner about {first}."
        )
    }
}

/// A mean of counts, with its thousands apart.
fn count(mean: f64) -> String {
    let digits = format!("{mean:.0}");
    let groups: Vec<&str> = {
        let first = digits.len() % 3;
        let (head, rest) = digits.split_at(first);
        let rest = (0..rest.len() / 3).map(|group| &rest[3 * group..3 * group + 3]);
        std::iter::once(head).filter(|head| !head.is_empty()).chain(rest).collect()
    };
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entrants::parse;
    use crate::race::{Course, trial};
    use crate::workload::{Size, Source};

    /// A race of all these filters, and what is said of it.
    fn raced(filters: &str, workload: &str, change: impl Fn(&mut Row)) -> String {
        let source: Source = workload.parse().expect("a workload");
        let size = Size { keys: Some(20_000), ratio: 5.0, queries: None, scale: 1.0 };
        let course = Course::new(&source, &size, 1).expect("small");
        let entrants = parse(filters).expect("filters").0;
        let mut standings = Standings::new(entrants.len());
        for (index, entrant) in entrants.iter().enumerate() {
            let mut row = trial::run(entrant, 11.6, &course, &()).expect("it fits");
            change(&mut row);
            standings.push(index, row);
        }
        standings.describe(&course);
        verdict(&standings)
    }

    /// Of 100,000 absent keys, plain-full is wrong about 190 and telescoping about 370, with
    /// deviations of 14 and 19; asked 20 times each, that is 3,800 and hardly more than 370.
    #[test]
    fn who_adapts_wins_where_queries_repeat() {
        let text = raced("plain,plain-full,telescoping", "repeats:20", |_| ());
        assert!(text.starts_with("Winner: telescoping, with "), "{text}");
        assert!(text.contains("It adapts: at first it is wrong about "), "{text}");
        assert!(text.contains(". plain-full, the best that does not adapt, is "), "{text}");
        assert!(text.contains(" Next: plain-full, with ") && !text.contains("close"), "{text}");
    }

    #[test]
    fn who_does_not_adapt_wins_where_nothing_repeats() {
        let text = raced("telescoping,plain-full,plain", "repeats:1", |_| ());
        assert!(text.starts_with("Winner: plain-full, with "), "{text}");
        assert!(
            text.contains("did not pay: with 1.0 queries per absent key, telescoping,"),
            "{text}"
        );
        assert!(
            text.contains("; the winner about 1") || text.contains("; the winner about 2"),
            "{text}"
        );
    }

    #[test]
    fn who_denies_a_key_cannot_win_and_equals_are_called_so() {
        let denied = |row: &mut Row| row.false_negatives = u64::from(row.name == "telescoping");
        let text = raced("plain,plain,telescoping", "repeats:20", denied);
        assert!(text.starts_with("Winner: plain, with "), "{text}");
        assert!(text.ends_with(", too close to call: try more --seeds."), "{text}");
        let all = raced("plain", "repeats:2", |row| row.false_negatives = 1);
        assert_eq!(all, "Nobody won: every filter denied a stored key.");
    }

    #[test]
    fn thousands_are_apart() {
        let counts = [0.0, 12.4, 999.6, 1234.0, 123_456.0, 1_234_567.0].map(count);
        assert_eq!(counts, ["0", "12", "1,000", "1,234", "123,456", "1,234,567"]);
    }
}
