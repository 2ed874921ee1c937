//! Keys that other clients add while something goes wrong.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::{Client, Value};
use crate::harness::Running;
use crate::upstreams::eventually;

/// Adds keys of these names by `add` without end, and looks up, through the shield, those that
/// were added `max_lag` before, while `happens`. None may be denied; a store that is down is an
/// error. Returns the texts of these errors.
pub fn never_denied(
    running: &Running,
    max_lag: Duration,
    name: impl Fn(usize) -> String + Sync,
    mut add: impl FnMut(&str) + Send,
    happens: impl FnOnce(),
) -> BTreeSet<String> {
    let done = AtomicBool::new(false);
    let added: Mutex<Vec<Instant>> = Mutex::default();
    let found = AtomicU64::new(0);
    let errors: Mutex<BTreeSet<String>> = Mutex::default();
    thread::scope(|scope| {
        let _ending = Ending(&done);
        let writer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let number = added.lock().expect("no panic").len();
                add(&name(number));
                added.lock().expect("no panic").push(Instant::now());
                thread::sleep(Duration::from_micros(200));
            }
        });
        let reader = scope.spawn(|| {
            let mut client = Client::connect(running.address);
            let mut next = 0;
            while !done.load(Ordering::Relaxed) {
                let (ready, last) = {
                    let added = added.lock().expect("no panic");
                    (added.partition_point(|then| then.elapsed() >= max_lag), added.len())
                };
                if ready == 0 {
                    thread::sleep(Duration::from_millis(1));
                    continue;
                }
                // The latest ones that are to be found, and old ones in turn.
                next = (next + 1) % ready;
                for number in [ready - 1, next] {
                    let key = name(number);
                    match client.call(&["EXISTS", &key]) {
                        Value::Integer(1) => {
                            found.fetch_add(1, Ordering::Relaxed);
                        }
                        Value::Error(text) => {
                            let down = ["ERR the store is down: ", "LOADING "];
                            assert!(down.iter().any(|down| text.starts_with(down)), "{text}");
                            errors.lock().expect("no panic").insert(text);
                            thread::sleep(Duration::from_millis(1));
                        }
                        other => panic!("{key} of {last} is denied: {other:?}"),
                    }
                }
            }
        });
        let count = || found.load(Ordering::Relaxed);
        let more = |many: u64| {
            let before = count();
            eventually("keys are found", || reader.is_finished() || count() > before + many);
        };
        more(200);
        happens();
        more(200);
        eventually("the filter is trusted", || running.is_trusted());
        more(200);
        done.store(true, Ordering::Relaxed);
        reader.join().expect("nothing is denied");
        writer.join().expect("all is added");
    });
    errors.into_inner().expect("no panic")
}

/// Ends the load, also when something panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
