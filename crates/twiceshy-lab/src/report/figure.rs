//! A figure of a paper and its rows as a section of the report.

use super::page::{Section, Sheet, Standing};
use super::plot::{Plot, Series};
use super::text::number;
use crate::experiment::runner::Findings;
use crate::experiment::{Figure, Row, Seen, Verdict, store};

/// A figure's part of the report.
#[must_use]
pub fn section(figure: &Figure, findings: &Findings) -> Section {
    let verdict = findings.verdict(figure);
    let standing = match &verdict {
        Some(Verdict { seen: Seen::Yes, .. }) => Standing::Seen,
        Some(Verdict { seen: Seen::Open, .. }) => Standing::Open,
        Some(Verdict { seen: Seen::No, .. }) => Standing::Differs,
        None => Standing::Unfinished,
    };
    let seen = verdict.map_or_else(|| findings.summary(figure), |verdict| verdict.text);
    let seen = sentence(&seen);
    let mut facts = vec![
        ("Source".to_string(), figure.source.to_string()),
        ("The paper shows".to_string(), figure.claim.to_string()),
        ("We see".to_string(), seen),
        ("Run it".to_string(), format!("twiceshy paper {}", figure.id)),
    ];
    if let Some(first) = findings.failures.first() {
        let others = match findings.failures.len() - 1 {
            0 => String::new(),
            others => format!(", and {others} more"),
        };
        facts.push(("Failed".to_string(), format!("{first}{others}")));
    }
    Section {
        id: figure.id.to_string(),
        title: format!("{}: {}", figure.id, figure.title),
        standing,
        facts,
        plots: plots(figure, &findings.rows),
        table: Some(sheet(&findings.rows)),
    }
}

/// With a capital, and a full stop.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let stop = if words.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{stop}", letters.as_str())
}

/// A plot for each panel. A curve looks the same in all of them.
fn plots(figure: &Figure, rows: &[Row]) -> Vec<Plot> {
    let panels = distinct(rows.iter().map(|row| row.panel.as_str()));
    let curves = distinct(rows.iter().map(|row| row.series.as_str()));
    let of = |panel: &str, curve: &str| {
        let rows = rows.iter().filter(|row| row.panel == panel && row.series == curve);
        rows.map(|row| (row.x, row.mean, row.standard_error)).collect()
    };
    let plot = |panel: &&str| Plot {
        title: (*panel).to_string(),
        x: figure.x,
        y: figure.y,
        series: curves
            .iter()
            .map(|curve| Series { label: (*curve).to_string(), points: of(panel, curve) })
            .collect(),
    };
    panels.iter().map(plot).collect()
}

/// Each once, in the order of first appearance.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

fn sheet(rows: &[Row]) -> Sheet {
    let header = ["panel", "series", "x", "mean", "standard error", "trials"];
    let cells = |row: &Row| {
        vec![
            row.panel.clone(),
            row.series.clone(),
            number(row.x),
            number(row.mean),
            number(row.standard_error),
            row.trials.to_string(),
        ]
    };
    Sheet {
        header: header.map(str::to_string).to_vec(),
        rows: rows.iter().map(cells).collect(),
        csv: store::csv(rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Axis;

    /// As a mean is on one side of a half, or on neither.
    fn seen(mean: f64) -> Seen {
        match mean {
            above if above > 0.5 => Seen::Yes,
            0.5 => Seen::Open,
            _ => Seen::No,
        }
    }

    const FIGURE: Figure = Figure {
        id: "acf-1",
        title: "Uniform queries",
        source: "A paper, figure 1",
        claim: "Something.",
        x: Axis { label: "A/S", log: false },
        y: Axis { label: "rate", log: true },
        points: |_| Vec::new(),
        verdict: |rows| Verdict { seen: seen(rows[0].mean), text: "we do see it".to_string() },
    };

    fn row(panel: &str, series: &str, x: f64, mean: f64) -> Row {
        Row {
            figure: FIGURE.id.to_string(),
            panel: panel.to_string(),
            series: series.to_string(),
            x,
            mean,
            standard_error: 0.0,
            trials: 1,
            grain: 0.0,
        }
    }

    fn findings(mean: f64, planned: usize) -> Findings {
        let rows = vec![
            row("small", "plain", 1.0, mean),
            row("small", "cyclic", 1.0, 0.25),
            row("large", "cyclic", 1.0, 0.125),
        ];
        Findings { rows, planned, failures: Vec::new() }
    }

    #[test]
    fn every_panel_is_a_plot_and_curves_keep_their_place() {
        let section = section(&FIGURE, &findings(1.0, 3));
        let titles: Vec<&str> = section.plots.iter().map(|plot| plot.title.as_str()).collect();
        assert_eq!(titles, ["small", "large"]);
        for plot in &section.plots {
            let labels: Vec<&str> = plot.series.iter().map(|s| s.label.as_str()).collect();
            assert_eq!(labels, ["plain", "cyclic"]);
        }
        assert!(section.plots[1].series[0].points.is_empty());
        assert_eq!(section.plots[1].series[1].points, [(1.0, 0.125, 0.0)]);
        assert_eq!(section.table.expect("a table").rows.len(), 3);
    }

    #[test]
    fn the_verdict_is_said_and_only_on_all_rows() {
        let said = |section: &Section| {
            section.facts.iter().find(|(term, _)| term == "We see").expect("said").1.clone()
        };
        let seen = section(&FIGURE, &findings(1.0, 3));
        assert_eq!((seen.standing, said(&seen).as_str()), (Standing::Seen, "We do see it."));
        assert_eq!(section(&FIGURE, &findings(0.25, 3)).standing, Standing::Differs);
        assert_eq!(section(&FIGURE, &findings(0.5, 3)).standing, Standing::Open);
        let part = section(&FIGURE, &findings(1.0, 4));
        assert_eq!(part.standing, Standing::Unfinished);
        assert_eq!(said(&part), "Unfinished: 3 of 4 rows.");
        assert_eq!(part.facts.last().expect("facts").0, "Run it");
    }

    #[test]
    fn failures_are_told_by_the_first_and_their_number() {
        for (count, told) in [(1, "no room"), (3, "no room, and 2 more")] {
            let failures = vec!["no room".to_string(); count];
            let section = section(&FIGURE, &Findings { failures, ..findings(1.0, 9) });
            let failed = ("Failed".to_string(), told.to_string());
            assert_eq!(section.facts.last(), Some(&failed));
        }
    }
}
