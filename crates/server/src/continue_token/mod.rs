//! Continue tokens: where the pages of a list go on, and for which question of which caller.
//!
//! Guarantees: a token is encrypted and authenticated with a key that only the replicas of this installation have ([`Keys`]), so that it
//! cannot be made or changed by a client and shows nothing of what it holds (names of indices, of clusters, how many objects there are). It
//! continues one question ([`Bound`]) of one caller with one permission, in the stores that it names, for [`LIFETIME`].
//!
//! A token holds everything that the next page needs, so that any replica can answer it. OpenSearch's name of a point in time has 172
//! characters for each shard that is searched, most of them alike: deflated as bytes and put into base64 once they are 39.

mod keys;
pub mod shared;

use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    time::Duration,
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
pub use keys::{Key, Keys, Ring};
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{caller::Caller, request::ListRequest};

/// How long a token counts after it was made: as long as the stores keep what the next page is read from.
pub const LIFETIME: Duration = Duration::from_mins(5);
/// Bytes of a token: those of 1,400 shards. The rest of a request's line and headers is left to its other parameters.
pub const MAX_BYTES: usize = 56 * 1024;
/// Bytes of a token's content, so that deflated ones stay within bounds when they are read: the names of 8,000 shards.
const MAX_CONTENT_BYTES: u64 = 1024 * 1024;

/// A continue token that cannot be continued with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No replica of this installation has made it. An HTTP server answers 400.
    #[error("the continue token is malformed; start the list again without it")]
    Malformed,
    /// Another user has got it. An HTTP server answers 400.
    #[error("the continue token was given to another user; start the list again without it")]
    OtherCaller,
    /// Resource, selectors, clusters, namespaces, names, owners, times, store or order differ from the first page's. An HTTP server answers
    /// 400.
    #[error(
        "the continue token belongs to another query; send the parameters of the first page with it, or start again without it"
    )]
    OtherQuery,
    /// The caller may see more or less than when the token was made. An HTTP server answers 410, upon which clients list again.
    #[error(
        "what you may see has changed since the first page; start the list again without the continue token"
    )]
    OtherPermission,
    /// It is older than [`LIFETIME`], or its key is not known here. An HTTP server answers 410, upon which clients list again.
    #[error("the continue token has expired; start the list again without it")]
    Expired,
}

/// A token could not be made, because the random numbers or the cipher of this machine failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot seal a continue token")]
pub struct SealError;

/// Where the next page of a list starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The version that the first page showed, as all further ones do.
    pub version: FleetVersion,
    /// Where it starts in each store that has more objects.
    pub cursors: BTreeMap<StoreName, Cursor>,
}

/// What a token is good for.
#[derive(Clone, Copy, Debug)]
pub struct Bound<'b> {
    /// Who asks: told apart by name and UID. Groups and extras count by what they permit.
    pub caller: &'b Caller,
    /// The question; its limit and the token in it do not count.
    pub request: &'b ListRequest,
    /// What of the objects the caller may see.
    pub permitted: &'b Permitted,
}

#[derive(Serialize, Deserialize)]
struct Content {
    /// Seconds since 1970.
    made: i64,
    caller: String,
    question: String,
    permitted: String,
    version: String,
    stores: BTreeMap<StoreName, Place>,
}

#[derive(Serialize, Deserialize)]
struct Place {
    #[serde(flatten)]
    cursor: Cursor,
    /// How many of the bytes after the line of JSON are the cursor's snapshot, if it is kept there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    packed: Option<usize>,
}

