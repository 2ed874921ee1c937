//! Rows are the same whatever the threads do, and none that is done is lost or
//! done again.

use std::collections::HashSet;
use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use twiceshy_lab::experiment::runner::{Findings, Plan, Progress, recall, run};
use twiceshy_lab::experiment::store::{self, Error, Store};
use twiceshy_lab::experiment::{Axis, Figure, Measured, Point, Row, Seen, Setting, Trial, Verdict};

/// A directory of a test, which goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("twiceshy-{test}-{}", std::process::id()));
        // What a killed test process of the same number left.
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const fn figure(id: &'static str, points: fn(&Setting) -> Vec<Point>) -> Figure {
    Figure {
        id,
        title: "a figure",
        source: "nowhere",
        claim: "nothing",
        x: Axis { label: "x", log: false },
        y: Axis { label: "y", log: false },
        points,
        verdict: |rows| Verdict { seen: Seen::Yes, text: format!("{} rows", rows.len()) },
    }
}

fn point(series: &str, x: f64, trials: u32, run: Trial) -> Point {
    Point { panel: "a \"panel\", quoted".to_string(), series: series.to_string(), x, trials, run }
}

/// Two curves of five points whose trials say nothing but their seed.
fn seeds(_: &Setting) -> Vec<Point> {
    let share = |seed: u64| (seed >> 11) as f64 / (1u64 << 53) as f64;
    let curve = |series| {
        (0..5).map(move |x| {
            let run = Box::new(move |seed| Ok(share(seed).into()));
            point(series, f64::from(x) / 3.0, 4, run)
        })
    };
    curve("one").chain(curve("two")).collect()
}

fn plan(jobs: usize) -> Plan {
    let jobs = NonZero::new(jobs).expect("some jobs");
    Plan { setting: Setting::default(), seed: 1, trials: None, jobs, panel: None }
}

fn store(directory: &Path, plan: &Plan) -> Store {
    Store::new(directory, &plan.describe())
}

fn all(figure: &Figure, plan: &Plan, directory: &Path) -> Findings {
    let never = AtomicBool::new(false);
    let mut findings =
        run(&[figure], plan, &store(directory, plan), &never, &|_| ()).expect("rows");
    findings.pop().expect("one figure")
}

/// The same, each trial as slow as its seed says: with several threads they end
/// in another order than they begin.
fn slow_seeds(setting: &Setting) -> Vec<Point> {
    let slow = |mut point: Point| {
        let run = point.run;
        point.run = Box::new(move |seed| {
            thread::sleep(Duration::from_micros(seed % 3000));
            run(seed)
        });
        point
    };
    seeds(setting).into_iter().map(slow).collect()
}

#[test]
fn rows_do_not_depend_on_threads() {
    let figure = figure("seeds", slow_seeds);
    let rows = [1, 2, 7].map(|jobs| {
        let directory = Directory::new(&format!("threads-{jobs}"));
        all(&figure, &plan(jobs), &directory.0).rows
    });
    assert_eq!(rows[0].len(), 10);
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rows[0], rows[2]);
    let order: Vec<_> = rows[0].iter().map(|row| (row.series.as_str(), row.x)).collect();
    let points: Vec<Point> = seeds(&Setting::default());
    let wanted: Vec<_> = points.iter().map(|point| (point.series.as_str(), point.x)).collect();
    assert_eq!(order, wanted);
}

#[test]
fn every_trial_has_a_seed_of_its_own() {
    static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    fn points(_: &Setting) -> Vec<Point> {
        let run = || -> Trial {
            Box::new(|seed| {
                SEEN.lock().expect("no panic").push(seed);
                Ok(0.0.into())
            })
        };
        ["one", "two"]
            .into_iter()
            .flat_map(|s| [0.0, 1.0].map(|x| point(s, x, 50, run())))
            .collect()
    }
    for seed in [1, 2] {
        for id in ["first", "second"] {
            let directory = Directory::new(&format!("{id}-{seed}"));
            all(&figure(id, points), &Plan { seed, ..plan(2) }, &directory.0);
        }
    }
    let seen = SEEN.lock().expect("no panic");
    // 800 seeds of 64 bits: two are equal by chance once in 10^13 runs.
    assert_eq!(seen.len(), 2 * 2 * 4 * 50);
    assert_eq!(seen.iter().collect::<HashSet<_>>().len(), seen.len());
}

