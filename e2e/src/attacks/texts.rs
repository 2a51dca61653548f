//! JSON that is much larger in memory than as text.

use fleetdex_core::model::parsed_size;

/// A list of chains of nested maps with this key, of about `bytes` bytes.
pub fn nested_chains(bytes: usize, depth: usize, key: &str) -> String {
    let mut chain = format!("{{\"{key}\":").repeat(depth);
    chain.push('1');
    chain.push_str(&"}".repeat(depth));
    list_of(&chain, bytes)
}

/// A list of maps with one member each, of about `bytes` bytes.
pub fn small_maps(bytes: usize) -> String {
    list_of("{\"a\":1}", bytes)
}

/// A list of equal items, of about `bytes` bytes.
pub fn list_of(item: &str, bytes: usize) -> String {
    list(bytes / (item.len() + 1), |_| item.to_owned())
}

/// A list of items by their number.
pub fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    let items: Vec<String> = (0..count).map(item).collect();
    format!("[{}]", items.join(","))
}

/// A text that takes about `memory` bytes when it is parsed, as the operator estimates it, and has
/// at most `longest` bytes. `text` makes one of about a length.
pub fn parsed_within(memory: usize, longest: usize, text: impl Fn(usize) -> String) -> String {
    const SAMPLE: usize = 100_000;
    let sample = text(SAMPLE);
    let length = memory.saturating_mul(sample.len()) / parsed_size(sample.as_bytes());
    // Tables of maps and lists grow in steps.
    text((length / 2).min(longest))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_texts_are_json_of_their_length() {
        for text in [
            nested_chains(100_000, 100, "x"),
            small_maps(100_000),
            list(3, |number| number.to_string()),
        ] {
            let value: Value = serde_json::from_str(&text).unwrap();
            let items = value.as_array().unwrap().len();
            assert!(
                items == 3 || text.len() > 98_000 && text.len() < 101_000,
                "{items}"
            );
        }
    }
}
