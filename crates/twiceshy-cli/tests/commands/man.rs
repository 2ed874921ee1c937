//! `twiceshy man`: a page per verb, with its flags.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

fn twiceshy(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_twiceshy")).args(arguments).output();
    let output = output.expect("the binary runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The verbs that the help lists.
fn verbs() -> BTreeSet<String> {
    let help = twiceshy(&["--help"]);
    let (_, list) = help.split_once("Verbs:\n").expect("a list of verbs");
    let names = list.lines().take_while(|line| line.starts_with("  "));
    names
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(String::from))
        .collect()
}

#[test]
fn every_verb_has_a_page_with_its_flags() {
    let folder = tempfile::tempdir().expect("a folder");
    let directory = folder.path().join("share/man1");
    let path = directory.to_str().expect("text");
    assert_eq!(twiceshy(&["man", path]), "");
    let verbs = verbs();
    assert!(verbs.len() > 15 && verbs.contains("man"), "{verbs:?}");
    let entries = fs::read_dir(&directory).expect("it was made");
    let names: BTreeSet<String> = entries
        .map(|entry| entry.expect("a file").file_name().into_string().expect("text"))
        .collect();
    let mut expected: BTreeSet<String> =
        verbs.iter().map(|verb| format!("twiceshy-{verb}.1")).collect();
    expected.insert("twiceshy.1".into());
    assert_eq!(names, expected);
    for verb in verbs {
        let page =
            fs::read_to_string(directory.join(format!("twiceshy-{verb}.1"))).expect("a page");
        assert!(page.contains(&format!(".TH twiceshy-{verb} 1")), "{verb}");
        assert!(page.contains("\n.SH EXAMPLES\n.nf\n  twiceshy "), "{verb}");
        // As in the help, hyphens as roff wants them.
        let help = twiceshy(&[&verb, "--help"]);
        let flags = help.lines().filter_map(|line| {
            let name = line.trim_start().strip_prefix("--")?;
            name.split([' ', '=', '[', ',']).next()
        });
        for flag in flags {
            let flag = format!("\\-\\-{}", flag.replace('-', "\\-"));
            assert!(page.contains(&flag), "twiceshy-{verb}.1 does not explain {flag}");
        }
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_twiceshy")).args(["man", "/dev/null/x"]).output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cannot write to /dev/null/x"), "{error}");
}
