//! Writes the status of `Cluster` objects, only on control planes without Karmada, where Fleetdex
//! owns the kind.

use std::collections::BTreeMap;

use fleetdex_crds::cluster::{ApiEnablement, ApiResource, Cluster, ClusterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{connection_state::ConnectionPhase, discovery::Discovery, shared::MemberState};

/// Field manager of server-side apply.
const FIELD_MANAGER: &str = "fleetdex";
/// The condition type that reports whether the member answers.
const READY: &str = "Ready";
/// Longest condition message, in characters, that Kubernetes allows.
const MAX_MESSAGE: usize = 32_768;

/// Returns the status for `state`. `current` is the status of the object: a condition whose status
/// does not change keeps its transition time. Fields that Fleetdex does not manage stay empty, so
/// that server-side apply leaves them to their owners.
pub fn status(state: &MemberState, current: Option<&ClusterStatus>) -> ClusterStatus {
    let conditions = current
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let before = conditions.iter().find(|condition| condition.type_ == READY);
    ClusterStatus {
        kubernetes_version: state.kubernetes_version.clone(),
        api_enablements: state.discovery.as_deref().map(enablements),
        conditions: Some(vec![ready(state, before)]),
        ..ClusterStatus::default()
    }
}

/// Writes the status of `cluster` by server-side apply, unless it is up to date. Returns whether it
/// wrote.
pub async fn write(
    api: &Api<Cluster>,
    cluster: &Cluster,
    state: &MemberState,
) -> Result<bool, kube::Error> {
    let desired = status(state, cluster.status.as_ref());
    if cluster
        .status
        .as_ref()
        .is_some_and(|current| contains(current, &desired))
    {
        return Ok(false);
    }
    let patch = json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "status": desired });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api.patch_status(&cluster.name_any(), &parameters, &Patch::Apply(&patch))
        .await?;
    Ok(true)
}

/// Whether `current` contains `desired`; other owners may have added to it.
fn contains(current: &ClusterStatus, desired: &ClusterStatus) -> bool {
    let conditions = current.conditions.as_deref().unwrap_or_default();
    let mut desired_conditions = desired.conditions.iter().flatten();
    current.kubernetes_version == desired.kubernetes_version
        && current.api_enablements == desired.api_enablements
        && desired_conditions.all(|condition| conditions.contains(condition))
}

fn ready(state: &MemberState, before: Option<&Condition>) -> Condition {
    let status = match state.phase {
        ConnectionPhase::Ready => "True",
        ConnectionPhase::Connecting | ConnectionPhase::Unhealthy => "Unknown",
        ConnectionPhase::Disconnected => "False",
    };
    let left_out = state
        .discovery
        .as_ref()
        .and_then(|discovery| discovery.note());
    let notes = state.note.as_deref().into_iter().chain(left_out.as_deref());
    let message = notes.fold(state.message.clone(), |message, note| {
        format!("{message}; {note}")
    });
    // The API server stores whole seconds; a finer time would always differ from the stored one.
    let since = jiff::Timestamp::from_second(state.since.as_second()).unwrap_or(state.since);
    let unchanged = before.filter(|condition| condition.status == status);
    Condition {
        type_: READY.to_owned(),
        status: status.to_owned(),
        reason: state.reason.to_owned(),
        message: message.chars().take(MAX_MESSAGE).collect(),
        observed_generation: state.member.generation,
        last_transition_time: unchanged.map_or(Time(since), |condition| {
            condition.last_transition_time.clone()
        }),
    }
}

/// The served resources by group version, in the order in which discovery first names the group
/// versions.
fn enablements(discovery: &Discovery) -> Vec<ApiEnablement> {
    let mut enablements: Vec<ApiEnablement> = Vec::new();
    let mut positions: BTreeMap<String, usize> = BTreeMap::new();
    for served in &discovery.served {
        let resource = ApiResource {
            name: served.resource.plural.to_string(),
            kind: served.resource.gvk.kind.to_string(),
        };
        let group_version = served.group_version();
        let known = positions
            .get(&group_version)
            .and_then(|position| enablements.get_mut(*position));
        if let Some(enablement) = known {
            enablement.resources.get_or_insert_default().push(resource);
            continue;
        }
        positions.insert(group_version.clone(), enablements.len());
        enablements.push(ApiEnablement {
            group_version,
            resources: Some(vec![resource]),
        });
    }
    enablements
}

#[cfg(test)]
mod tests;
