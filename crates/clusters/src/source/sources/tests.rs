//! Every source over a control plane that is a mock service.

use std::{collections::BTreeMap, time::Duration};

use http::{Request, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;
use crate::member::{Member, MemberAccess};

/// The responses of the control plane, by path. Other paths are 404; watches send no events.
#[derive(Clone, Default)]
struct FakeControlPlane {
    answers: Arc<Mutex<BTreeMap<String, (u16, Value)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl FakeControlPlane {
    fn set(&self, path: &str, code: u16, body: Value) {
        self.answers.lock().insert(path.to_owned(), (code, body));
    }

    fn list(&self, path: &str, items: &Value) {
        self.set(
            path,
            200,
            json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "7" }, "items": items }),
        );
    }

    fn client(&self) -> Client {
        let control_plane = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let control_plane = control_plane.clone();
            async move {
                let (path, query) = (
                    request.uri().path().to_owned(),
                    request.uri().query().unwrap_or_default().to_owned(),
                );
                if query.contains("watch=true") {
                    std::future::pending::<()>().await;
                }
                control_plane.asked.lock().push(format!("{path}?{query}"));
                let found = control_plane.answers.lock().get(&path).cloned();
                let (code, body) = found.unwrap_or((404, failure(404)));
                let mut answer = Response::new(Body::from(serde_json::to_vec(&body)?));
                *answer.status_mut() = StatusCode::from_u16(code)?;
                Ok::<_, BoxError>(answer)
            }
        });
        Client::new(service, "fleet")
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

fn failure(code: u16) -> Value {
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "Planted", "message": "planted" })
}

fn args(kinds: &[SourceKind]) -> SourceArgs {
    SourceArgs {
        cluster_source: kinds.to_vec(),
        cluster_namespace: Vec::new(),
        cluster_api_watch_filter: None,
        kubeconfig_clusters: None,
        cluster_context: Vec::new(),
        allow_same_cluster: false,
    }
}

struct Running {
    sources: Sources,
    readiness: Readiness,
    _tasks: JoinSet<()>,
}

fn start(control_plane: &FakeControlPlane, args: SourceArgs) -> Running {
    let (readiness, mut tasks) = (Readiness::new(), JoinSet::new());
    let sources = Sources::new(
        control_plane.client(),
        args,
        Arc::new(Metrics::new()),
        readiness.clone(),
        Arc::default(),
    );
    sources.start(&mut tasks);
    Running {
        sources,
        readiness,
        _tasks: tasks,
    }
}

impl Running {
    /// Waits for a matching snapshot, for at most a minute of paused time.
    async fn until(&self, wanted: impl Fn(&MemberSnapshot) -> bool) -> MemberSnapshot {
        for _ in 0..600 {
            let snapshot = self.sources.snapshot();
            if wanted(&snapshot) {
                return snapshot;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{:?}\n{}", self.sources.snapshot(), self.readiness.report());
    }

    async fn until_read(&self) -> MemberSnapshot {
        self.until(|snapshot| snapshot.unread_sources.is_empty())
            .await
    }
}

fn member<'s>(snapshot: &'s MemberSnapshot, name: &str) -> &'s Member {
    snapshot
        .members
        .iter()
        .find(|member| member.name.as_str() == name)
        .unwrap()
}

const KARMADA: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const GROUP: &str = "/apis/cluster.x-k8s.io";

fn group(versions: &[&str]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({ "groupVersion": format!("cluster.x-k8s.io/{version}"), "version": version }))
        .collect();
    json!({ "kind": "APIGroup", "apiVersion": "v1", "name": "cluster.x-k8s.io", "versions": versions })
}

fn capi(name: &str, status: &Value) -> Value {
    json!({ "metadata": { "name": name, "namespace": "team", "uid": format!("uid-{name}"), "labels": { "tier": "gold" } },
            "spec": { "paused": true }, "status": status })
}

