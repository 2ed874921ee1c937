//! What a full run of the figures costs, panel by panel: CPU hours with as many trials as rows need
//! at least, and as they have at most. One trial of each curve is run, at the point that is nearest
//! to the mean of its places: most trials take as long as their place says. Takes hours for all
//! figures; Linux only.
//!
//! `cargo run --release -p twiceshy-lab --example cost [FIGURE [PANEL]]`

use twiceshy_lab::experiment::runner::{LEAST_TRIALS, core_time};
use twiceshy_lab::experiment::{Point, Setting, figures};

fn main() {
    let mut args = std::env::args().skip(1);
    let (figure, panel) = (args.next(), args.next());
    let (mut least, mut most) = (0.0, 0.0);
    for figure in figures().iter().filter(|f| figure.as_ref().is_none_or(|id| f.id == id)) {
        let points = (figure.points)(&Setting::default());
        let wanted = |point: &&Point| panel.as_ref().is_none_or(|panel| point.panel == *panel);
        for panel in points.chunk_by(|a, b| a.panel == b.panel).filter(|p| wanted(&&p[0])) {
            // Streams that trials share are made once.
            seconds(&panel[0]);
            let (mut few, mut all) = (0.0, 0.0);
            for curve in panel.chunk_by(|a, b| a.series == b.series) {
                let hours = curve.len() as f64 * seconds(middle(curve)) / 3600.0;
                let trials = f64::from(curve[0].trials);
                few += hours * trials.min(LEAST_TRIALS as f64);
                all += hours * trials;
            }
            let (id, name, count) = (figure.id, &panel[0].panel, panel.len());
            println!("{id}, {name}: {count} points, {few:.3} to {all:.3} h");
            least += few;
            most += all;
        }
    }
    println!("{least:.2} to {most:.2} CPU hours");
}

/// The point that is nearest to the mean of the places.
fn middle(curve: &[Point]) -> &Point {
    let mean = curve.iter().map(|point| point.x).sum::<f64>() / curve.len() as f64;
    let off = |point: &&Point| (point.x - mean).abs();
    curve.iter().min_by(|a, b| off(a).total_cmp(&off(b))).expect("a curve has points")
}

/// Of this thread on a core: others may share the machine.
fn seconds(point: &Point) -> f64 {
    let now = || core_time().expect("Linux").as_secs_f64();
    let start = now();
    (point.run)(1).expect("a trial");
    now() - start
}
