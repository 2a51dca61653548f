//! The clauses of free words.

use fleetdex_core::{
    model::index_fields,
    query::{
        Word, WordMatch,
        words::{EVENT_REASON, WORD_FIELDS},
    },
};
use serde::Serialize;
use serde_json::{Value, json};

/// The clause of the documents that contain it.
pub(super) fn word_clause(word: &Word) -> Value {
    either(part(word))
}

/// The clause that scores the documents that contain it: 3 for an exact match, 2 for a prefix and 1
/// for a part.
pub(super) fn scored_clause(word: &Word) -> Value {
    let scored = |filter: &[Value], best: WordMatch| json!({ "constant_score": { "filter": either(filter), "boost": best as u8 } });
    json!({ "dis_max": { "queries": [
        scored(&exact(word), WordMatch::Exact),
        scored(&prefix(word), WordMatch::Prefix),
        scored(&part(word), WordMatch::Part),
    ] } })
}

fn exact(word: &Word) -> Vec<Value> {
    let term = |field: &str| json!({ "term": { field: { "value": word.text(), "case_insensitive": true } } });
    // Pairs begin with their keys and contain them, so that only an exact match needs the keys.
    let fields = WORD_FIELDS.into_iter().chain([index_fields::LABEL_KEYS]);
    let mut clauses: Vec<Value> = fields.map(term).collect();
    let of_value = ["*=", &escaped(word.text())];
    clauses.push(wildcard(index_fields::LABELS, &of_value));
    clauses.push(json!({ "term": { (index_fields::FIELDS): { "value": format!("{EVENT_REASON}={}", word.text()), "case_insensitive": true } } }));
    clauses
}

fn prefix(word: &Word) -> Vec<Value> {
    let prefix = |field: &str, text: &str| json!({ "prefix": { field: { "value": text, "case_insensitive": true } } });
    let mut clauses: Vec<Value> = WORD_FIELDS
        .into_iter()
        .map(|field| prefix(field, word.text()))
        .collect();
    let of_value = ["*=", &escaped(word.text()), "*"];
    clauses.push(wildcard(index_fields::LABELS, &of_value));
    let of_event = format!("{EVENT_REASON}={}", word.text());
    clauses.push(prefix(index_fields::FIELDS, &of_event));
    clauses
}

fn part(word: &Word) -> Vec<Value> {
    let escaped = escaped(word.text());
    let mut clauses: Vec<Value> = WORD_FIELDS
        .into_iter()
        .map(|field| wildcard(field, &["*", &escaped, "*"]))
        .collect();
    let of_event = [EVENT_REASON, "=*", &escaped, "*"];
    clauses.push(wildcard(index_fields::FIELDS, &of_event));
    clauses
}

/// The word without the special characters of wildcard queries.
fn escaped(text: &str) -> String {
    with_backslashes(text, |character| matches!(character, '*' | '?' | '\\'))
}

/// A text with a backslash before some of its characters.
pub(super) fn with_backslashes(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if is_special(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

fn wildcard(field: &str, pattern: &[&str]) -> Value {
    json!({ "wildcard": { field: { "value": pattern.concat(), "case_insensitive": true } } })
}

/// Requires one of some clauses.
pub(crate) fn either(clauses: impl Serialize) -> Value {
    json!({ "bool": { "should": clauses, "minimum_should_match": 1 } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_in_words_are_texts() {
        let clause = word_clause(&Word::new(r"a*b?c\d", true));
        let pattern = &clause["bool"]["should"][0]["wildcard"]["kind"]["value"];
        assert_eq!(pattern, r"*a\*b\?c\\d*");
    }
}