#[tokio::test(start_paused = true)]
async fn clusters_of_karmada_are_members_until_they_are_being_deleted() {
    let control_plane = FakeControlPlane::default();
    control_plane.list(
        KARMADA,
        &json!([
            { "metadata": { "name": "a", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z" }, "spec": {} },
            { "metadata": { "name": "b", "uid": "v", "deletionTimestamp": "2026-01-01T00:00:00Z" }, "spec": {} },
        ]),
    );
    let snapshot = start(&control_plane, args(&[SourceKind::Karmada]))
        .until_read()
        .await;
    assert_eq!(
        (snapshot.members.len(), snapshot.cluster_objects.len()),
        (1, 1)
    );
    assert_eq!(member(&snapshot, "a").origin, "Cluster a");
    assert!(member(&snapshot, "a").created.is_some());
}

#[tokio::test(start_paused = true)]
async fn cluster_api_is_read_in_the_preferred_version_and_waits_for_infrastructure() {
    for (versions, path_version, ready) in [
        (
            vec!["v1beta2", "v1beta1"],
            "v1beta2",
            json!({ "initialization": { "infrastructureProvisioned": true } }),
        ),
        (
            vec!["v1alpha4", "v1beta1"],
            "v1beta1",
            json!({ "infrastructureReady": true }),
        ),
    ] {
        let control_plane = FakeControlPlane::default();
        control_plane.set(GROUP, 200, group(&versions));
        control_plane.list(
            &format!("{GROUP}/{path_version}/clusters"),
            &json!([capi("ready", &ready), capi("new", &json!({}))]),
        );
        let snapshot = start(&control_plane, args(&[SourceKind::ClusterApi]))
            .until_read()
            .await;
        let connected = member(&snapshot, "team/ready");
        let secret = connected.access.secrets().next().unwrap();
        assert_eq!(
            (secret.namespace.as_str(), secret.name.as_str()),
            ("team", "ready-kubeconfig")
        );
        assert_eq!(connected.labels["tier"], "gold");
        let awaited = &member(&snapshot, "team/new").access;
        assert!(
            matches!(
                awaited,
                MemberAccess::Awaited {
                    reason: "WaitingForInfrastructure",
                    ..
                }
            ),
            "{awaited:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn cluster_api_is_restricted_by_namespaces_and_the_watch_filter() {
    let control_plane = FakeControlPlane::default();
    control_plane.set(GROUP, 200, group(&["v1beta2"]));
    for namespace in ["one", "two"] {
        control_plane.list(
            &format!("{GROUP}/v1beta2/namespaces/{namespace}/clusters"),
            &json!([]),
        );
    }
    let mut args = args(&[SourceKind::ClusterApi]);
    args.cluster_namespace = vec!["one".into(), "two".into()];
    args.cluster_api_watch_filter = Some("ours".into());
    start(&control_plane, args).until_read().await;
    let lists: Vec<String> = control_plane
        .asked()
        .into_iter()
        .filter(|asked| asked.contains("/clusters?"))
        .collect();
    assert_eq!(lists.len(), 2, "{lists:?}");
    assert!(
        lists
            .iter()
            .all(|list| list.contains("labelSelector=cluster.x-k8s.io%2Fwatch-filter%3Dours")),
        "{lists:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn only_labelled_secrets_are_requested_and_are_members() {
    let control_plane = FakeControlPlane::default();
    let secret = |name: &str, label: &str| json!({ "metadata": { "name": name, "namespace": "fleet", "uid": name, "labels": { LABEL: label } } });
    control_plane.list(
        "/api/v1/namespaces/fleet/secrets",
        &json!([secret("s1", "prod"), secret("s2", "")]),
    );
    let snapshot = start(&control_plane, args(&[SourceKind::Secrets]))
        .until_read()
        .await;
    assert_eq!(snapshot.members.len(), 1);
    let found = member(&snapshot, "prod");
    assert_eq!(
        (
            found.origin.as_str(),
            found.access.secrets().next().unwrap().name.as_str()
        ),
        ("Secret fleet/s1", "s1")
    );
    assert!(
        control_plane
            .asked()
            .iter()
            .all(|asked| asked.contains("labelSelector=fleetdex.io%2Fcluster")),
        "{:?}",
        control_plane.asked()
    );
}

const LABEL: &str = super::super::LABEL;

#[tokio::test]
async fn contexts_are_added_and_removed_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let write = |names: &[&str]| {
        let contexts: Vec<Value> = names
            .iter()
            .map(|name| json!({ "name": name, "context": { "cluster": "c" } }))
            .collect();
        std::fs::write(&path, json!({ "contexts": contexts }).to_string()).unwrap();
    };
    let mut args = args(&[SourceKind::Kubeconfig]);
    args.kubeconfig_clusters = Some(path.clone());
    args.cluster_context = vec!["a".into(), "absent".into()];
    write(&["a", "b"]);
    let running = start(&FakeControlPlane::default(), args);
    let snapshot = running.until_read().await;
    assert_eq!(
        snapshot
            .members
            .iter()
            .map(|member| member.name.as_str())
            .collect::<Vec<_>>(),
        ["a"]
    );
    assert!(
        running.readiness.is_ready()
            && running
                .readiness
                .report()
                .contains("no such context in the kubeconfig: absent")
    );
    write(&["b", "absent"]);
    tokio::time::pause();
    running
        .until(|snapshot| {
            snapshot
                .members
                .iter()
                .any(|member| member.name.as_str() == "absent")
        })
        .await;
    assert_eq!(running.sources.snapshot().members.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_source_is_read_as_soon_as_it_is_installed() {
    let control_plane = FakeControlPlane::default();
    control_plane.list(KARMADA, &json!([]));
    let running = start(
        &control_plane,
        args(&[SourceKind::Karmada, SourceKind::ClusterApi]),
    );
    tokio::time::timeout(
        Duration::from_secs(1),
        running.sources.wait_for_initial_sync(),
    )
    .await
    .unwrap();
    let snapshot = running
        .until(|snapshot| snapshot.unread_sources == ["Cluster API"])
        .await;
    assert!(snapshot.members.is_empty());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let report = running.readiness.report();
    assert!(
        running.readiness.is_ready() && report.contains("install Cluster API"),
        "{report}"
    );
    control_plane.set(GROUP, 200, group(&["v1beta1"]));
    control_plane.set(&format!("{GROUP}/v1beta1/clusters"), 403, failure(403));
    running
        .until(|_| {
            running
                .readiness
                .report()
                .contains("may not be listed and watched")
        })
        .await;
    control_plane.list(
        &format!("{GROUP}/v1beta1/clusters"),
        &json!([capi("a", &json!({ "infrastructureReady": true }))]),
    );
    let snapshot = running.until_read().await;
    assert_eq!(
        member(&snapshot, "team/a").origin,
        "Cluster API Cluster team/a"
    );
    assert!(
        running
            .readiness
            .report()
            .contains("[+]clusters from Cluster API ok"),
        "{}",
        running.readiness.report()
    );
}
