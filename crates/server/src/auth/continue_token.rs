//! Continue tokens: where the next page of a list starts, bound to its query and caller.
//!
//! Guarantees: a token is encrypted and authenticated with a key that only the replicas of this
//! installation have ([`SealingKeys`]), so that clients cannot forge or change it, and it reveals
//! nothing of its content (names of indices and clusters, numbers of objects). It continues one
//! query of one caller with one permission ([`TokenBinding`]), in the stores that it names, for
//! [`LIFETIME`].
//!
//! A token contains everything that the next page needs, so that any replica can serve it.
//! OpenSearch's id of a point in time has 172 characters for each shard, most of them equal:
//! decoded, deflated and encoded in base64 once, they are 39.

pub mod key_rotation;
mod keys;
mod validity;

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
};

use base64::{
    Engine as _,
    engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD},
};
use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use fleetdex_core::{
    model::{ClusterName, FleetVersion, Namespace, StoreName},
    planted::{Bug, planted},
    query::{Cursor, Permitted},
};
use fleetdex_query_api::{
    question::{ListRequest, StoreKind},
    search_options::Seniority,
};
pub use keys::{KeyRing, SealingKey, SealingKeys};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};
pub use validity::{LIFETIME, TokenError};

use super::caller::Caller;

/// Bytes of a token: those of 1,400 shards. The rest of a request's line and headers is for its
/// other parameters.
pub const MAX_BYTES: usize = 56 * 1024;
/// Bytes of a token's inflated content: the ids of 8,000 shards.
const MAX_CONTENT_BYTES: u64 = 1024 * 1024;

/// A token cannot be issued, because the random numbers or the cipher of this machine fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot seal a continue token")]
pub struct SealError;

/// Where the next page of a list starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The version of the first page, and so of all pages; `None` if each page has its own.
    pub version: Option<FleetVersion>,
    /// The cursor of each store that has more objects.
    pub cursors: BTreeMap<StoreName, Cursor>,
}

/// What a token is bound to.
#[derive(Clone, Copy, Debug)]
pub struct TokenBinding<'b> {
    /// The caller, by name and UID. Groups and extras are bound by what they permit.
    pub caller: &'b Caller,
    /// The query, without its limit and token.
    pub request: &'b ListRequest,
    /// What of the objects the caller can see.
    pub permitted: &'b Permitted,
}

#[derive(Serialize, Deserialize)]
struct TokenPayload {
    /// Seconds since 1970.
    made: i64,
    caller: String,
    question: String,
    permitted: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    stores: BTreeMap<StoreName, StoredCursor>,
}

#[derive(Serialize, Deserialize)]
struct StoredCursor {
    #[serde(flatten)]
    cursor: Cursor,
    /// The number of bytes after the line of JSON that are the cursor's snapshot, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    packed: Option<usize>,
}

