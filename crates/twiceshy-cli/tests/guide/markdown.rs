//! What the tests need to know of Markdown.

use std::fs;
use std::path::{Path, PathBuf};

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("it is here")
}

/// A document of the repository, by its path.
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A fenced block.
pub struct Block {
    pub language: String,
    pub text: String,
    /// The number of its first line.
    pub line: usize,
}

/// The fenced blocks of a document, in order.
pub fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in document.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(language), None) => {
                let language = language.trim().to_string();
                open = Some(Block { language, text: String::new(), line: number + 2 });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text += &format!("{line}\n"),
            (None, None) => (),
        }
    }
    assert!(open.is_none(), "a block does not end");
    blocks
}

/// A document without its fenced blocks.
pub fn prose(document: &str) -> String {
    let mut inside = false;
    let lines = document.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn blocks_have_a_language_and_their_lines() {
    let found = blocks("a\n```sh\nls\n```\nb\n  ```sql\n  x\n  ```\n");
    let found: Vec<_> =
        found.iter().map(|block| (&*block.language, &*block.text, block.line)).collect();
    assert_eq!(found, [("sh", "ls\n", 3), ("sql", "  x\n", 7)]);
    assert_eq!(prose("a\n```sh\nls\n```\nb"), "a\nb");
}
