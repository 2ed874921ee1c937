//! A figure of a paper and its rows as a section of the report.

use super::page::{Section, Sheet, Standing};
use super::plot::{Plot, Series};
use super::text::number;
use crate::experiment::runner::Findings;
use crate::experiment::{Figure, Row, store};

/// A figure's part of the report.
#[must_use]
pub fn section(figure: &Figure, findings: &Findings) -> Section {
    let verdict = findings.verdict(figure);
    let standing = match &verdict {
        Some(verdict) if verdict.seen => Standing::Seen,
        Some(_) => Standing::Differs,
        None => Standing::Unfinished,
    };
    let seen = verdict.map_or_else(|| findings.summary(figure), |verdict| verdict.text);
    let mut facts = vec![
        ("Source".to_string(), figure.source.to_string()),
        ("The paper shows".to_string(), figure.claim.to_string()),
        ("We see".to_string(), seen),
        ("Run it".to_string(), format!("twiceshy paper {}", figure.id)),
    ];
    facts.extend(findings.failures.iter().map(|why| ("Failed".to_string(), why.clone())));
    Section {
        id: figure.id.to_string(),
        title: figure.title.to_string(),
        standing,
        facts,
        plots: plots(figure, &findings.rows),
        table: Some(sheet(&findings.rows)),
    }
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
