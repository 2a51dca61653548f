//! Prose has at most 100 columns, in Markdown and in the comments of Rust.
//!
//! Tables, blocks of code, headings, images and what cannot be broken, such as an address, may be
//! longer, and so may generated pages.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    path::{Path, PathBuf},
};

const COLUMNS: usize = 100;
/// What `make metrics-docs` and `make reference` write.
const GENERATED: [&str; 3] = [
    "docs/metrics.md",
    "docs/command-line.md",
    "docs/reference-crds.md",
];

#[test]
fn lines_of_markdown_have_at_most_100_columns() {
    let found = files("md").into_iter().flat_map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let found = too_long(text.lines().map(|line| (line, Some(line))));
        shown(&path, &found)
    });
    assert_eq!(found.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn lines_of_comments_have_at_most_100_columns() {
    let files = files("rs");
    assert!(files.len() > 1_000, "only {} files", files.len());
    let found = files.into_iter().flat_map(|path| {
        let text = fs::read_to_string(&path).unwrap();
        let found = too_long(text.lines().map(|line| (line, comment(line))));
        shown(&path, &found)
    });
    assert_eq!(found.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn only_prose_that_can_be_broken_is_too_long() {
    let long = "a word and ".repeat(10);
    let numbers = |text: &str| too_long(text.lines().map(|line| (line, Some(line))));
    assert_eq!(numbers(&format!("short\n{long}\n- {long}\n")), [2, 3]);
    assert_eq!(numbers(&format!("```text\n{long}\n```\n{long}\n")), [4]);
    let address = format!("https://example.com/{}", "a/".repeat(60));
    for text in [
        format!("| {long} |"),
        format!("# {long}"),
        format!("- [word]({address})"),
        format!("`{long}`"),
        format!("![{long}](picture.svg)"),
    ] {
        assert_eq!(numbers(&text), [0; 0], "{text}");
    }
    assert_eq!(numbers(&format!("see {address}")), [1]);

    let comments =
        format!("//! ```\n//! {long}\nfn f() {{}}\n    // {long}\nlet a = 1; // {long}\n");
    let found = too_long(comments.lines().map(|line| (line, comment(line))));
    assert_eq!(found, [4], "a block of code ends with its comment");
}

/// Numbers of the lines that are too long, of lines with the prose in them. A line without prose
/// ends a block of code.
fn too_long<'t>(lines: impl Iterator<Item = (&'t str, Option<&'t str>)>) -> Vec<usize> {
    let mut is_code = false;
    let mut found = Vec::new();
    for (index, (line, text)) in lines.enumerate() {
        let Some(prose) = text.map(str::trim) else {
            is_code = false;
            continue;
        };
        let is_fence = prose.starts_with("```");
        is_code ^= is_fence;
        let is_exempt = is_code || is_fence || prose.starts_with(['|', '#']);
        if !is_exempt && line.chars().count() > COLUMNS && can_be_broken(prose) {
            found.push(index + 1);
        }
    }
    found
}

/// The text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']))
}

/// Whether there is a space after the marker of a list and outside of code.
fn can_be_broken(prose: &str) -> bool {
    let text = prose.trim_start_matches("- ");
    !text.starts_with("![") && text.split('`').step_by(2).any(|part| part.contains(' '))
}

/// All files with this ending, without those of builds and those that are generated.
fn files(ending: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == ending)
                && !GENERATED.iter().any(|page| path == root.join(page))
            {
                found.push(path);
            }
        }
    }
    found
}

fn shown(path: &Path, lines: &[usize]) -> Vec<String> {
    let shown = path.display();
    lines.iter().map(|line| format!("{shown}:{line}")).collect()
}
