//! The status of `Cluster` objects, written where Fleetdex owns the kind: only where Karmada is absent.

use std::collections::BTreeMap;

use fleetdex_api::cluster::{ApiEnablement, ApiResource, Cluster, ClusterStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{discovery::Discovery, shared::MemberState, state::Phase};

/// Owner of the fields that this module writes.
const FIELD_MANAGER: &str = "fleetdex";
/// The condition that says whether the member answers.
const READY: &str = "Ready";
/// Longest message of a condition, as Kubernetes allows it.
const MAX_MESSAGE: usize = 32_768;

/// The status that `state` calls for. `shown` is what the object says now: a condition that stays keeps its time.
/// Fields that Fleetdex does not know stay empty, and so they stay whoever's they are.
pub fn status(state: &MemberState, shown: Option<&ClusterStatus>) -> ClusterStatus {
    let conditions = shown
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

/// Writes the status of `cluster` by server-side apply, unless it says the same already. Tells whether it wrote.
pub async fn write(
    api: &Api<Cluster>,
    cluster: &Cluster,
    state: &MemberState,
) -> Result<bool, kube::Error> {
    let wanted = status(state, cluster.status.as_ref());
    if cluster
        .status
        .as_ref()
        .is_some_and(|shown| says(shown, &wanted))
    {
        return Ok(false);
    }
    let patch =
        json!({ "apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "status": wanted });
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    api.patch_status(&cluster.name_any(), &parameters, &Patch::Apply(&patch))
        .await?;
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
    let left_out = state
        .discovery
        .as_ref()
        .and_then(|discovery| discovery.note());
    let notes = state.note.as_deref().into_iter().chain(left_out.as_deref());
    let message = notes.fold(state.message.clone(), |message, note| {
        format!("{message}; {note}")
    });
    // The API server keeps whole seconds; a finer time would differ from what is read back, for ever.
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

/// In the order in which discovery names the group versions first.
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
mod tests {
    use std::sync::Arc;

    use fleetdex_core::model::{Gvk, Resource};
    use http::{Request, Response};
    use http_body_util::BodyExt;
    use kube::{Client, client::Body};
    use parking_lot::Mutex;
    use serde_json::Value;
    use tower::{BoxError, service_fn};

    use super::*;
    use crate::{discovery::Served, member::Member};

    fn served(group: &str, version: &str, kind: &str, plural: &str) -> Served {
        Served {
            resource: Resource {
                gvk: Gvk::new(group, version, kind),
                plural: plural.into(),
                namespaced: true,
            },
            singular: kind.to_lowercase().into(),
            short_names: vec![],
            list_and_watch: true,
            preferred: true,
            offers: Arc::default(),
        }
    }

    fn cluster() -> Cluster {
        serde_json::from_value(
            json!({ "metadata": { "name": "a", "uid": "u", "generation": 3 }, "spec": {} }),
        )
        .unwrap()
    }

    fn state() -> MemberState {
        let served = vec![
            served("", "v1", "Pod", "pods"),
            served("apps", "v1", "Deployment", "deployments"),
            served("", "v1", "Secret", "secrets"),
        ];
        MemberState {
            member: Arc::new(Member::try_from(&cluster()).unwrap()),
            phase: Phase::Ready,
            reason: "Ready",
            message: "the member answers".into(),
            since: "2026-01-02T03:04:05.678Z".parse().unwrap(),
            connection: None,
            discovery: Some(Arc::new(Discovery {
                served,
                ..Discovery::default()
            })),
            definitions: None,
            kubernetes_version: Some("v1.36.3".into()),
            note: None,
        }
    }

    #[test]
    fn the_status_tells_version_kinds_and_readiness() {
        let written = serde_json::to_value(status(&state(), None)).unwrap();
        assert_eq!(
            written,
            json!({
                "kubernetesVersion": "v1.36.3",
                "apiEnablements": [
                    { "groupVersion": "v1", "resources": [{ "name": "pods", "kind": "Pod" }, { "name": "secrets", "kind": "Secret" }] },
                    { "groupVersion": "apps/v1", "resources": [{ "name": "deployments", "kind": "Deployment" }] }
                ],
                "conditions": [{ "type": "Ready", "status": "True", "reason": "Ready", "message": "the member answers",
                                 "observedGeneration": 3, "lastTransitionTime": "2026-01-02T03:04:05Z" }]
            })
        );
    }

    #[test]
    fn a_condition_keeps_its_time_until_its_status_changes() {
        let mut now = state();
        let shown = status(&now, None);
        now.since = "2026-05-05T05:05:05Z".parse().unwrap();
        now.message = "still".into();
        let time = |of: &ClusterStatus| {
            of.conditions.as_ref().unwrap()[0]
                .last_transition_time
                .0
                .to_string()
        };
        assert_eq!(time(&status(&now, Some(&shown))), "2026-01-02T03:04:05Z");
        now.phase = Phase::Disconnected;
        assert_eq!(time(&status(&now, Some(&shown))), "2026-05-05T05:05:05Z");
    }

    #[test]
    fn phases_become_the_three_values_of_a_condition() {
        let expected = [
            (Phase::Connecting, "Unknown"),
            (Phase::Ready, "True"),
            (Phase::Unhealthy, "Unknown"),
            (Phase::Disconnected, "False"),
        ];
        for (phase, text) in expected {
            let written = status(&MemberState { phase, ..state() }, None);
            assert_eq!(written.conditions.unwrap()[0].status, text);
        }
    }

    /// URI and body of every write.
    type Written = Arc<Mutex<Vec<(String, Value)>>>;

    /// A control plane that notes what is written to it.
    fn hub() -> (Api<Cluster>, Written) {
        let written = Written::default();
        let notes = written.clone();
        let service = service_fn(move |request: Request<Body>| {
            let notes = notes.clone();
            async move {
                let uri = request.uri().to_string();
                let body = request.into_body().collect().await?.to_bytes();
                notes.lock().push((uri, serde_json::from_slice(&body)?));
                Ok::<_, BoxError>(Response::new(Body::from(serde_json::to_vec(&cluster())?)))
            }
        });
        (Api::all(Client::new(service, "default")), written)
    }

    #[tokio::test]
    async fn only_a_different_status_is_written() {
        let (api, written) = hub();
        assert!(write(&api, &cluster(), &state()).await.unwrap());
        let (uri, body) = written.lock().pop().unwrap();
        assert!(
            uri.starts_with("/apis/cluster.karmada.io/v1alpha1/clusters/a/status?"),
            "{uri}"
        );
        assert!(
            uri.contains("fieldManager=fleetdex") && uri.contains("force=true"),
            "{uri}"
        );
        assert_eq!(body["status"]["conditions"][0]["status"], "True");

        let shown: ClusterStatus = serde_json::from_value(body["status"].clone()).unwrap();
        let mut others = shown.clone();
        others.remedy_actions = Some(vec!["TrafficControl".into()]);
        let current = Cluster {
            status: Some(others),
            ..cluster()
        };
        assert!(!write(&api, &current, &state()).await.unwrap());
        assert!(
            write(
                &api,
                &current,
                &MemberState {
                    message: "other".into(),
                    ..state()
                }
            )
            .await
            .unwrap()
        );
    }
}
