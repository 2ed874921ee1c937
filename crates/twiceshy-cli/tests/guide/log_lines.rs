//! `docs/guide/operating.md` explains every line that the server logs above level debug.

use std::fs;
use std::path::Path;

use crate::markdown::{read, root};

/// The messages of `info!`, `warn!` and `error!` in a source file: the last string of each.
fn messages(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["info!(", "warn!(", "error!("] {
        for (at, _) in source.match_indices(name) {
            // Not the end of another macro's name.
            if source[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_') {
                continue;
            }
            let message = last_string(&source[at + name.len()..]);
            found.push(message.expect("a message comes last").to_string());
        }
    }
    found
}

/// The last string of a macro's arguments, which end with its parenthesis.
fn last_string(arguments: &str) -> Option<&str> {
    let (mut depth, mut begin, mut last) = (1, None, None);
    let mut letters = arguments.char_indices();
    while let Some((at, letter)) = letters.next() {
        match (letter, begin) {
            // What is escaped is skipped.
            ('\\', Some(_)) => drop(letters.next()),
            ('"', Some(from)) => (last, begin) = (Some(&arguments[from..at]), None),
            ('"', None) => begin = Some(at + 1),
            ('(', None) => depth += 1,
            (')', None) => depth -= 1,
            _ => (),
        }
        if depth == 0 {
            break;
        }
    }
    last
}

fn visit(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            visit(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.extend(messages(&fs::read_to_string(path).expect("text")));
        }
    }
}

#[test]
fn every_log_line_is_explained() {
    let mut found = Vec::new();
    visit(&root().join("crates/twiceshy-server/src"), &mut found);
    visit(&root().join("crates/twiceshy-cli/src/cmd/serve"), &mut found);
    found.extend(messages(&read("crates/twiceshy-cli/src/cmd/serve.rs")));
    assert!(found.len() > 25, "only {} messages were found", found.len());
    let manual = read("docs/guide/operating.md");
    let missing: Vec<_> = found
        .iter()
        // Up to what varies, and to the end of its first line.
        .map(|message| message.split(['{', '\\', ';', ':', '(']).next().unwrap_or_default().trim())
        .filter(|beginning| !manual.contains(beginning))
        .collect();
    assert!(missing.is_empty(), "docs/guide/operating.md does not explain: {missing:#?}");
}

#[test]
fn messages_are_found() {
    let source = r#"info!(a = f(1), "one"); warn!(%b, "two(); \
        more",); my_info!("no"); Err(_) => error!("a \"three\" (b)"),"#;
    assert_eq!(messages(source), ["one", "two(); \\\n        more", r#"a \"three\" (b)"#]);
}