#[test]
fn a_row_is_the_mean_of_its_trials_and_its_standard_error() {
    static TRIALS: AtomicU32 = AtomicU32::new(0);
    fn points(_: &Setting) -> Vec<Point> {
        let next = |_| Ok(f64::from(TRIALS.fetch_add(1, Ordering::Relaxed)).into());
        vec![point("four", 0.0, 4, Box::new(next))]
    }
    let directory = Directory::new("mean");
    let figure = figure("mean", points);
    let row = all(&figure, &plan(1), &directory.0).rows.remove(0);
    // Of 0, 1, 2 and 3: the variance is 5/3, that of the mean a quarter of it.
    assert_eq!((row.mean, row.trials), (1.5, 4));
    assert!((row.standard_error - (5f64 / 12.0).sqrt()).abs() < 1e-15);

    let once = Plan { trials: NonZero::new(1), ..plan(1) };
    let directory = Directory::new("mean-once");
    let row = all(&figure, &once, &directory.0).rows.remove(0);
    assert_eq!((row.mean, row.standard_error, row.trials), (4.0, 0.0, 1));
}

/// Two trials of 10 and 40 queries: one event more raises their rates by 0.1 and 0.025, and the
/// mean by half of 0.0625 on average. Rows that were kept before that was are read without it.
#[test]
fn a_row_knows_what_an_event_is() {
    fn points(_: &Setting) -> Vec<Point> {
        let next = AtomicU32::new(0);
        let trial = move |_| {
            let queries = [10, 40][next.fetch_add(1, Ordering::Relaxed) as usize];
            Ok(Measured::share(2, queries))
        };
        vec![point("two", 0.0, 2, Box::new(trial))]
    }
    let directory = Directory::new("grain");
    let figure = figure("grain", points);
    let row = all(&figure, &plan(1), &directory.0).rows.remove(0);
    assert!((row.mean - 0.125).abs() < 1e-15 && (row.grain - 0.03125).abs() < 1e-15, "{row:?}");
    // And so does the file.
    assert_eq!(all(&figure, &plan(1), &directory.0).rows, [row]);
}

#[test]
fn finished_rows_are_not_done_again_and_what_a_kill_cut_off_is() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    fn points(setting: &Setting) -> Vec<Point> {
        let count = |inner: Point| Point {
            run: Box::new(move |seed| {
                RUNS.fetch_add(1, Ordering::Relaxed);
                (inner.run)(seed)
            }),
            ..point(&inner.series, inner.x, inner.trials, Box::new(|_| Ok(0.0.into())))
        };
        seeds(setting).into_iter().map(count).collect()
    }
    let runs = || RUNS.swap(0, Ordering::Relaxed);
    let directory = Directory::new("resume");
    let figure = figure("resume", points);
    let plan = plan(2);
    let first = all(&figure, &plan, &directory.0);
    assert_eq!(runs(), 10 * 4);
    assert_eq!(all(&figure, &plan, &directory.0).rows, first.rows);
    assert_eq!(runs(), 0);

    let path = directory.0.join("resume.csv");
    let whole = fs::read(&path).expect("the file");
    let ends: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] == b'\n').collect();
    // Wherever the file ends, the rows before the cut are kept, and no others.
    for cut in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
        fs::write(&path, &whole[..cut]).expect("a shorter file");
        let kept = ends.iter().filter(|&&end| end < cut).count().saturating_sub(2);
        assert_eq!(all(&figure, &plan, &directory.0).rows, first.rows, "cut at {cut}");
        assert_eq!(runs(), 4 * (10 - u32::try_from(kept).expect("few rows")), "cut at {cut}");
        let header = &whole[..=ends[1]];
        assert!(fs::read(&path).expect("the file").starts_with(header), "cut at {cut}");
    }

    // Damage in the middle costs the rows it hits, and no others.
    let mut damaged = fs::read(&path).expect("the file");
    let ends: Vec<usize> = (0..damaged.len()).filter(|&at| damaged[at] == b'\n').collect();
    damaged[ends[3] + 1] = b'"';
    damaged[ends[6] + 1..ends[7]].fill(0xff);
    fs::write(&path, &damaged).expect("a damaged file");
    assert_eq!(all(&figure, &plan, &directory.0).rows, first.rows);
    assert_eq!(runs(), 4 * 2);
}

