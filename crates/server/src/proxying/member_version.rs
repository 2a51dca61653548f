//! Resolves a resource version of the fleet to the member's resource version of an object.
//!
//! A client may send back nothing of an object but the fleet's resource version: an optimistic lock
//! of a merge patch, a precondition of a deletion. If the log of changes has no change of the
//! object since, the object of the index is the one that the client has read. Otherwise the version
//! is unknown, and the client has to read the object again, as after any other conflict.

use std::{slice, sync::Arc};

use fleetdex_core::query::{Hit, Query};
use fleetdex_store::changes::Log;
use futures::FutureExt;
use serde::Deserialize;

/// The member's resource version of an object that was read at the fleet's `version`, if that is
/// certain. `query` selects the object and nothing else; `hit` is the object in the index, read
/// before the log.
pub async fn resolve(log: &Arc<Log>, query: &Query, hit: &Hit, version: &str) -> Option<String> {
    let number = log.sequence().number(version.parse().ok()?)?;
    // The log has every change that the index shows, once all writes in flight are acknowledged.
    let mut since = log
        .watch_settled(slice::from_ref(query), number)
        .await
        .ok()?;
    let newest = log.newest();
    // A watch that has read the whole log is pending.
    let is_unchanged = since.next().now_or_never().is_none() && since.sequence() >= newest;
    is_unchanged
        .then(|| resource_version(hit.object.get()))
        .flatten()
}

/// The resource version of an object of a member.
pub fn resource_version(object: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct VersionedObject {
        metadata: ResourceVersion,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ResourceVersion {
        resource_version: Option<String>,
    }
    serde_json::from_str::<VersionedObject>(object)
        .ok()?
        .metadata
        .resource_version
}
