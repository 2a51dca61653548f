//! Writes as the newline-delimited JSON of a `_bulk` request.

use bytes::Bytes;

use super::Write;
use crate::planted::{Bug, planted, was_retried};

/// What an action line costs beside the names in it.
const ACTION_BYTES: usize = 120;

/// About how many bytes a write takes in a bulk request.
pub fn encoded_len(write: &Write) -> usize {
    write.body.as_ref().map_or(0, Bytes::len) + write.id.len() + write.index.as_str().len() + ACTION_BYTES
}

/// The body of a `_bulk` request. Every write names its alias, which must exist, and carries its version, so that
/// replays and reorders converge.
///
/// Ids and alias names hold no character that JSON escapes: ids are made of API names and UIDs or are hashes, aliases are escaped.
pub fn encode<'w>(writes: impl IntoIterator<Item = &'w Write>) -> Bytes {
    let writes: Vec<&Write> = writes.into_iter().collect();
    let mut body = Vec::with_capacity(writes.iter().map(|write| encoded_len(write)).sum());
    for write in writes {
        let action = if write.body.is_some() { "index" } else { "delete" };
        body.extend_from_slice(b"{\"");
        body.extend_from_slice(action.as_bytes());
        body.extend_from_slice(b"\":{\"_index\":\"");
        body.extend_from_slice(write.index.as_str().as_bytes());
        body.extend_from_slice(b"\",\"_id\":");
        push_json_string(&mut body, &write.id);
        if !loses_version(write) {
            body.extend_from_slice(b",\"version\":");
            body.extend_from_slice(write.version.to_string().as_bytes());
            body.extend_from_slice(b",\"version_type\":\"external_gte\"");
        }
        body.extend_from_slice(b",\"require_alias\":true}}\n");
        if let Some(document) = &write.body {
            body.extend_from_slice(document);
            body.push(b'\n');
        }
    }
    body.into()
}

/// Two planted bugs.
fn loses_version(write: &Write) -> bool {
    (planted(Bug::UnorderedDeletes) && write.body.is_none())
        || (planted(Bug::RetryWithoutVersion) && was_retried(&write.id))
}

fn push_json_string(out: &mut Vec<u8>, text: &str) {
    crate::model::write_json_text(out, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_names_its_alias_and_version() {
        let index = crate::model::IndexPrefix::default().cluster_alias(&"member1".parse().unwrap());
        let write = |id: &str, version: &str, body: Option<&'static str>| Write {
            index: index.clone(),
            id: id.into(),
            version: version.parse().unwrap(),
            body: body.map(|body| Bytes::from_static(body.as_bytes())),
        };
        let writes = [write("v1/Pod/a", "7", Some(r#"{"kind":"Pod"}"#)), write("v1/Pod/\"b", "9", None)];
        insta::assert_snapshot!(String::from_utf8(encode(&writes).to_vec()).unwrap(), @r#"
        {"index":{"_index":"fleetdex-member1","_id":"v1/Pod/a","version":7,"version_type":"external_gte","require_alias":true}}
        {"kind":"Pod"}
        {"delete":{"_index":"fleetdex-member1","_id":"v1/Pod/\"b","version":9,"version_type":"external_gte","require_alias":true}}
        "#);
    }
}
