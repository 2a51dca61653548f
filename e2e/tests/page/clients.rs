//! Clients as they are, on the context that `fleetdex kubeconfig` writes for a control plane.
//! docs/clients.md has their table.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use anyhow::{Result, ensure};
use e2e::{
    demo::session::Ended, fleet::unique, http::client, kubelet::Kubelet, parts::Part,
    scenario::until, test_result::Tested,
};
use reqwest::{Method, StatusCode, header};
use serde_json::{Value, json};

use super::site::Visit;

const PROXY: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";
/// How long a command may take.
const LIMIT: Duration = Duration::from_mins(1);
/// The context that this test writes.
const CONTEXT: &str = "written";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json";

/// A kubeconfig with the context, and how commands run on it.
struct Context<'v> {
    visit: &'v Visit,
    kubeconfig: PathBuf,
}

impl<'v> Context<'v> {
    async fn write(visit: &'v Visit) -> Self {
        let site = visit.site();
        let kubeconfig = site.fleet.dir().join(unique("written-kubeconfig"));
        std::fs::copy(site.session.kubeconfig().unwrap(), &kubeconfig).unwrap();
        let context = Self { visit, kubeconfig };
        let hub = site.fleet.control_plane().name();
        let line = format!("fleetdex kubeconfig --merge --name {CONTEXT} --context {hub}");
        let written = context.run(&line).await;
        assert!(written.success, "{written:?}");
        context
    }

    async fn run(&self, line: &str) -> Ended {
        let site = self.visit.site();
        let variables = [("KUBECONFIG", self.kubeconfig.display().to_string())];
        let running = site.session.run(line, site.fleet.dir(), &variables, LIMIT);
        running.await.unwrap()
    }

    async fn kubectl(&self, arguments: &str) -> Ended {
        self.run(&format!("kubectl --context {CONTEXT} {arguments}"))
            .await
    }
}

/// A pod that runs on a node with a kubelet, in one member, in a namespace of its own.
async fn pod_with_logs(visit: &Visit, namespace: &str) -> Tested<Kubelet> {
    let server = visit.site().fleet.member(2);
    let (member, kubelet) = (visit.member(2), Kubelet::start(server).unwrap());
    let node = format!("node-of-{namespace}");
    let node_path = format!("api/v1/nodes/{node}");
    member.apply(&node_path, &kubelet.node(&node)).await?;
    let status = format!("{node_path}/status");
    member.merge(&status, &kubelet.node_status()).await?;
    member.create_namespace(namespace).await?;
    run_pod(visit, 2, namespace, "logged").await;
    let selector = ["--field-selector", "status.phase=Running", "-o", "name"];
    let arguments = [&["get", "pods", "-n", namespace][..], &selector].concat();
    until("the index has the running pod", || async {
        let found = visit.site().operator.run_command(&arguments).await?;
        ensure!(found.out.lines().count() == 1, "{found:?}");
        Ok(())
    })
    .await?;
    Ok(kubelet)
}

/// Creates a pod in a member, on that node, and reports its container as a kubelet would.
async fn run_pod(visit: &Visit, number: usize, namespace: &str, name: &str) {
    let member = visit.member(number);
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": { "app": "logged" } },
        "spec": { "nodeName": format!("node-of-{namespace}"), "containers": [{ "name": "main", "image": "example.com/logged" }] },
    });
    let path = format!("api/v1/namespaces/{namespace}/pods/{name}");
    member.apply(&path, &pod).await.unwrap();
    let running = json!({ "status": { "phase": "Running", "containerStatuses": [{
        "name": "main", "image": "example.com/logged", "imageID": "", "ready": true, "restartCount": 0,
        // Without it stern takes the container for one that has not started, and asks for no log.
        "containerID": format!("containerd://{namespace}-{name}"),
        "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
    }] } });
    let status = format!("{path}/status");
    member.merge(&status, &running).await.unwrap();
}

