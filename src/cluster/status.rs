//! The status of `Cluster` objects, written where Fleetdex owns the kind: only where Karmada is absent.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{discovery::Discovery, state::Phase, supervisor::MemberState};
use crate::api::cluster::{ApiEnablement, ApiResource, Cluster, ClusterStatus};

/// Owner of the fields that this module writes.
const FIELD_MANAGER: &str = "fleetdex";
/// The condition that says whether the member answers.
const READY: &str = "Ready";
/// Longest message of a condition, as Kubernetes allows it.
const MAX_MESSAGE: usize = 32_768;

/// The status that `state` calls for. `shown` is what the object says now: a condition that stays keeps its time.
/// Fields that Fleetdex does not know stay empty, and so they stay whoever's they are.
pub fn status(state: &MemberState, shown: Option<&ClusterStatus>) -> ClusterStatus {
    let conditions = shown.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let before = conditions.iter().find(|condition| condition.type_ == READY);
    ClusterStatus {
        kubernetes_version: state.kubernetes_version.clone(),
        api_enablements: state.discovery.as_deref().map(enablements),
        conditions: Some(vec![ready(state, before)]),
        ..ClusterStatus::default()
    }
}

/// Writes the status of `cluster` by server-side apply, unless it says the same already. Tells whether it wrote.
pub async fn write(api: &Api<Cluster>, cluster: &Cluster, state: &MemberState) -> Result<bool, kube::Error> {
    let wanted = status(state, cluster.status.as_ref());
    if cluster.status.as_ref().is_some_and(|shown| says(shown, &wanted)) {
        return Ok(false);
    }
    let patch = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "status": wanted });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api.patch_status(&cluster.name_any(), &parameters, &Patch::Apply(&patch)).await?;
    Ok(true)
}

/// Whether `shown` has all that `wanted` has; others may have added to it.
fn says(shown: &ClusterStatus, wanted: &ClusterStatus) -> bool {
    let conditions = shown.conditions.as_deref().unwrap_or_default();
    let mut wanted_conditions = wanted.conditions.iter().flatten();
    shown.kubernetes_version == wanted.kubernetes_version
        && shown.api_enablements == wanted.api_enablements
        && wanted_conditions.all(|condition| conditions.contains(condition))
}

fn ready(state: &MemberState, before: Option<&Condition>) -> Condition {
    let status = match state.phase {
        Phase::Ready => "True",
        Phase::Connecting | Phase::Unhealthy => "Unknown",
        Phase::Disconnected => "False",
    };
    let message = match state.note {
        Some(note) => format!("{}; {note}", state.message),
        None => state.message.clone(),
    };
    // The API server keeps whole seconds; a finer time would differ from what is read back, for ever.
    let since = jiff::Timestamp::from_second(state.since.as_second()).unwrap_or(state.since);
    let unchanged = before.filter(|condition| condition.status == status);
    Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: state.reason.to_owned(),
        message: message.chars().take(MAX_MESSAGE).collect(),
        observed_generation: state.member.generation,
        last_transition_time: unchanged.map_or(Time(since), |condition| condition.last_transition_time.clone()),
    }
}

fn enablements(discovery: &Discovery) -> Vec<ApiEnablement> {
    let mut enablements: Vec<ApiEnablement> = Vec::new();
    for served in &discovery.served {
        let resource =
            ApiResource { name: served.resource.plural.to_string(), kind: served.resource.gvk.kind.to_string() };
        let group_version = served.group_version();
        match enablements.iter_mut().find(|enablement| enablement.group_version == group_version) {
            Some(enablement) => enablement.resources.get_or_insert_default().push(resource),
            None => enablements.push(ApiEnablement { group_version, resources: Some(vec![resource]) }),
        }
    }
    enablements
}
