use std::sync::Arc;

use fleetdex_core::model::{Gvk, Resource};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::Value;
use tower::{BoxError, service_fn};

use super::*;
use crate::{discovery::ServedResource, member::Member};

fn served(group: &str, version: &str, kind: &str, plural: &str) -> ServedResource {
    ServedResource {
        resource: Resource {
            gvk: Gvk::new(group, version, kind),
            plural: plural.into(),
            namespaced: true,
        },
        singular: kind.to_lowercase().into(),
        short_names: vec![],
        list_and_watch: true,
        preferred: true,
        capabilities: Arc::default(),
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
        phase: ConnectionPhase::Ready,
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
fn the_status_has_version_kinds_and_readiness() {
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
    now.phase = ConnectionPhase::Disconnected;
    assert_eq!(time(&status(&now, Some(&shown))), "2026-05-05T05:05:05Z");
}

#[test]
fn phases_map_to_the_three_values_of_a_condition() {
    let expected = [
        (ConnectionPhase::Connecting, "Unknown"),
        (ConnectionPhase::Ready, "True"),
        (ConnectionPhase::Unhealthy, "Unknown"),
        (ConnectionPhase::Disconnected, "False"),
    ];
    for (phase, text) in expected {
        let written = status(&MemberState { phase, ..state() }, None);
        assert_eq!(written.conditions.unwrap()[0].status, text);
    }
}

/// URI and body of every write.
type Written = Arc<Mutex<Vec<(String, Value)>>>;

/// A control plane that records writes.
fn control_plane() -> (Api<Cluster>, Written) {
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
async fn a_status_is_written_only_when_it_differs() {
    let (api, written) = control_plane();
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
