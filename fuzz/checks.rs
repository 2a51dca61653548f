//! What has to hold for any bytes that a client may send. Run by the fuzz targets, and over their corpora by `tests/fuzz_corpus.rs`.

use fleetdex::{
    model::{FieldPath, Gvk, Quantity},
    query::{Cursor, Query, ResourceName, Selectable, continue_token, dsl},
    selector::{FieldSelector, LabelSelector},
    server::{clusterpedia, request},
};

fn pods() -> Query {
    Query::all_of(ResourceName::new("", "pods"), Selectable::of(&Gvk::new("", "v1", "Pod"), &[]).and_any_path(), 10)
}

/// A selector is refused, or printed so that it reads the same; and what it asks can be put to OpenSearch or is refused.
pub fn selectors(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(labels) = text.parse::<LabelSelector>() {
        assert_eq!(labels.to_string().parse(), Ok(labels.clone()), "{text:?}");
        if let Ok((labels, _)) = clusterpedia::take(labels) {
            drop(dsl::query_clause(&Query { labels, ..pods() }));
        }
    }
    if let Ok(fields) = text.parse::<FieldSelector>() {
        assert_eq!(fields.to_string().parse(), Ok(fields.clone()), "{text:?}");
        drop(dsl::query_clause(&Query { fields, ..pods() }));
    }
    if let Some(quantity) = Quantity::parse(text) {
        assert_eq!(Quantity::parse(&quantity.to_string()), Some(quantity), "{text:?}");
    }
    assert!(FieldPath::new(text).segments().count() <= text.len() + 1, "{text:?}");
}

/// A path and a query, with a line break between them, are understood or refused.
pub fn request(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (path, query) = text.split_once('\n').unwrap_or((text, ""));
    if let Err(error) = request::parse(path, Some(query)) {
        assert!((400..500).contains(&error.code()), "{text:?}: {error}");
    }
}

/// A continue token is refused, or is one that continues this very query.
pub fn continue_token(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let query = pods();
    if let Ok(cursor) = continue_token::decode(text, &query) {
        let again = continue_token::encode(&cursor, &query);
        assert_eq!(continue_token::decode(&again, &query), Ok(cursor), "{text:?}");
    }
    let cursor = Cursor { snapshot: text.to_owned(), after: vec![text.into()], remaining: None };
    let token = continue_token::encode(&cursor, &query);
    assert_eq!(continue_token::decode(&token, &query), Ok(cursor), "{text:?}");
}
