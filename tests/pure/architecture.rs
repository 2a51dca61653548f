//! docs/architecture.md describes every crate, and what it names exists.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// What each crate has in its section, once.
const PARTS: [&str; 3] = ["- **Purpose**: ", "- **Invariant**: ", "- **Boundary**: "];
/// What is no crate of the product: folders with sections, and no line of their own.
const OTHERS: [&str; 4] = ["fakes", "simulation", "e2e", "tests"];
/// A crate of others that the page names.
const FOREIGN: &str = "kube::";
/// What defines a name.
const KEYWORDS: [&str; 8] = [
    "const", "enum", "fn", "mod", "static", "struct", "trait", "type",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn page() -> String {
    fs::read_to_string(root().join("docs/architecture.md")).unwrap()
}

/// The folders that have sections, by name.
fn crates() -> BTreeMap<String, PathBuf> {
    let mut found: BTreeMap<String, PathBuf> = OTHERS
        .map(|name| (name.to_owned(), root().join(name)))
        .into();
    found.insert("fleetdex".to_owned(), root().to_path_buf());
    for wing in ["crates", "libraries", "tools"] {
        for entry in fs::read_dir(root().join(wing)).unwrap() {
            let entry = entry.unwrap();
            found.insert(entry.file_name().into_string().unwrap(), entry.path());
        }
    }
    found
}

#[test]
fn every_crate_has_its_purpose_its_invariant_and_its_boundary() {
    let page = page();
    let (_, rest) = page.split_once("\n## Crates\n").unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let mut described = Vec::new();
    for described_crate in section.split("\n### ").skip(1) {
        let (name, parts) = described_crate.split_once('\n').unwrap();
        for part in PARTS {
            let count = parts.lines().filter(|line| line.starts_with(part)).count();
            assert_eq!(count, 1, "{name}: {part}");
        }
        described.push(name);
    }
    described.sort_unstable();
    let names: Vec<String> = crates().into_keys().collect();
    assert_eq!(described, names);
}

#[test]
fn every_crate_imports_only_crates_of_lower_lines() {
    let (page, crates) = (page(), crates());
    let start = page.find("```text\nfleetdex ").unwrap();
    let layers = page[start + 3..].split("```").next().unwrap();
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, line) in layers.lines().enumerate() {
        let names = line.split_whitespace();
        lines.extend(
            names
                .filter(|name| crates.contains_key(*name))
                .map(|name| (name, number)),
        );
    }
    assert_eq!(lines.len(), crates.len() - OTHERS.len(), "{lines:?}");
    for (name, level) in &lines {
        let manifest = fs::read_to_string(crates[*name].join("Cargo.toml")).unwrap();
        let (_, dependencies) = manifest.split_once("\n[dependencies]\n").unwrap();
        let imported = dependencies
            .lines()
            .take_while(|entry| !entry.starts_with('['))
            .filter_map(|entry| entry.strip_prefix("fleetdex-"));
        for dependency in imported {
            let other = dependency.split(['.', ' ']).next().unwrap();
            assert!(lines[other] > *level, "{name} imports {other}");
        }
    }
}

#[test]
fn everything_that_the_page_names_exists() {
    let (page, crates) = (page(), crates());
    let blocks = page.split("```").step_by(2);
    let names: Vec<&str> = blocks
        .flat_map(|prose| prose.split('`').skip(1).step_by(2))
        .collect();
    assert!(names.len() > 150, "only {} names", names.len());
    let missing: Vec<&str> = names
        .into_iter()
        .filter(|name| !exists(name, &crates))
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn names_of_nothing_are_found() {
    let crates = crates();
    for there in [
        "core::model::Document",
        "core::model::document::Projector::document",
        "query_api::question",
        "crates/search/src/lib.rs",
        "kube::Client",
        "<prefix>.state",
    ] {
        assert!(exists(there, &crates), "{there}");
    }
    for missing in [
        "core::model::Documents",
        "core::models::Document",
        "core::model::document::Projector::documents",
        "nothing::model",
        "crates/search/src/gone.rs",
    ] {
        assert!(!exists(missing, &crates), "{missing}");
    }
}

/// Whether a name in code font is a module, an item or a file; other texts are taken as they are.
fn exists(name: &str, crates: &BTreeMap<String, PathBuf>) -> bool {
    let is_name = |separators: &[char]| {
        let mut characters = name.chars();
        characters.all(|one| one.is_alphanumeric() || one == '_' || separators.contains(&one))
    };
    if name.contains("::") && is_name(&[':']) {
        return name.starts_with(FOREIGN) || is_defined(name, crates);
    }
    let is_path = name.contains('/') && !name.starts_with('/') && is_name(&['/', '.', '-']);
    !is_path || root().join(name).exists()
}

/// Whether a path such as `core::model::Document` leads to a module, or to an item of the module
/// that defines or re-exports it. An item of an item is looked for in the whole crate.
fn is_defined(path: &str, crates: &BTreeMap<String, PathBuf>) -> bool {
    let mut names = path.split("::").peekable();
    let of_crate = names.next().unwrap().replace('_', "-");
    let Some(sources) = crates.get(&of_crate).map(|folder| folder.join("src")) else {
        return false;
    };
    let (mut folder, mut file) = (sources.clone(), sources.join("lib.rs"));
    while let Some(name) = names.peek() {
        let inner = folder.join(name);
        let files = [inner.with_extension("rs"), inner.join("mod.rs")];
        let Some(found) = files.into_iter().find(|file| file.is_file()) else {
            break;
        };
        (folder, file) = (inner, found);
        names.next();
    }
    let Some(item) = names.next() else {
        return true;
    };
    let mut of_items = String::new();
    texts(&sources, &mut of_items);
    defines(&fs::read_to_string(file).unwrap(), item) && names.all(|name| defines(&of_items, name))
}

/// The texts of all files of a folder.
fn texts(folder: &Path, found: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

/// Whether a source defines or re-exports an item of this name.
fn defines(source: &str, name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let is_defined = KEYWORDS.into_iter().any(|keyword| {
        let definition = format!("{keyword} {name}");
        let mut ends = source.split(&definition).skip(1);
        ends.any(|end| !end.starts_with(is_part))
    });
    let mut exports = source.split("pub use ").skip(1);
    is_defined
        || exports.any(|export| {
            let names = export.split(';').next().unwrap_or_default();
            names.split(|one| !is_part(one)).any(|word| word == name)
        })
}