impl Content {
    /// The content as one line of JSON, and after it the snapshots that are nothing but bytes in base64.
    fn encode(bound: &Bound<'_>, continuation: &Continuation, now: i64) -> Vec<u8> {
        let mut snapshots = Vec::new();
        let mut stores = BTreeMap::new();
        for (name, cursor) in &continuation.cursors {
            let bytes = bytes_of(&cursor.snapshot);
            let snapshot = if bytes.is_some() {
                String::new()
            } else {
                cursor.snapshot.clone()
            };
            let packed = bytes.as_ref().map(Vec::len);
            snapshots.extend(bytes.into_iter().flatten());
            stores.insert(
                name.clone(),
                Place {
                    cursor: Cursor {
                        snapshot,
                        ..cursor.clone()
                    },
                    packed,
                },
            );
        }
        let content = Self {
            made: now,
            caller: caller(bound.caller),
            question: question(bound.request),
            permitted: hash(&bound.permitted.canonical()),
            version: continuation.version.to_string(),
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
        let continuation = Continuation {
            version: content.version.parse().ok()?,
            cursors,
        };
        Some((content, continuation))
    }
}

/// The token that continues a question. `now` is in seconds since 1970.
pub fn seal(
    keys: &Keys,
    continuation: &Continuation,
    bound: &Bound<'_>,
    now: i64,
) -> Result<String, SealError> {
    let content = deflated(&Content::encode(bound, continuation, now));
    keys.seal(content, now)
        .map(|sealed| URL_SAFE_NO_PAD.encode(sealed))
        .ok_or(SealError)
}

/// Where a token continues, if it is good for the question. `now` is in seconds since 1970.
pub fn open(
    keys: &Keys,
    text: &str,
    bound: &Bound<'_>,
    now: i64,
) -> Result<Continuation, TokenError> {
    if text.len() > MAX_BYTES {
        return Err(TokenError::Malformed);
    }
    let sealed = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| TokenError::Malformed)?;
    let opened = keys.open(&sealed)?;
    let content = inflated(&opened).as_deref().and_then(Content::decode);
    let (content, continuation) = content.ok_or(TokenError::Malformed)?;
    if now.saturating_sub(content.made) > LIFETIME.as_secs().cast_signed() {
        return Err(TokenError::Expired);
    }
    if content.caller != caller(bound.caller) && !planted(Bug::TakeTokenOfAnother) {
        return Err(TokenError::OtherCaller);
    }
    if content.question != question(bound.request) && !planted(Bug::TakeTokenForAnotherQuestion) {
        return Err(TokenError::OtherQuery);
    }
    if content.permitted != hash(&bound.permitted.canonical()) {
        return Err(TokenError::OtherPermission);
    }
    Ok(continuation)
}

/// What a snapshot's name stands for that is nothing but bytes in base64.
fn bytes_of(snapshot: &str) -> Option<Vec<u8>> {
    URL_SAFE
        .decode(snapshot)
        .ok()
        .filter(|bytes| URL_SAFE.encode(bytes) == snapshot)
}

fn deflated(content: &[u8]) -> Vec<u8> {
    let mut deflater = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing into memory cannot fail; a token of nothing would be malformed.
    deflater
        .write_all(content)
        .and_then(|()| deflater.finish())
        .unwrap_or_default()
}

fn inflated(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    ZlibDecoder::new(bytes)
        .take(MAX_CONTENT_BYTES + 1)
        .read_to_end(&mut content)
        .ok()?;
    (content.len() as u64 <= MAX_CONTENT_BYTES).then_some(content)
}

/// The same for the same user.
fn caller(caller: &Caller) -> String {
    hash(&json!([caller.name, caller.uid]).to_string())
}

/// The same for requests that ask for the same in the same order.
fn question(request: &ListRequest) -> String {
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.dedup();
        names.join(" ")
    };
    let (native, options) = (&request.native, &request.options);
    let order = options
        .order_by
        .iter()
        .map(|by| json!([by.field, by.descending]));
    let owner = &options.owner;
    let parts = json!([
        native.group,
        native.plural,
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
        format!("{:?}", owner.seniority),
        request.store,
        request.engine.map(|engine| format!("{engine:?}")),
    ]);
    hash(&parts.to_string())
}

fn hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(text)[..16])
}

#[cfg(test)]
mod tests;
