//! The rows of a full run that are in `docs/paper/`, and what `docs/papers.md` says of them.

use std::fs;
use std::num::NonZero;
use std::path::PathBuf;

use twiceshy_lab::experiment::runner::{Findings, Plan, recall};
use twiceshy_lab::experiment::store::Store;
use twiceshy_lab::experiment::{Figure, Seen, Setting, figures};
use twiceshy_lab::model::cyclic;

fn docs() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn plan() -> Plan {
    Plan {
        setting: Setting::default(),
        seed: 1,
        trials: None,
        jobs: NonZero::<usize>::MIN,
        panel: None,
    }
}

/// The rows of a figure that are committed. Their first line has the release that measured them.
fn committed(figure: &Figure) -> Findings {
    let directory = docs().join("paper");
    let setting = match fs::read_to_string(directory.join(format!("{}.csv", figure.id))) {
        Ok(text) => text.lines().next().expect("a first line").trim_start_matches("# ").to_string(),
        Err(_) => plan().describe(),
    };
    let rest = |setting: &str| setting.split_once("; ").map(|(_, rest)| rest.to_string());
    assert_eq!(rest(&setting), rest(&plan().describe()), "{}", figure.id);
    recall(figure, &plan(), &Store::new(directory, &setting)).expect("rows")
}

/// What the table says of a figure: the third of its four columns.
fn said(text: &str, figure: &Figure) -> String {
    let (_, table) = text.split_once("## What a full run shows").expect("the section");
    let start = format!("| {} |", figure.id);
    let line = table.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("{} is not in the table", figure.id));
    line.split('|').nth(3).expect("three columns").trim().to_string()
}

#[test]
fn what_the_text_says_of_a_full_run_is_what_its_rows_show() {
    let text = fs::read_to_string(docs().join("papers.md")).expect("the text");
    for figure in figures() {
        let (found, said) = (committed(&figure), said(&text, &figure));
        let expected = match found.verdict(&figure).map(|verdict| verdict.seen) {
            Some(Seen::Yes) => "seen at the paper's size".to_string(),
            Some(Seen::No) => "not as in the paper".to_string(),
            Some(Seen::Open) => "open at the paper's size".to_string(),
            None if found.rows.is_empty() => "smaller size".to_string(),
            None => format!("smaller size; {} of {} rows", found.rows.len(), found.planned),
        };
        let agrees = match found.verdict(&figure) {
            Some(_) => said.starts_with(&expected),
            None => said.contains(&expected) && !said.contains("the paper's size"),
        };
        assert!(agrees, "{}: the rows say {expected:?}, the text {said:?}", figure.id);
    }
}

/// Uniform queries of the cyclic filters against the closed form, which the paper finds within 5 %
/// of its simulations "in most cases". Of rows that are known to 2 % all are within 5 % and what 5
/// standard errors allow; the rows are fixed, so nothing here is left to chance.
#[test]
fn rows_of_cyclic_filters_are_as_the_model_says() {
    let mut compared = 0;
    for (id, cell_bits) in [("acf-1", 8), ("acf-2", 12), ("acf-3", 16)] {
        let figure = figures().into_iter().find(|figure| figure.id == id).expect("a figure");
        for row in committed(&figure).rows {
            let Some(s) = row.series.strip_prefix("cyclic-").and_then(|s| s.parse::<u32>().ok())
            else {
                continue;
            };
            let repeats: f64 = row.panel["n_e = ".len()..].parse().expect("a number");
            let setting = cyclic::Setting { cells: 4, load: 0.95, absent: row.x, repeats };
            let model = cyclic::Functions::equal(cell_bits - s, s).table_rate(&setting);
            let error = row.standard_error / row.mean;
            if error < 0.02 {
                let off = (row.mean / model - 1.0).abs();
                assert!(off < 0.05 + 5.0 * error, "{row:?}: the model has {model}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "no rows are known well");
}
