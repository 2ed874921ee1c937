//! Readers and writers of one file at the same time.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::folder::{Folder, STORED, code, numbered, stderr};

/// Readers see a whole filter at any time, even while it is replaced.
#[test]
fn readers_go_on_while_the_file_is_replaced() {
    let folder = Folder::with_filter("telescoping:f=4");
    let wrong = folder.maybe("absent");
    let done = std::sync::atomic::AtomicBool::new(false);
    let before = fs::read(folder.path("f")).expect("a file");
    std::thread::scope(|scope| {
        let readers = [0, 1].map(|_| {
            scope.spawn(|| {
                let mut reads = 0;
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    folder.check_no_false_negative();
                    reads += 1;
                }
                reads
            })
        });
        for part in wrong.chunks(wrong.len().div_ceil(10)) {
            folder.write("list", part.join("\n"));
            let output = folder.run("adapt f --false-positives list");
            assert!(code(&output) < 2, "{}", stderr(&output));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().expect("a reader") > 0);
        }
    });
    assert!(fs::read(folder.path("f")).expect("a file") != before);
}

/// `adapt` and `build` lock out other writers from their first read to their last write,
/// and no reader.
#[cfg(unix)]
#[test]
fn a_second_writer_is_told_at_once() {
    let folder = Folder::with_filter("telescoping:f=6");
    let false_positives = folder.maybe("absent");
    folder.write("misses", false_positives.join("\n"));
    for slow in ["adapt f --false-positives -", "build -o f"] {
        let mut first = folder.command(slow).stdin(Stdio::piped()).spawn().expect("it runs");
        let mut input = first.stdin.take().expect("a pipe");
        // More than a pipe holds: when all of it is written, it is being read.
        input.write_all(numbered("stored", STORED).repeat(20).as_bytes()).expect("it reads");
        for second in ["adapt f --false-positives misses", "build keys -o f"] {
            let output = folder.run(second);
            assert_eq!(code(&output), 2, "{slow}, {second}");
            let error = stderr(&output);
            assert!(error.contains("run it again when that is done"), "{second}: {error}");
        }
        folder.check_no_false_negative();
        drop(input);
        let output = first.wait_with_output().expect("it ends");
        assert_eq!(code(&output), 0, "{slow}: {}", stderr(&output));
        folder.check_no_false_negative();
    }
    // Nobody has it any more. (1: not all of them could be fixed.)
    let output = folder.run("adapt f --false-positives misses");
    assert!(code(&output) < 2, "{}", stderr(&output));
}