async fn remove(visit: &Visit, namespace: &str) -> Tested {
    let pods = format!("api/v1/namespaces/{namespace}/pods");
    for number in [1, 2] {
        let member = visit.member(number);
        let found = member.get(&pods).await?;
        for pod in found["items"].as_array().unwrap() {
            let name = pod["metadata"]["name"].as_str().unwrap();
            member.delete(&format!("{pods}/{name}")).await?;
        }
    }
    let member = visit.member(2);
    let deployment = format!("apis/apps/v1/namespaces/{namespace}/deployments/logged");
    member.delete(&deployment).await?;
    let node = format!("api/v1/nodes/node-of-{namespace}");
    member.delete(&node).await?;
    visit.until_found(&format!("ns:{namespace}"), 0).await;
    Ok(())
}

#[tokio::test]
async fn kubectl_reads_changes_and_asks_for_rights() -> Tested {
    let visit = Visit::begin().await;
    let context = Context::write(&visit).await;
    let namespace = unique("kubectl");
    let kubelet = pod_with_logs(&visit, &namespace).await?;
    for (arguments, expected) in [
        ("version", "Server Version: v1."),
        ("api-resources", "deployments"),
        ("explain deployment.spec.replicas", "FIELD: replicas"),
        ("get pods -A -o wide", "HEALTH REASON"),
        ("get deploy,service -n shop", "deployment.apps/checkout"),
        ("describe pod logged -n {ns}", "example.com/logged"),
        ("logs logged -n {ns} --tail=3", "tailLines=3"),
        ("label pod logged -n {ns} tried=yes", "labeled"),
        (
            "get pod logged -n {ns} -o jsonpath={.metadata.labels.tried}",
            "yes",
        ),
        ("annotate pod logged -n {ns} tried=yes", "annotated"),
        (
            "patch pod logged -n {ns} -p '{\"metadata\":{\"labels\":{\"tried\":\"again\"}}}'",
            "patched",
        ),
        (
            "rollout status deployment/api-canary -n shop --timeout=5s",
            "api-canary",
        ),
        ("auth can-i list pods -A", "yes"),
        ("auth can-i delete pods -n web", "yes"),
        ("delete pods -l app=logged -n {ns} --wait=false", "deleted"),
    ] {
        let ended = context
            .kubectl(&arguments.replace("{ns}", &namespace))
            .await;
        assert!(
            ended.success && ended.output.contains(expected),
            "{arguments}: {ended:?}"
        );
    }
    for (arguments, expected) in [
        (
            "create configmap new -n {ns} --from-literal=a=b",
            "an object is created in one cluster",
        ),
        ("get pod web-0 -n web", "is in several clusters"),
        ("logs web-0 -n web", "is in several clusters"),
        ("top pods -A", "Metrics API not available"),
        ("auth can-i list widgets.example.com", "no"),
        (
            "get nodes",
            "the server doesn't have a resource type \"nodes\"",
        ),
    ] {
        let ended = context
            .kubectl(&arguments.replace("{ns}", &namespace))
            .await;
        assert!(
            !ended.success && ended.output.contains(expected),
            "{arguments}: {ended:?}"
        );
    }
    drop(kubelet);
    // The stub of a kubelet does not confirm that the pod has ended.
    remove(&visit, &namespace).await
}

