//! Documents remember the version of the built-in rules, so that those that other rules made are
//! written again. This test fails when a rule changes and its version does not.
//!
//! It compares the files that have the rules, without white space, lines of comments and tests. A
//! digest of what the rules say of some objects would not notice a change in a branch that none of
//! these objects reaches, and the documents of other objects would stay wrong. The price is that a
//! change of the code without one of its results also has to be noted, with one command.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

/// What decides documents: folders and files below the sources of the interpreter.
const RULES: [&str; 14] = [
    "health",
    "health.rs",
    "image.rs",
    "native/quantity.rs",
    "native/requirements.rs",
    "pod_dependencies.rs",
    "pod_template.rs",
    "reads.rs",
    "relations",
    "relations.rs",
    "summary",
    "summary.rs",
    "value.rs",
    "walk.rs",
];
/// The digests, beside the constant.
const NOTED: &str = "rules/built_in_rules.txt";
const UPDATE: &str = "UPDATE_BUILT_IN_RULES";

#[test]
fn the_version_of_the_built_in_rules_changes_with_them() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/interpreter/src");
    let now = format!("version {}\n{}", version(&sources), digests(&sources));
    let noted = sources.join(NOTED);
    if std::env::var_os(UPDATE).is_some() {
        fs::write(&noted, &now).unwrap();
    }
    let before = fs::read_to_string(&noted).unwrap_or_default();
    let changed: Vec<&str> = now
        .lines()
        .filter(|line| !before.lines().any(|noted| noted == *line))
        .collect();
    assert!(
        before == now,
        "built-in rules have changed: {changed:?}. If documents may say something else now (health, reason, message, replicas, resources, images \
         or dependencies of any object), raise BUILT_IN_RULES in crates/interpreter/src/rules.rs. In any case note the change: \
         {UPDATE}=1 cargo test --test pure built_in_rules"
    );
}

fn version(sources: &Path) -> String {
    let rules = fs::read_to_string(sources.join("rules.rs")).unwrap();
    let (_, rest) = rules.split_once("const BUILT_IN_RULES: &str = \"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// A line for each file: its path and its digest.
fn digests(sources: &Path) -> String {
    let mut files = BTreeMap::new();
    let mut paths: Vec<PathBuf> = RULES.iter().map(|rule| sources.join(rule)).collect();
    while let Some(path) = paths.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            paths.extend(entries.map(|entry| entry.unwrap().path()));
        } else {
            let shown = path.strip_prefix(sources).unwrap().display().to_string();
            if !shown.contains("tests") {
                files.insert(shown, digest(&fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(
        files.len() > 35,
        "only {} files: have they moved?",
        files.len()
    );
    let mut lines = String::new();
    for (path, digest) in files {
        writeln!(lines, "{path} {digest:016x}").unwrap();
    }
    lines
}

/// FNV-1a of what is left before the tests, which end each file.
fn digest(source: &str) -> u64 {
    let production = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code = production
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let bytes = code
        .flat_map(str::bytes)
        .filter(|byte| !byte.is_ascii_whitespace());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}
