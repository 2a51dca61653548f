//! Continue tokens: where the next page starts, and which query it belongs to.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Cursor, Query};
use crate::model::{ClusterName, Namespace};

/// A continue token that cannot be continued with. An HTTP server answers 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is no token of ours.
    #[error("the continue token is malformed; start the list again without it")]
    Malformed,
    /// Resource, selectors, clusters, namespaces, names or order differ from the first page's.
    #[error(
        "the continue token belongs to another query; send the parameters of the first page with it, or start again without it"
    )]
    OtherQuery,
    /// The caller may see more or less than when the first page was asked for, or is somebody else. An HTTP server answers 410, upon which
    /// clients list again.
    #[error("what you may see has changed since the first page; start the list again without the continue token")]
    OtherPermission,
}

#[derive(Serialize, Deserialize)]
struct Token {
    query: String,
    permitted: String,
    cursor: Cursor,
}

/// The token that continues the query after the cursor. Clients must not look into it.
pub fn encode(cursor: &Cursor, query: &Query) -> String {
    let token =
        serde_json::json!({ "query": fingerprint(query), "permitted": hash(&query.permitted.canonical()), "cursor": cursor });
    URL_SAFE_NO_PAD.encode(token.to_string())
}

/// The cursor of a token that was made for the same query; only the limit may differ.
pub fn decode(text: &str, query: &Query) -> Result<Cursor, TokenError> {
    let json = URL_SAFE_NO_PAD.decode(text).map_err(|_| TokenError::Malformed)?;
    let token: Token = serde_json::from_slice(&json).map_err(|_| TokenError::Malformed)?;
    if token.query != fingerprint(query) {
        return Err(TokenError::OtherQuery);
    }
    if token.permitted != hash(&query.permitted.canonical()) {
        return Err(TokenError::OtherPermission);
    }
    Ok(token.cursor)
}

/// The same for queries that ask for the same in the same order.
fn fingerprint(query: &Query) -> String {
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.dedup();
        names.join(" ")
    };
    let parts = serde_json::json!([
        query.resource,
        sorted(query.clusters.iter().map(ClusterName::as_str).collect()),
        sorted(query.namespaces.iter().map(Namespace::as_str).collect()),
        sorted(query.names.iter().map(String::as_str).collect()),
        query.labels.to_string(),
        query.fields.to_string(),
        query.sort,
        query.since,
        query.before,
        // Not the owners themselves: a dependant may have come meanwhile, between them and what is asked for.
        query.owners.is_some(),
    ]);
    hash(&parts.to_string())
}

fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(text)[..16])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        model::Gvk,
        query::{Grant, Permitted, ResourceName, Selectable},
    };

    fn query(labels: &str) -> Query {
        let selectable = Selectable::of(&Gvk::new("", "v1", "Pod"), &[]);
        Query { labels: labels.parse().unwrap(), ..Query::all_of(ResourceName::new("", "pods"), selectable, 10) }
    }

    #[test]
    fn a_token_continues_the_same_query_with_any_limit() {
        let cursor =
            Cursor { snapshot: "pit-1".to_owned(), after: vec![json!("default"), json!(null), json!(7)], remaining: Some(2) };
        let token = encode(&cursor, &query("a in (b,c)"));
        let same = Query { limit: 500, ..query("a in (c, b)") };
        assert_eq!(decode(&token, &same), Ok(cursor));
    }

    #[test]
    fn a_token_continues_no_other_query() {
        let cursor = Cursor { snapshot: "pit-1".to_owned(), after: Vec::new(), remaining: None };
        let token = encode(&cursor, &query("a=b"));
        let descending = Query { sort: Vec::new(), ..query("a=b") };
        let other_namespace = Query { namespaces: vec!["web".parse().unwrap()], ..query("a=b") };
        for other in [query("a=c"), descending, other_namespace] {
            assert_eq!(decode(&token, &other), Err(TokenError::OtherQuery));
        }
    }

    #[test]
    fn a_token_continues_only_for_those_who_may_see_the_same() {
        let namespaces = |names: &[&str]| {
            let names = names.iter().map(|name| name.parse().unwrap()).collect();
            Query { permitted: Permitted::Only(vec![Grant::of_namespaces(names)]), ..query("a=b") }
        };
        let cursor = Cursor { snapshot: "view".to_owned(), after: Vec::new(), remaining: None };
        let token = encode(&cursor, &namespaces(&["web", "db"]));
        assert_eq!(decode(&token, &namespaces(&["db", "web"])), Ok(cursor));
        for other in [namespaces(&["web"]), namespaces(&["web", "db", "x"]), query("a=b")] {
            assert_eq!(decode(&token, &other), Err(TokenError::OtherPermission));
        }
    }

    #[test]
    fn what_is_no_token_is_malformed() {
        for text in ["", "%", "e30", "bnVsbA", "a b"] {
            assert_eq!(decode(text, &query("")), Err(TokenError::Malformed), "{text:?}");
        }
    }
}