/// Source: <https://github.com/stern/stern>, `stern/target.go`, `watch.go`, `tail.go` and
/// `stern.go`.
#[tokio::test]
async fn stern_shows_logs_of_pods_of_the_fleet() -> Tested {
    let visit = Visit::begin().await;
    let context = Context::write(&visit).await;
    let namespace = unique("stern");
    let _kubelet = pod_with_logs(&visit, &namespace).await?;
    deployment_of_pods(&visit, &namespace).await?;
    let program = Part::Stern.ensure().unwrap();
    let stern = async |arguments: &str| {
        let program = program.display();
        let line = format!("{program} --context {CONTEXT} --color never {arguments}");
        context.run(&line).await
    };
    let log = format!("/containerLogs/{namespace}/logged/main");
    for query in [
        format!("-n {namespace} -l app=logged ."),
        format!("-A --field-selector metadata.namespace={namespace} ."),
        format!("-n {namespace} pod/logged"),
        format!("-n {namespace} deployment/logged"),
    ] {
        let shown = stern(&format!("{query} --no-follow --tail 2")).await;
        assert!(
            shown.success
                && shown.output.contains(&format!("log of {log}"))
                && shown.output.contains("tailLines=2"),
            "{query}: {shown:?}"
        );
    }

    // Following, it watches for pods, and shows the log of one that is created meanwhile.
    let lines = visit.site().fleet.dir().join(unique("followed"));
    let follow = format!(
        "timeout 50 {} --context {CONTEXT} --color never -n {namespace} . >{lines} & \
         until grep -q /{namespace}/new/main {lines}; do sleep 0.1; done; kill $!; wait; cat {lines}",
        program.display(),
        lines = lines.display(),
    );
    let create = async {
        until("it follows", || async {
            let shown = std::fs::read_to_string(&lines)?;
            ensure!(shown.contains(&log), "{shown}");
            Ok(())
        })
        .await
        .unwrap();
        run_pod(&visit, 2, &namespace, "new").await;
    };
    let (followed, ()) = tokio::join!(context.run(&follow), create);
    assert!(followed.output.contains("follow=true"), "{followed:?}");

    // It asks for logs by namespace and name, which pods of two clusters share now.
    visit.member(1).create_namespace(&namespace).await?;
    run_pod(&visit, 1, &namespace, "logged").await;
    visit
        .until_found(&format!("ns:{namespace} name:logged kind:Pod"), 2)
        .await;
    let refused = stern(&format!("-n {namespace} pod/logged --no-follow")).await;
    assert!(
        !refused.success
            && refused.output.contains("is in several clusters")
            && !refused.output.contains(&log),
        "{refused:?}"
    );
    let other = stern(&format!("-n {namespace} pod/new --no-follow")).await;
    assert!(other.output.contains("/new/main"), "{other:?}");
    remove(&visit, &namespace).await
}

/// A Deployment whose selector finds the pods.
async fn deployment_of_pods(visit: &Visit, namespace: &str) -> Tested {
    let labels = json!({ "app": "logged" });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "logged" },
        "spec": { "selector": { "matchLabels": labels }, "template": {
            "metadata": { "labels": labels },
            "spec": { "containers": [{ "name": "main", "image": "example.com/logged" }] },
        } },
    });
    let path = format!("apis/apps/v1/namespaces/{namespace}/deployments/logged");
    visit.member(2).apply(&path, &deployment).await?;
    let search = format!("ns:{namespace} kind:Deployment");
    visit.until_found(&search, 1).await;
    Ok(())
}

/// Sends requests to the fleet as a user of the control plane.
struct Requests<'v> {
    visit: &'v Visit,
    token: String,
}

