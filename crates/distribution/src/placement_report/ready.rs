//! How many replicas of an object are ready, by what its status says in a cluster.

use fleetdex_core::model::split_api_version;
use fleetdex_interpreter::value::{integer, map};
use serde_json::Value;

use crate::template_name::TemplateName;

/// The counts of ready replicas, of which the first that is there counts. `ready` is that of a Job.
const READY: [&str; 4] = ["readyReplicas", "availableReplicas", "numberReady", "ready"];

/// The ready replicas; `None`: the status does not say it. API servers leave a count of zero out.
pub(super) fn ready_replicas(
    object: &TemplateName,
    status: &Value,
    has_replicas: bool,
) -> Option<i64> {
    let members = map(status, &[])?;
    let counted = READY.iter().find_map(|key| integer(status, &[key]));
    let counts_replicas = || {
        let (group, _) = split_api_version(&object.api_version);
        let is_built_in = matches!(group, "apps" | "batch");
        let names_replicas = |key: &String| key == "replicas" || key.ends_with("Replicas");
        is_built_in || members.keys().any(names_replicas)
    };
    let zero = || (has_replicas && counts_replicas()).then_some(0);
    counted.or_else(zero).map(|count| count.max(0))
}
