//! What a full run of the figures costs, from a few trials of each: CPU hours with as many
//! trials as rows need at least, and as they have at most. Where few rows are rare events
//! the truth is near the former. Takes minutes; Linux only.
//!
//! `cargo run --release -p twiceshy-lab --example cost [FIGURE]`

use twiceshy_lab::experiment::runner::{LEAST_TRIALS, core_time};
use twiceshy_lab::experiment::{Point, Setting, figures};

fn main() {
    const SAMPLES: usize = 5;
    let wanted = std::env::args().nth(1);
    let (mut least, mut most) = (0.0, 0.0);
    for figure in figures() {
        if wanted.as_ref().is_some_and(|wanted| wanted != figure.id) {
            continue;
        }
        let points = (figure.points)(&Setting::default());
        let chosen =
            (0..SAMPLES).map(|sample| &points[(points.len() - 1) * sample / (SAMPLES - 1)]);
        let seconds: Vec<f64> = chosen.map(seconds).collect();
        let mean = seconds.iter().sum::<f64>() / SAMPLES as f64;
        let hours = |trials: f64| points.len() as f64 * trials * mean / 3600.0;
        let trials = f64::from(points[0].trials);
        let (few, all) = (hours((LEAST_TRIALS as f64).min(trials)), hours(trials));
        println!(
            "{:20} {} points, {few:.2} to {all:.2} h, {seconds:.2?} s",
            figure.id,
            points.len()
        );
        least += few;
        most += all;
    }
    println!("{least:.1} to {most:.1} CPU hours");
}

/// Of this thread on a core: others may share the machine.
fn seconds(point: &Point) -> f64 {
    let now = || core_time().expect("Linux").as_secs_f64();
    let start = now();
    (point.run)(1).expect("a trial");
    now() - start
}
