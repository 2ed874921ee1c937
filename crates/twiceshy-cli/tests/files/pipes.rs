//! Pipes that are closed early, never read, or stay open.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use crate::folder::{Folder, code, stderr};

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = Folder::with_filter("telescoping:f=8");
    for flags in ["", "--json"] {
        let mut child =
            folder.command(&format!("query f absent {flags}")).spawn().expect("it runs");
        let mut first = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
        reader.read_line(&mut first).expect("a line");
        drop(reader);
        let output = child.wait_with_output().expect("it ends");
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{flags}");
    }
}

/// Nobody reads from the first byte on, whatever the verb.
#[test]
fn a_pipe_that_was_never_read_is_no_error() {
    let folder = Folder::with_filter("telescoping:f=8");
    folder.write("misses", folder.maybe("absent").join("\n"));
    for verb in [
        "build keys -o g",
        "query f keys",
        "query f keys --count",
        "inspect f",
        "adapt f --false-positives misses",
        "completions bash",
        "completions zsh",
    ] {
        let json = if verb.starts_with("completions") { "" } else { "--json" };
        for flags in ["", json] {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            let mut command = folder.command(&format!("{verb} {flags}"));
            let output = command.stdout(writer).output().expect("it runs");
            assert_eq!((code(&output), stderr(&output).as_str()), (0, ""), "{verb} {flags}");
        }
    }
    folder.check_no_false_negative();
}

#[test]
fn a_pipe_that_stays_open_is_answered() {
    let folder = Folder::with_filter("telescoping:f=8");
    let mut command = folder.command("query f -");
    let mut child: Child = command.stdin(Stdio::piped()).spawn().expect("it runs");
    let mut questions = child.stdin.take().expect("a pipe");
    let mut answers = BufReader::new(child.stdout.take().expect("a pipe"));
    for key in ["stored 1", "stored 2"] {
        writeln!(questions, "{key}").expect("it reads");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("an answer");
        assert_eq!(answer, format!("maybe\t{key}\n"));
    }
    drop(questions);
    assert!(child.wait().expect("it ends").success());
}
