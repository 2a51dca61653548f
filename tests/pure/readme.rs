//! The README and the documentation match the repository.

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
        why => match (why["waits"].as_str(), why["never"].as_str()) {
            (Some(what), _) => format!("waits for {}", what.trim_start_matches("for ")),
            (_, reason) => format!("never: {}", reason.unwrap()),
        },
    };
    format!("| [{file}](../tests/manifests/{file}) | {outcome} |")
}

#[test]
fn every_example_manifest_is_listed_with_its_outcome() {
    let page = read("docs/founding-examples.md");
    let examples: Vec<Value> =
        serde_saphyr::from_str(&read("tests/manifests/outcomes.yaml")).unwrap();
    let rows: Vec<String> = examples.iter().map(row).collect();
    let listed: Vec<&str> = page
        .lines()
        .filter(|line| line.contains("](../tests/manifests/"))
        .collect();
    assert_eq!(listed, rows);
}

#[test]
fn the_readme_is_short() {
    assert!(read("README.md").lines().count() <= 150);
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

#[test]
fn every_relative_link_leads_somewhere() {
    let mut pages = vec!["README.md".to_owned(), "dashboards/README.md".to_owned()];
    for folder in ["docs", "docs/adr"] {
        let entries = fs::read_dir(root().join(folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap());
        pages.extend(
            entries
                .filter(|name| {
                    name.rsplit_once('.')
                        .is_some_and(|(_, ending)| ending == "md")
                })
                .map(|name| format!("{folder}/{name}")),
        );
    }
    for page in pages {
        let text = read(&page);
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split_once(')'))
            .map(|(target, _)| target);
        for target in
            targets.filter(|target| !target.starts_with("http") && !target.starts_with('#'))
        {
            let file = target.split_once('#').map_or(target, |(file, _)| file);
            let folder = Path::new(&page).parent().unwrap();
            assert!(
                root().join(folder).join(file).exists(),
                "{page} links to {target}, which is not there"
            );
        }
    }
}