#[test]
fn a_row_of_another_number_of_trials_is_another_row() {
    fn fewer(setting: &Setting) -> Vec<Point> {
        seeds(setting).into_iter().map(|point| Point { trials: 2, ..point }).collect()
    }
    let directory = Directory::new("trials");
    all(&figure("trials", seeds), &plan(1), &directory.0);
    let rows = all(&figure("trials", fewer), &plan(1), &directory.0).rows;
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| row.trials == 2));
}

/// Of a full run's row, the first trials that are enough: 4 at least, and an error of 2 % of
/// the mean. By hand: 1, 1, 1, 1.1 have a standard error of 0.025 and a mean of 1.025,
/// 2.4 %; with another 1 it is 0.02 and 1.02, 1.96 %. What is always 0 is never enough.
#[test]
fn a_full_row_ends_when_it_is_known_well() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    fn points(_: &Setting) -> Vec<Point> {
        // Trials are told apart by the order in which one thread runs them.
        let ordered = |values: &'static [f64]| -> Trial {
            let next = AtomicU32::new(0);
            Box::new(move |_| {
                RUNS.fetch_add(1, Ordering::Relaxed);
                let trial = next.fetch_add(1, Ordering::Relaxed) as usize;
                Ok(values[trial % values.len()].into())
            })
        };
        vec![
            point("alike", 0.0, 10, ordered(&[5.0])),
            point("settling", 0.0, 10, ordered(&[1.0, 1.0, 1.0, 1.1, 1.0, 9.0])),
            point("wild", 0.0, 10, ordered(&[1.0, 2.0])),
            point("nothing", 0.0, 10, ordered(&[0.0])),
        ]
    }
    let trials =
        |findings: &Findings| -> Vec<u32> { findings.rows.iter().map(|row| row.trials).collect() };
    let figure = figure("enough", points);
    let directory = Directory::new("enough");
    let full = all(&figure, &plan(1), &directory.0);
    assert_eq!(trials(&full), [4, 5, 10, 10]);
    assert!((full.rows[1].mean - 1.02).abs() < 1e-12, "{:?}", full.rows[1]);
    assert_eq!(RUNS.swap(0, Ordering::Relaxed), 29);
    // They are done, for the next run too.
    assert_eq!(all(&figure, &plan(1), &directory.0).rows, full.rows);
    assert_eq!(RUNS.swap(0, Ordering::Relaxed), 0);

    // A quick run, and one whose trials are counted, have all of them.
    let quick = Plan { setting: Setting { quick: true, ..Setting::default() }, ..plan(1) };
    let counted = Plan { trials: NonZero::new(7), ..plan(1) };
    for (name, plan, expected) in [("quick", quick, 10), ("counted", counted, 7)] {
        let directory = Directory::new(&format!("enough-{name}"));
        assert_eq!(trials(&all(&figure, &plan, &directory.0)), [expected; 4], "{name}");
    }
}

/// Whatever the threads do, the same trials are enough.
#[test]
fn rows_that_end_early_do_not_depend_on_threads() {
    fn points(_: &Setting) -> Vec<Point> {
        let trial = |x: u32| -> Trial {
            Box::new(move |seed| {
                thread::sleep(Duration::from_micros(seed % 1000));
                Ok((1.0 + (seed % 1000) as f64 * f64::from(x) / 1e5).into())
            })
        };
        (1..=20).map(|x| point("one", f64::from(x), 10, trial(x))).collect()
    }
    let figure = figure("early", points);
    let rows = [1, 3, 8].map(|jobs| {
        let directory = Directory::new(&format!("early-{jobs}"));
        all(&figure, &plan(jobs), &directory.0).rows
    });
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rows[0], rows[2]);
    let counts: HashSet<u32> = rows[0].iter().map(|row| row.trials).collect();
    assert!(counts.len() > 2, "some end early, some do not: {counts:?}");
}

#[test]
fn a_stopped_run_keeps_its_rows_and_goes_on_later() {
    let figure = figure("stop", seeds);
    let plan = plan(2);
    let whole = Directory::new("whole");
    let rows = all(&figure, &plan, &whole.0).rows;

    let directory = Directory::new("stop");
    let store = store(&directory.0, &plan);
    let stop = AtomicBool::new(false);
    let watch = |progress: &Progress| stop.store(progress.done >= 14, Ordering::Relaxed);
    let found = run(&[&figure], &plan, &store, &stop, &watch).expect("rows").remove(0);
    // 14 trials by then, and perhaps one more that the other thread had begun:
    // three rows of four trials, and a part of the next.
    assert_eq!((found.rows.len(), found.planned, found.verdict(&figure)), (3, 10, None));
    assert_eq!(found.summary(&figure), "unfinished: 3 of 10 rows");
    assert!(found.rows.iter().all(|row| rows.contains(row)));
    assert_eq!(recall(&figure, &plan, &store).expect("rows").rows, found.rows);
    assert_eq!(all(&figure, &plan, &directory.0).rows, rows);
}

