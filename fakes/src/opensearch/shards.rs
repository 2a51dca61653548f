//! Exceptions and response members for failed shards.

use serde_json::{Value, json};

use super::{index::View, response::Exception};

/// The exception if every shard fails for the same reason.
pub(super) fn all_shards_failed(phase: &str, views: &[View], cause: &Exception) -> Exception {
    shards_failed(phase, views.iter().map(|view| view.index.as_str()), cause)
}

/// The exception if every shard of these indices fails for the same reason.
pub(super) fn shards_failed<'v>(
    phase: &str,
    indices: impl Iterator<Item = &'v str>,
    cause: &Exception,
) -> Exception {
    let mut shards = Vec::new();
    let mut roots = Vec::new();
    for index in indices {
        shards.push(failed_shard(index, cause));
        roots.push(root(cause));
    }
    let exception = Exception::new(
        cause.status,
        "search_phase_execution_exception",
        "all shards failed",
    )
    .with("phase", phase)
    .with("grouped", true)
    .with("failed_shards", shards)
    .with_root_causes(roots);
    let is_own_fault = cause.error()["type"] == "illegal_argument_exception" || cause.status == 429;
    if is_own_fault {
        exception.caused_by(&cause.clone().caused_by(cause))
    } else {
        exception
    }
}

fn root(cause: &Exception) -> Value {
    let mut error = cause.error();
    if let Some(members) = error.as_object_mut() {
        members.remove("caused_by");
    }
    error
}

/// Returns the response member for a failed shard of an index.
pub(super) fn failed_shard(index: &str, cause: &Exception) -> Value {
    json!({ "shard": 0, "index": index, "node": "simulation", "reason": cause.error() })
}

/// 503: the node of the shard is missing.
pub(super) fn no_shard() -> Exception {
    Exception::new(
        503,
        "no_shard_available_action_exception",
        "No shard available",
    )
}
