//! Continue tokens: where the next page starts, and which query it belongs to.
//!
//! They hold everything that the next page needs, so that any replica can answer it. OpenSearch's name of a point in time has 172 characters for
//! each shard that is searched, most of them alike: deflated as bytes and put into base64 once they are 39.

use std::io::{Read as _, Write as _};

use base64::{
    Engine as _,
    engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD},
};
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Cursor, Query};
use crate::model::{ClusterName, Namespace};

/// Bytes of a token's content, so that a small token cannot fill the memory: the names of 8,000 shards.
const MAX_CONTENT_BYTES: u64 = 1024 * 1024;

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
    /// Whether the cursor's snapshot is what follows the line of JSON, as bytes.
    packed: bool,
}

/// The token that continues the query after the cursor. Clients must not look into it.
pub fn encode(cursor: &Cursor, query: &Query) -> String {
    let snapshot = bytes_of(&cursor.snapshot);
    let packed = snapshot.is_some();
    let cursor = if packed { Cursor { snapshot: String::new(), ..cursor.clone() } } else { cursor.clone() };
    let token = Token { query: fingerprint(query), permitted: hash(&query.permitted.canonical()), cursor, packed };
    let mut content = serde_json::json!(token).to_string().into_bytes();
    content.push(b'\n');
    content.extend(snapshot.unwrap_or_default());
    URL_SAFE_NO_PAD.encode(deflated(&content))
}

/// The cursor of a token that was made for the same query; only the limit may differ.
pub fn decode(text: &str, query: &Query) -> Result<Cursor, TokenError> {
    let content = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| inflated(&bytes)).ok_or(TokenError::Malformed)?;
    let end = memchr::memchr(b'\n', &content).ok_or(TokenError::Malformed)?;
    let mut token: Token = serde_json::from_slice(&content[..end]).map_err(|_| TokenError::Malformed)?;
    if token.packed {
        token.cursor.snapshot = URL_SAFE.encode(&content[end + 1..]);
    }
    if token.query != fingerprint(query) {
        return Err(TokenError::OtherQuery);
    }
    if token.permitted != hash(&query.permitted.canonical()) {
        return Err(TokenError::OtherPermission);
    }
    Ok(token.cursor)
}

/// What a name stands for that is nothing but bytes in base64.
fn bytes_of(snapshot: &str) -> Option<Vec<u8>> {
    URL_SAFE.decode(snapshot).ok().filter(|bytes| URL_SAFE.encode(bytes) == snapshot)
}

fn deflated(content: &[u8]) -> Vec<u8> {
    let mut deflater = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing into memory cannot fail; a token of nothing would be malformed.
    deflater.write_all(content).and_then(|()| deflater.finish()).unwrap_or_default()
}

fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    ZlibDecoder::new(bytes).take(MAX_CONTENT_BYTES + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= MAX_CONTENT_BYTES).then_some(content)
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
        let without_line = URL_SAFE_NO_PAD.encode(deflated(b"{}"));
        let no_token = URL_SAFE_NO_PAD.encode(deflated(b"{}\n"));
        for text in ["", "%", "e30", "bnVsbA", "a b", &without_line, &no_token] {
            assert_eq!(decode(text, &query("")), Err(TokenError::Malformed), "{text:?}");
        }
    }

    #[test]
    fn a_token_that_would_fill_the_memory_is_malformed() {
        let bomb = URL_SAFE_NO_PAD.encode(deflated(&vec![b' '; 64 << 20]));
        assert!(bomb.len() < 100_000);
        assert_eq!(decode(&bomb, &query("")), Err(TokenError::Malformed));
    }

    /// What OpenSearch 3.4 says of each shard: index, its UUID, shard, node, context and session.
    fn point_in_time(shards: usize) -> String {
        let mut bytes = Vec::new();
        for number in 0..shards {
            let uuid = URL_SAFE_NO_PAD.encode(&Sha256::digest(number.to_string())[..16]);
            let context = char::from_u32(u32::try_from(number).unwrap()).unwrap();
            bytes.extend(format!("\u{18}fleetdex-cluster-{number:04}.g1\u{16}{uuid}\0\u{16}vl7gLGVxSZWLHws9bUtKaw").bytes());
            bytes.extend(format!("\0\0\0\0\0\0{context}\u{16}tdsZX7hgTzCgaFj7E8c2jA").bytes());
        }
        URL_SAFE.encode(bytes)
    }

    #[test]
    fn a_point_in_time_over_a_thousand_shards_fits_into_a_url() {
        for shards in [1, 2, 3, 1_000] {
            let cursor = Cursor { snapshot: point_in_time(shards), after: vec![json!("web")], remaining: None };
            let token = encode(&cursor, &query("a=b"));
            assert!(token.len() < 300 + 42 * shards, "{shards}: {} of {}", token.len(), cursor.snapshot.len());
            assert_eq!(decode(&token, &query("a=b")), Ok(cursor));
        }
    }
}