impl TokenPayload {
    /// One line of JSON, then the decoded snapshots that were base64.
    fn encode(binding: &TokenBinding<'_>, continuation: &Continuation, now: i64) -> Vec<u8> {
        let mut snapshots = Vec::new();
        let mut stores = BTreeMap::new();
        for (name, cursor) in &continuation.cursors {
            let bytes = bytes_of(&cursor.snapshot);
            let packed = bytes.as_ref().map(Vec::len);
            let mut cursor = cursor.clone();
            if let Some(bytes) = bytes {
                cursor.snapshot.clear();
                snapshots.extend(bytes);
            }
            stores.insert(name.clone(), StoredCursor { cursor, packed });
        }
        let content = Self {
            made: now,
            caller: caller_hash(binding.caller),
            question: query_hash(binding.request),
            permitted: hash(&binding.permitted.canonical()),
            version: continuation.version.map(|version| version.to_string()),
            stores,
        };
        let mut bytes = json!(content).to_string().into_bytes();
        bytes.push(b'\n');
        bytes.extend(snapshots);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<(Self, Continuation)> {
        let end = memchr::memchr(b'\n', bytes)?;
        let mut content: Self = serde_json::from_slice(&bytes[..end]).ok()?;
        let mut snapshots = &bytes[end + 1..];
        let mut cursors = BTreeMap::new();
        for (name, place) in std::mem::take(&mut content.stores) {
            let mut cursor = place.cursor;
            if let Some(length) = place.packed {
                let (snapshot, rest) = snapshots.split_at_checked(length)?;
                (cursor.snapshot, snapshots) = (URL_SAFE.encode(snapshot), rest);
            }
            cursors.insert(name, cursor);
        }
        let version = content.version.as_deref().map(str::parse).transpose();
        let continuation = Continuation {
            version: version.ok()?,
            cursors,
        };
        Some((content, continuation))
    }
}

/// Issues the token that continues a query. `now` is in seconds since 1970.
pub fn seal(
    keys: &SealingKeys,
    continuation: &Continuation,
    binding: &TokenBinding<'_>,
    now: i64,
) -> Result<String, SealError> {
    let content = deflated(&TokenPayload::encode(binding, continuation, now));
    let sealed = keys.seal(content, now).ok_or(SealError)?;
    Ok(URL_SAFE_NO_PAD.encode(sealed))
}

/// Verifies a token and returns where it continues. `now` is in seconds since 1970.
pub fn open(
    keys: &SealingKeys,
    text: &str,
    binding: &TokenBinding<'_>,
    now: i64,
) -> Result<Continuation, TokenError> {
    if text.len() > MAX_BYTES {
        return Err(TokenError::Malformed);
    }
    let sealed = URL_SAFE_NO_PAD.decode(text);
    let sealed = sealed.map_err(|_| TokenError::Malformed)?;
    let opened = keys.open(&sealed)?;
    let content = inflated(&opened).as_deref().and_then(TokenPayload::decode);
    let (content, continuation) = content.ok_or(TokenError::Malformed)?;
    if now.saturating_sub(content.made) > LIFETIME.as_secs().cast_signed() {
        return Err(TokenError::Expired);
    }
    if content.caller != caller_hash(binding.caller) && !planted(Bug::TakeTokenOfAnother) {
        return Err(TokenError::OtherCaller);
    }
    if content.question != query_hash(binding.request) && !planted(Bug::TakeTokenForAnotherQuestion)
    {
        return Err(TokenError::OtherQuery);
    }
    if content.permitted != hash(&binding.permitted.canonical()) {
        return Err(TokenError::OtherPermission);
    }
    Ok(continuation)
}

/// The decoded bytes of a snapshot's id, if it is base64 and nothing else.
fn bytes_of(snapshot: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE.decode(snapshot).ok()?;
    (URL_SAFE.encode(&bytes) == snapshot).then_some(bytes)
}

fn deflated(content: &[u8]) -> Vec<u8> {
    let mut deflater = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing into memory cannot fail; an empty token would be malformed.
    deflater
        .write_all(content)
        .and_then(|()| deflater.finish())
        .unwrap_or_default()
}

fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    let mut bounded = ZlibDecoder::new(bytes).take(MAX_CONTENT_BYTES + 1);
    bounded.read_to_end(&mut content).ok()?;
    (content.len() as u64 <= MAX_CONTENT_BYTES).then_some(content)
}

/// A hash that is equal for the same user.
fn caller_hash(caller: &Caller) -> String {
    hash(&json!([caller.name, caller.uid]).to_string())
}

/// A hash that is equal for requests for the same objects in the same order.
fn query_hash(request: &ListRequest) -> String {
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.dedup();
        names.join(" ")
    };
    let (resource_path, options) = (&request.resource, &request.options);
    let order = options.order_by.iter();
    let order = order.map(|by| json!([by.field, by.descending]));
    let owner = &options.owner;
    let parts = json!([
        resource_path.group,
        resource_path.plural,
        sorted(request.clusters.iter().map(ClusterName::as_str).collect()),
        sorted(request.namespaces.iter().map(Namespace::as_str).collect()),
        sorted(request.names.iter().map(String::as_str).collect()),
        request.labels.to_string(),
        request.fields.to_string(),
        order.collect::<Vec<_>>(),
        options.since,
        options.before,
        sorted(owner.uids.iter().map(String::as_str).collect()),
        sorted(owner.names.iter().map(String::as_str).collect()),
        owner.resource,
        match owner.seniority {
            Seniority::Exactly(generations) => json!(generations),
            Seniority::Any => json!("any"),
        },
        request.store,
        request.store_kind.map(|kind| match kind {
            StoreKind::Embedded => "embedded",
            StoreKind::OpenSearch => "opensearch",
        }),
        request.search,
    ]);
    hash(&parts.to_string())
}

fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(text)[..16])
}

#[cfg(test)]
mod tests;
