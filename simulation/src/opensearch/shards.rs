//! Shards that fail: what is said of them.

use serde_json::{Value, json};

use super::{answer::Refusal, index::View};

/// What is said when every shard fails for the same reason.
pub(super) fn all_shards_failed(phase: &str, views: &[View], cause: &Refusal) -> Refusal {
    shards_failed(phase, views.iter().map(|view| view.index.as_str()), cause)
}

/// The same, by names of indices.
pub(super) fn shards_failed<'v>(
    phase: &str,
    indices: impl Iterator<Item = &'v str>,
    cause: &Refusal,
) -> Refusal {
    let mut shards = Vec::new();
    let mut roots = Vec::new();
    for index in indices {
        shards.push(failed_shard(index, cause));
        roots.push(root(cause));
    }
    let refusal = Refusal::new(
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
        refusal.caused_by(&cause.clone().caused_by(cause))
    } else {
        refusal
    }
}

fn root(cause: &Refusal) -> Value {
    let mut error = cause.error();
    if let Some(members) = error.as_object_mut() {
        members.remove("caused_by");
    }
    error
}

/// One shard of an index that failed.
pub(super) fn failed_shard(index: &str, cause: &Refusal) -> Value {
    json!({ "shard": 0, "index": index, "node": "simulation", "reason": cause.error() })
}

/// 503: the shard's node is not there.
pub(super) fn no_shard() -> Refusal {
    Refusal::new(
        503,
        "no_shard_available_action_exception",
        "No shard available",
    )
}
