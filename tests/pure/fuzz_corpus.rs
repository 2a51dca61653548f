//! The corpora of the fuzz targets as regression tests, without a fuzzer.

#![allow(
    clippy::unwrap_used,
    reason = "a failing helper of a test fails the test"
)]

use std::{fs, path::Path};

#[path = "../../fuzz/checks.rs"]
mod checks;

#[path = "../../fuzz/cost.rs"]
mod cost;

fn every(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        check(&fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "the corpus of {target} has {count} files");
}

#[test]
fn selectors_hold_for_their_corpus() {
    every("selectors", checks::selectors);
}

#[test]
fn requests_hold_for_their_corpus() {
    every("request", checks::request);
}

#[test]
fn bulk_lines_hold_for_their_corpus() {
    every("bulk_lines", checks::bulk_lines);
}

#[test]
fn the_scanner_holds_for_its_corpus() {
    every("json_scanner", checks::json_scanner);
}

#[test]
fn continue_tokens_hold_for_their_corpus() {
    every("continue_token", checks::continue_token);
}

#[test]
fn images_hold_for_their_corpus() {
    every("images", checks::images);
}

#[test]
fn quantities_hold_for_their_corpus() {
    every("quantities", checks::quantities);
}

#[test]
fn reviews_hold_for_their_corpus() {
    every("reviews", checks::reviews);
}

#[test]
fn scripts_hold_for_their_corpus() {
    every("scripts", checks::scripts);
}

#[test]
fn keys_of_argo_cd_hold_for_their_corpus() {
    every("argocd_keys", checks::argocd_keys);
}

#[test]
fn the_language_of_searches_holds_for_its_corpus() {
    every("search_grammar", checks::search_grammar);
}

#[test]
fn costs_hold_for_their_corpus() {
    every("cost", cost::cost);
}
