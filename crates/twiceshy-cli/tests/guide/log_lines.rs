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
            let body = &source[at + name.len()..];
            let end = body.find(");").expect("a call ends");
            let message = body[..end].trim_end().trim_end_matches(',');
            let message = message.strip_suffix('"').expect("a message comes last");
            let begin = message.rfind('"').expect("it begins") + 1;
            found.push(message[begin..].to_string());
        }
    }
    found
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
    let source =
        "info!(a = 1, \"one\");\nwarn!(\n  %b,\n  \"two \\\n   more\",\n);\nmy_info!(\"no\");";
    assert_eq!(messages(source), ["one", "two \\\n   more"]);
}