impl<'v> Requests<'v> {
    fn of(visit: &'v Visit, user: Option<&str>) -> Self {
        let hub = visit.site().fleet.control_plane();
        let token = user.map_or(hub.token(), |name| hub.token_of(name).unwrap());
        Self {
            visit,
            token: token.to_owned(),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Value>,
    ) -> Result<(StatusCode, String)> {
        let hub = self.visit.site().fleet.control_plane();
        let url = format!("{}{PROXY}{path}", hub.url());
        let mut request = client(Some(hub.ca_pem()))?
            .request(method, url)
            .bearer_auth(&self.token);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.to_string());
        }
        let response = request.send().await?;
        Ok((response.status(), response.text().await?))
    }

    async fn json(&self, path: &str, accept: &str) -> Value {
        let (status, body) = self
            .send(Method::GET, path, &[("Accept", accept)], None)
            .await
            .unwrap();
        assert!(status.is_success(), "{path}: {status}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// Whether a `SelfSubjectAccessReview` allows it.
    async fn may(&self, attributes: &Value) -> Result<bool> {
        let review = json!({
            "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
            "spec": { "resourceAttributes": attributes },
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let (status, body) = self.send(Method::POST, path, &[], Some(review)).await?;
        ensure!(status == StatusCode::CREATED, "{status}: {body}");
        let review: Value = serde_json::from_str(&body)?;
        Ok(review["status"]["allowed"] == true)
    }
}

/// Source: <https://github.com/derailed/k9s>, `internal/client/client.go`, `internal/dao/table.go`
/// and `internal/watch/factory.go`.
#[tokio::test]
async fn requests_of_k9s_are_answered() -> Tested {
    let visit = Visit::begin().await;
    let admin = Requests::of(&visit, None);
    let version = admin.json("/version", "application/json").await;
    assert_eq!(version["major"], "1", "{version}");
    let groups = admin.json("/apis", "application/json").await;
    let names: BTreeSet<&str> = groups["groups"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|group| group["name"].as_str())
        .collect();
    assert!(
        names.contains("apps") && !names.contains("metrics.k8s.io"),
        "{names:?}"
    );
    for path in ["/api", "/api/v1", "/apis/apps/v1"] {
        admin.json(path, "application/json").await;
    }
    // Before each view it asks for list and watch of the kind, in the namespace of the view.
    for (verb, resource, namespace) in [
        ("list", "pods", ""),
        ("watch", "pods", "shop"),
        ("get", "pods", "shop"),
        ("delete", "pods", "shop"),
    ] {
        let attributes = json!({ "verb": verb, "resource": resource, "namespace": namespace });
        assert!(admin.may(&attributes).await?, "{attributes}");
    }
    let apps = json!({ "verb": "list", "group": "apps", "resource": "deployments" });
    assert!(admin.may(&apps).await?);
    let unregistered = json!({ "verb": "list", "resource": "nodes" });
    assert!(!admin.may(&unregistered).await?);
    for path in [
        "/api/v1/pods",
        "/apis/apps/v1/namespaces/shop/deployments?labelSelector=app%3Dapi",
    ] {
        let table = admin.json(path, TABLE).await;
        assert_eq!(table["kind"], "Table", "{path}");
        assert_eq!(table["columnDefinitions"][0]["name"], "Cluster", "{path}");
    }
    for path in [
        "/api/v1/pods?limit=500&resourceVersion=0",
        "/api/v1/pods?allowWatchBookmarks=true&timeoutSeconds=1&watch=true",
    ] {
        let (status, body) = admin.send(Method::GET, path, &[], None).await?;
        assert!(status.is_success() && !body.is_empty(), "{path}: {status}");
    }
    Ok(())
}

#[tokio::test]
async fn access_reviews_follow_the_rights_of_the_caller() -> Tested {
    let visit = Visit::begin().await;
    let alice = Requests::of(&visit, Some("alice"));
    let attributes = |verb: &str, namespace: &str| json!({ "verb": verb, "resource": "pods", "namespace": namespace });
    until("alice's rights", || async {
        ensure!(alice.may(&attributes("list", "web")).await?);
        Ok(())
    })
    .await?;
    // A list of all namespaces shows what she may see.
    assert!(alice.may(&attributes("list", "")).await?);
    assert!(alice.may(&attributes("watch", "web")).await?);
    for (verb, namespace) in [("list", "shop"), ("delete", "web"), ("create", "web")] {
        assert!(
            !alice.may(&attributes(verb, namespace)).await?,
            "{verb} {namespace}"
        );
    }
    let logs =
        json!({ "verb": "get", "resource": "pods", "subresource": "log", "namespace": "web" });
    assert!(alice.may(&logs).await?);
    let services = json!({ "verb": "list", "resource": "services", "namespace": "web" });
    assert!(!alice.may(&services).await?);
    Ok(())
}

/// Source: <https://github.com/headlamp-k8s/headlamp>, `frontend/src/lib/k8s/api/`:
/// `v1/clusterApi.ts`, `v2/useKubeObjectList.ts`, `v2/webSocket.ts`.
#[tokio::test]
async fn requests_of_headlamp_are_answered_except_for_watches_over_web_sockets() -> Tested {
    let visit = Visit::begin().await;
    let admin = Requests::of(&visit, None);
    let rules = json!({ "spec": { "namespace": "default" } });
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let (status, body) = admin.send(Method::POST, path, &[], Some(rules)).await?;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let (status, body) = admin.send(Method::GET, "/healthz", &[], None).await?;
    assert_eq!((status, body.as_str()), (StatusCode::OK, "ok"));
    let pods = admin.json("/api/v1/pods", "*/*").await;
    assert_eq!(pods["kind"], "PodList");
    let version = pods["metadata"]["resourceVersion"].as_str().unwrap();
    let watch = format!("/api/v1/pods?watch=1&resourceVersion={version}&timeoutSeconds=1");
    let upgrade = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let (status, body) = admin.send(Method::GET, &watch, &upgrade, None).await?;
    assert_ne!(status, StatusCode::SWITCHING_PROTOCOLS, "{body}");
    Ok(())
}
