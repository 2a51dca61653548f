//! Encodes writes as the newline-delimited JSON of a `_bulk` request.

use std::collections::BTreeSet;

use bytes::Bytes;
use fleetdex_core::{
    model::{IndexName, JsonLine, write_json_text},
    planted::{Bug, planted, was_retried},
};

use super::Write;

/// Bytes of an action line besides the names in it.
const ACTION_BYTES: usize = 120;

/// About how many bytes a write takes in a bulk request.
pub fn encoded_len(write: &Write) -> usize {
    write.document.body.as_ref().map_or(0, |body| body.len())
        + write.document.id.len()
        + write.index.as_str().len()
        + ACTION_BYTES
}

/// A `_bulk` request.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Newline-delimited JSON.
    pub body: Bytes,
    /// How many items it has: the writes first, then their guards.
    pub items: usize,
}

/// Encodes the `_bulk` request of some writes. Every write names its alias, which must exist, and
/// carries its version, so that replays and reorders converge.
///
/// Alias names hold no character that JSON escapes, ids are escaped, and a document is a
/// [`JsonLine`]: whatever a member sends, each line of the request is one of these.
pub fn encode(writes: &[Write]) -> Encoded {
    let mut body = Vec::with_capacity(writes.iter().map(encoded_len).sum());
    for write in writes {
        let action = if write.document.body.is_some() {
            "index"
        } else {
            "delete"
        };
        body.extend_from_slice(b"{\"");
        body.extend_from_slice(action.as_bytes());
        body.extend_from_slice(b"\":{\"_index\":\"");
        body.extend_from_slice(write.index.as_str().as_bytes());
        body.extend_from_slice(b"\",\"_id\":");
        write_json_text(&mut body, &write.index.stored_id(&write.document.id));
        if !loses_version(write) {
            body.extend_from_slice(b",\"version\":");
            body.extend_from_slice(write.document.version.to_string().as_bytes());
            body.extend_from_slice(b",\"version_type\":\"external_gte\"");
        }
        body.extend_from_slice(b",\"require_alias\":true}}\n");
        if let Some(document) = &write.document.body {
            body.extend_from_slice(document);
            body.push(b'\n');
        }
    }
    let unguarded = only_deleted(writes);
    for alias in &unguarded {
        body.extend_from_slice(b"{\"index\":{\"_index\":\"");
        body.extend_from_slice(alias.as_str().as_bytes());
        body.extend_from_slice(GUARD);
    }
    Encoded {
        body: body.into(),
        items: writes.len() + unguarded.len(),
    }
}

/// A write that no document can satisfy, so that it is always refused with 409, and that requires
/// its alias.
///
/// `require_alias` has no effect on a delete: a request that has only deletes for a name that is
/// gone creates an index of that name (seen on OpenSearch 3.4.0; `TransportBulkAction` collects the
/// flag by name, and that of deletes is always false). Beside one write that requires the alias,
/// the deletes require it, too.
const GUARD: &[u8] = b"\",\"_id\":\"guard\",\"if_seq_no\":9007199254740991,\"if_primary_term\":1,\"require_alias\":true}}\n{}\n";

/// The aliases that only deletes name.
fn only_deleted(writes: &[Write]) -> BTreeSet<&IndexName> {
    let indexed: BTreeSet<&IndexName> = writes
        .iter()
        .filter(|write| write.document.body.is_some())
        .map(|write| &write.index)
        .collect();
    writes
        .iter()
        .map(|write| &write.index)
        .filter(|alias| !indexed.contains(alias))
        .collect()
}

/// Two planted bugs.
fn loses_version(write: &Write) -> bool {
    (planted(Bug::UnorderedDeletes) && write.document.body.is_none())
        || (planted(Bug::RetryWithoutVersion) && was_retried(&write.document.id))
}

/// Joins lines into the body of a bulk request.
pub fn joined(lines: &[JsonLine]) -> Bytes {
    let mut body = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        body.extend_from_slice(line);
        body.push(b'\n');
    }
    body.into()
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::Document;

    use super::*;

    #[test]
    fn every_write_names_its_alias_and_version() {
        let index =
            fleetdex_core::model::IndexPrefix::default().cluster_alias(&"member1".parse().unwrap());
        let write = |id: &str, version: &str, body: Option<&'static str>| Write {
            index: index.clone(),
            document: Document {
                id: id.into(),
                version: version.parse().unwrap(),
                body: body.map(JsonLine::new),
                is_partial: false,
            },
        };
        let writes = [
            write("v1/Pod/a", "7", Some(r#"{"kind":"Pod"}"#)),
            write("v1/Pod/\"b", "9", None),
        ];
        let text = |writes: &[Write]| String::from_utf8(encode(writes).body.to_vec()).unwrap();
        insta::assert_snapshot!(text(&writes), @r#"
        {"index":{"_index":"fleetdex-member1","_id":"v1/Pod/a","version":7,"version_type":"external_gte","require_alias":true}}
        {"kind":"Pod"}
        {"delete":{"_index":"fleetdex-member1","_id":"v1/Pod/\"b","version":9,"version_type":"external_gte","require_alias":true}}
        "#);
        insta::assert_snapshot!(text(&writes[1..]), @r#"
        {"delete":{"_index":"fleetdex-member1","_id":"v1/Pod/\"b","version":9,"version_type":"external_gte","require_alias":true}}
        {"index":{"_index":"fleetdex-member1","_id":"guard","if_seq_no":9007199254740991,"if_primary_term":1,"require_alias":true}}
        {}
        "#);
        assert_eq!(encode(&writes[1..]).items, 2);
    }
}