#[test]
fn rows_of_another_setting_are_refused_and_left_alone() {
    let directory = Directory::new("setting");
    let figure = figure("setting", seeds);
    let plan = plan(1);
    all(&figure, &plan, &directory.0);
    let path = directory.0.join("setting.csv");
    let before = fs::read(&path).expect("the file");
    let never = AtomicBool::new(false);
    let quick = Setting { quick: true, ..Setting::default() };
    for other in [
        Plan { seed: 2, ..plan.clone() },
        Plan { trials: NonZero::new(2), ..plan.clone() },
        Plan { setting: quick, ..plan.clone() },
    ] {
        let store = store(&directory.0, &other);
        let error = run(&[&figure], &other, &store, &never, &|_| ()).expect_err("refused");
        assert!(matches!(error, Error::OtherSetting { .. }), "{error}");
        assert!(error.to_string().contains("setting.csv"), "{error}");
        assert!(recall(&figure, &other, &store).is_err());
        assert_eq!(fs::read(&path).expect("the file"), before);
    }
    // Neither is a file that has nothing to do with us, even one without a line.
    for foreign in ["name,age\nx,1\n", "precious"] {
        fs::write(&path, foreign).expect("a file");
        let store = store(&directory.0, &plan);
        run(&[&figure], &plan, &store, &never, &|_| ()).expect_err("refused");
        assert_eq!(fs::read_to_string(&path).expect("the file"), foreign);
    }
}

#[test]
fn a_failed_trial_leaves_out_its_row_alone() {
    fn points(_: &Setting) -> Vec<Point> {
        vec![
            point("good", 0.0, 3, Box::new(|_| Ok(1.0.into()))),
            point("bad", 1.0, 3, Box::new(|_| Err("no room for a key".into()))),
            point("no number", 2.0, 3, Box::new(|_| Ok(f64::NAN.into()))),
            point("good", 3.0, 3, Box::new(|_| Ok(2.0.into()))),
        ]
    }
    let directory = Directory::new("failure");
    let figure = figure("failure", points);
    let findings = all(&figure, &plan(1), &directory.0);
    let means: Vec<f64> = findings.rows.iter().map(|row| row.mean).collect();
    assert_eq!(means, [1.0, 2.0]);
    assert_eq!(findings.verdict(&figure), None);
    let mut failures = findings.failures;
    failures.sort();
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(
        failures[0].contains("\"bad\" at 1 (seed ") && failures[0].ends_with("no room for a key")
    );
    assert!(failures[1].contains("\"no number\" at 2") && failures[1].contains("NaN"));
}

#[test]
fn progress_goes_from_the_first_trial_to_the_last() {
    let directory = Directory::new("progress");
    let (one, two) = (figure("one", seeds), figure("two", seeds));
    let plan = plan(2);
    let seen = Mutex::new(Vec::new());
    let watch = |progress: &Progress| seen.lock().expect("no panic").push(progress.clone());
    let never = AtomicBool::new(false);
    run(&[&one, &two], &plan, &store(&directory.0, &plan), &never, &watch).expect("rows");
    let seen = seen.into_inner().expect("no panic");
    let done: Vec<u64> = seen.iter().map(|progress| progress.done).collect();
    assert_eq!(done, (1..=80).collect::<Vec<u64>>());
    assert!(seen.iter().all(|progress| progress.total == 80));
    assert!(seen[78].remaining > Duration::ZERO);
    assert_eq!(seen[79].remaining, Duration::ZERO);
}

#[test]
fn lines_of_rows_are_csv_as_written_down_by_hand() {
    let row = Row {
        figure: "acf-1".to_string(),
        panel: "8 bits, \"small\"".to_string(),
        series: "cyclic s = 1".to_string(),
        x: 0.1,
        mean: 1e-7,
        standard_error: 0.0,
        trials: 3,
        grain: 0.5,
    };
    assert_eq!(
        store::csv(&[row]),
        "figure,panel,series,x,mean,standard_error,trials,grain\n\
         acf-1,\"8 bits, \"\"small\"\"\",cyclic s = 1,0.1,1e-7,0.0,3,0.5\n"
    );
}
