//! Which version of an object a version of the fleet stands for.
//!
//! A client that was told an object may send back nothing of it but the fleet's version: an optimistic lock of a merge patch, a
//! precondition of a deletion. If nothing has happened to the object since, according to the log of changes, the object of the index is the
//! one that the client has seen. Otherwise nobody knows, and the client has to look again, as after any other conflict.

use std::sync::Arc;

use fleetdex_core::query::{Hit, Query};
use fleetdex_store::changes::Log;
use futures::FutureExt;
use serde::Deserialize;

/// The version that an object had in its member when a client was told `version` with it, if that is certain. `query` selects the object and
/// nothing else; `hit` is what the index held of it before the log is asked.
pub async fn own(log: &Arc<Log>, query: &Query, hit: &Hit, version: &str) -> Option<String> {
    let number = log.sequence().number(version.parse().ok()?)?;
    // What the index shows already, the log tells once it is settled.
    let mut since = log.watch_settled(query, number).await.ok()?;
    let newest = log.newest();
    // Whoever has looked at everything waits for more.
    let nothing_has_happened = since.next().now_or_never().is_none() && since.sequence() >= newest;
    nothing_has_happened
        .then(|| resource_version(hit))
        .flatten()
}

fn resource_version(hit: &Hit) -> Option<String> {
    #[derive(Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        resource_version: Option<String>,
    }
    serde_json::from_str::<Object>(hit.object.get())
        .ok()?
        .metadata
        .resource_version
}
