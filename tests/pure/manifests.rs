//! Every example manifest stands in `tests/manifests/` with a declared outcome. The end-to-end
//! tests apply them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Example {
    file: String,
    needs: Option<String>,
    outcome: Outcome,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Applies,
    Waits(String),
    Never(String),
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/manifests"))
}

fn examples() -> Vec<Example> {
    serde_saphyr::from_str(&fs::read_to_string(folder().join("outcomes.yaml")).unwrap()).unwrap()
}

#[test]
fn every_manifest_has_a_declared_outcome() {
    let declared: BTreeSet<String> = examples().into_iter().map(|example| example.file).collect();
    let present: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| name != "outcomes.yaml")
        .collect();
    assert_eq!(present, declared);
}

#[test]
fn every_manifest_names_a_kind_and_what_it_needs_exists() {
    for example in examples() {
        let text = fs::read_to_string(folder().join(&example.file)).unwrap();
        let manifest: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert!(
            manifest["apiVersion"].is_string() && manifest["kind"].is_string(),
            "{}",
            example.file
        );
        if let Some(needed) = &example.needs {
            assert!(
                folder().join("needs").join(needed).exists(),
                "{} needs {needed}",
                example.file
            );
        }
        match &example.outcome {
            Outcome::Applies => assert!(
                example.error.is_none(),
                "{} applies and yet has an error",
                example.file
            ),
            Outcome::Waits(reason) | Outcome::Never(reason) => {
                assert!(
                    !reason.is_empty() && example.error.is_some(),
                    "{} says neither why nor how",
                    example.file
                );
            }
        }
    }
}
