//! The README and the page of examples match the repository.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{fs, path::Path};

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The row of one example in the table.
fn row(example: &Value) -> String {
    let file = example["file"].as_str().unwrap();
    let outcome = match &example["outcome"] {
        Value::String(word) => word.clone(),
        why => format!("never: {}", why["never"].as_str().unwrap()),
    };
    format!("| `tests/manifests/{file}` | {outcome} |")
}

#[test]
fn every_example_manifest_is_listed_with_its_outcome() {
    let page = read("docs/founding-examples.md");
    let examples: Vec<Value> =
        serde_saphyr::from_str(&read("tests/manifests/outcomes.yaml")).unwrap();
    let rows: Vec<String> = examples.iter().map(row).collect();
    let listed: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `tests/manifests/"))
        .collect();
    assert_eq!(listed, rows);
}

#[test]
fn the_readme_is_short() {
    assert!(read("README.md").split_whitespace().count() <= 1_000);
}

#[test]
fn the_readme_shows_the_registry_of_the_demo() {
    let registry = read("e2e/demo/registry.yaml").replace("${opensearch}", "http://127.0.0.1:9200");
    let manifest = registry
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect::<Vec<_>>()
        .join("\n");
    assert!(
        read("README.md").contains(&manifest),
        "the README does not show\n{manifest}"
    );
}
