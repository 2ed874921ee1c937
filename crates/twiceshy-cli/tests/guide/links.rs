//! Links between documents.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::markdown::{prose, read, root};

/// The Markdown files of the repository, by their paths.
fn documents() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.md"])
        .current_dir(root())
        .output()
        .expect("git runs");
    let listed = String::from_utf8(listed.stdout).expect("text");
    // What a link points to is listed by its own name.
    let is_file = |path: &&str| root().join(path).symlink_metadata().is_ok_and(|it| it.is_file());
    listed.lines().filter(is_file).map(String::from).collect()
}

/// The targets of a document's links and pictures.
fn targets(document: &str) -> Vec<String> {
    let prose = prose(document);
    let inline =
        prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_string()));
    let sources = ["src=\"", "srcset=\"", "href=\""].into_iter().flat_map(|attribute| {
        prose.split(attribute).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_string()))
    });
    inline.chain(sources).collect()
}

/// The anchors of a document's headings, as forges make them.
fn anchors(document: &str) -> Vec<String> {
    let headings = prose(document);
    let headings = headings.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| slug(&line.trim_start_matches('#').trim().to_lowercase())).collect()
}

/// Letters, digits, hyphens and underscores stay, spaces become hyphens, the rest goes.
fn slug(heading: &str) -> String {
    let text = heading.replace(' ', "-");
    text.chars().filter(|letter| letter.is_alphanumeric() || "-_".contains(*letter)).collect()
}

/// Why a link of a document leads nowhere.
fn broken(document: &str, target: &str) -> Option<String> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let folder = Path::new(document).parent().expect("it has a folder");
    let file = if path.is_empty() { PathBuf::from(document) } else { folder.join(path) };
    if !root().join(&file).exists() {
        return Some(format!("{document}: {target}: no such file"));
    }
    let known =
        anchor.is_empty() || anchors(&read(&file.to_string_lossy())).iter().any(|it| it == anchor);
    (!known).then(|| format!("{document}: {target}: no such heading"))
}

fn is_local(target: &str) -> bool {
    // Names in rustdoc's brackets are checked by rustdoc.
    !target.contains("://") && !target.contains("::") && !target.starts_with("mailto:")
}

#[test]
fn every_link_leads_somewhere() {
    let mut wrong = Vec::new();
    let mut links = 0;
    for document in documents() {
        for target in targets(&read(&document)).into_iter().filter(|target| is_local(target)) {
            links += 1;
            wrong.extend(broken(&document, &target));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(links > 50, "only {links} links were found");
}

/// Their READMEs are also pages of the registries, where nothing else of the repository is.
#[test]
fn packages_link_only_to_what_they_contain() {
    for document in documents() {
        let Some(package) = document.strip_suffix("/README.md") else { continue };
        if !package.starts_with("crates/") || !root().join(package).join("Cargo.toml").exists() {
            continue;
        }
        for target in targets(&read(&document)) {
            let leaves = is_local(&target) && target.starts_with("..");
            assert!(!leaves, "{document}: {target} is not part of the package");
        }
    }
}

#[test]
fn broken_links_are_found() {
    assert_eq!(broken("README.md", "docs/design.md#the-idea"), None);
    assert!(broken("README.md", "docs/design.md#no-such-idea").is_some());
    assert!(broken("README.md", "docs/nothing.md").is_some());
    assert!(broken("docs/guide/README.md", "#the-twiceshy-guide").is_none());
    let found = targets("[a](b.md) ![c](d.svg) <img src=\"e.png\">\n```\n[f](g)\n```\n");
    assert_eq!(found, ["b.md", "d.svg", "e.png"]);
    assert_eq!(slug("`--follow sync`".to_lowercase().as_str()), "--follow-sync");
}
