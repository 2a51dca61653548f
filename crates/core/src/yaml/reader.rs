//! Reads documents as kubectl reads them.

use serde_json::Value;
use serde_saphyr::DuplicateKeyPolicy;

/// The deepest nesting of a document, as in `serde_json`.
pub const MAX_DEPTH: usize = 128;

/// Parses at most so many documents: of repeated keys the last one counts, and booleans and octal
/// numbers of YAML 1.1 are read as such. The parser calls itself for each level of a document: call
/// this where 64 MiB of stack are.
pub fn parse(text: &str, max_documents: usize) -> Result<Vec<Value>, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: MAX_DEPTH,
            max_documents: max_documents,
            max_events: 20_000_000,
            max_nodes: 10_000_000,
        },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
    };
    serde_saphyr::from_multiple_with_options(text, options)
}

/// Makes `3.0` and `1e3` integers. A webhook in Go, and the API server, take no `3.0` where a type
/// has an integer, and helm prints a great integer as `1e+06`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the number is whole and within the bounds of the type"
)]
pub fn make_whole_numbers_integers(value: &mut Value) {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number
                .as_f64()
                .filter(|float| float.fract() == 0.0 && (-BOUND..BOUND).contains(float));
            if let Some(whole) = whole {
                *value = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole_numbers_integers),
        Value::Object(members) => members.values_mut().for_each(make_whole_numbers_integers),
        _ => {}
    }
}
