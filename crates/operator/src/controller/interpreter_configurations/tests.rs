//! The whole watch over a control plane that is a mock service.

use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use kube::{client::Body, runtime::events::Reporter};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::{BoxError, service_fn};

use super::*;

const CUSTOMIZATIONS: &str = "/apis/config.karmada.io/v1alpha1/resourceinterpretercustomizations";
const INTERPRETER_WEBHOOKS: &str =
    "/apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations";
const EXPLORING_WEBHOOKS: &str =
    "/apis/config.karmada.io/v1alpha1/resourceexploringwebhookconfigurations";
const CONFIG_MAPS: &str = "/api/v1/namespaces/argocd/configmaps";
const BROKEN: &str = "function InterpretHealth(";
const HEALTHY: &str = "function InterpretHealth(observedObj) return true end";

/// The responses of the control plane to reads, by path. Other paths are 404; watches send no
/// events, but end when `interrupt` is notified.
#[derive(Clone, Default)]
struct FakeControlPlane {
    answers: Arc<Mutex<BTreeMap<String, (u16, Value)>>>,
    /// Method, path with query, and body of every write.
    writes: Arc<Mutex<Vec<(Method, String, Value)>>>,
    lists: Arc<Mutex<Vec<String>>>,
    interrupt: Arc<Notify>,
    /// Whether the kinds have no status.
    has_no_status: bool,
}

impl FakeControlPlane {
    fn set(&self, path: &str, code: u16, body: Value) {
        self.answers.lock().insert(path.to_owned(), (code, body));
    }

    fn list(&self, path: &str, items: &Value) {
        let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "7" }, "items": items });
        self.set(path, 200, list);
        for item in items.as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap();
            self.set(&format!("{path}/{name}"), 200, item.clone());
        }
    }

    fn client(&self) -> Client {
        let control_plane = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let control_plane = control_plane.clone();
            async move { control_plane.answer(request).await }
        });
        Client::new(service, "fleet")
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let (path, query) = (
            parts.uri.path().to_owned(),
            parts.uri.query().unwrap_or_default().to_owned(),
        );
        let body = body.collect_bytes().await?;
        let (code, answer) = match parts.method {
            Method::GET if query.contains("watch=true") => {
                self.interrupt.notified().await;
                (500, failure(500))
            }
            Method::GET => {
                self.lists.lock().push(format!("{path}?{query}"));
                let found = self.answers.lock().get(&path).cloned();
                found.unwrap_or((404, failure(404)))
            }
            Method::PATCH if self.has_no_status && path.ends_with("/status") => (404, failure(404)),
            method => {
                let body: Value = serde_json::from_slice(&body)?;
                let write = (method, format!("{path}?{query}"), body.clone());
                self.writes.lock().push(write);
                (200, body)
            }
        };
        let mut response = Response::new(Body::from(serde_json::to_vec(&answer)?));
        *response.status_mut() = StatusCode::from_u16(code)?;
        Ok(response)
    }

    fn writes(&self) -> Vec<(Method, String, Value)> {
        self.writes.lock().clone()
    }
}

fn failure(code: u16) -> Value {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        _ => "InternalError",
    };
    json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "planted" })
}

fn customization(name: &str, script: &str, generation: i64) -> Value {
    json!({
        "metadata": { "name": name, "uid": format!("uid-{name}"), "generation": generation, "resourceVersion": generation.to_string() },
        "spec": {
            "target": { "apiVersion": "example.io/v1", "kind": "Workload" },
            "customizations": { "healthInterpretation": { "luaScript": script } },
        },
    })
}

struct Running {
    configurations: InterpreterConfigurations,
    readiness: Readiness,
    changed: Arc<Notify>,
    _tasks: JoinSet<()>,
}

fn start(control_plane: &FakeControlPlane, argocd_health: Option<&str>) -> Running {
    let (readiness, changed, mut tasks) = (Readiness::new(), Arc::default(), JoinSet::new());
    let reporter = Reporter {
        controller: "fleetdex".to_owned(),
        instance: None,
    };
    let context = RuleContext {
        control_plane: control_plane.client(),
        argocd_health: argocd_health.map(|name| name.parse().unwrap()),
        rules: watch::Sender::new(Arc::default()),
        changed: Arc::clone(&changed),
        readiness: readiness.clone(),
        replicas: Replicas::alone(),
        recorder: Arc::new(Recorder::new(control_plane.client(), reporter)),
    };
    Running {
        configurations: InterpreterConfigurations::watch(context, &mut tasks),
        readiness,
        changed,
        _tasks: tasks,
    }
}

/// Waits for at most ten minutes of paused time.
async fn until(holds: impl Fn() -> bool, shown: impl Fn() -> String) {
    for _ in 0..6_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{}", shown());
}

async fn until_written(
    control_plane: &FakeControlPlane,
    count: usize,
) -> Vec<(Method, String, Value)> {
    until(
        || control_plane.writes.lock().len() >= count,
        || format!("{:?}", control_plane.writes()),
    )
    .await;
    // More than expected would be written by now.
    tokio::time::sleep(Duration::from_mins(2)).await;
    let writes = control_plane.writes();
    assert_eq!(writes.len(), count, "{writes:?}");
    writes
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_not_served_count_as_none_and_are_looked_for_again() {
    let control_plane = FakeControlPlane::default();
    let running = start(&control_plane, None);
    assert!(!running.readiness.is_ready());
    let before = tokio::time::Instant::now();
    running.configurations.wait_until_read().await;
    assert!(before.elapsed() < Duration::from_secs(1));
    assert_eq!(running.configurations.version(), 1);
    assert!(running.readiness.is_ready());
    control_plane.list(CUSTOMIZATIONS, &json!([customization("a", HEALTHY, 1)]));
    until(
        || running.configurations.version() == 2,
        || running.readiness.report(),
    )
    .await;
    assert!(before.elapsed() < Duration::from_secs(70));
    running.changed.notified().await;
}

#[tokio::test(start_paused = true)]
async fn rules_wait_ten_seconds_for_a_kind_that_cannot_be_read() {
    let control_plane = FakeControlPlane::default();
    control_plane.set(INTERPRETER_WEBHOOKS, 403, failure(403));
    let running = start(&control_plane, None);
    let before = tokio::time::Instant::now();
    running.configurations.wait_until_read().await;
    assert!(before.elapsed() >= Duration::from_secs(10));
    let report = running.readiness.report();
    assert!(
        report.contains("[+]interpreter configurations degraded: ResourceInterpreterWebhookConfiguration: it may not be listed and watched"),
        "{report}"
    );
    control_plane.list(INTERPRETER_WEBHOOKS, &json!([]));
    until(
        || {
            running
                .readiness
                .report()
                .contains("[+]interpreter configurations ok")
        },
        || running.readiness.report(),
    )
    .await;
    assert_eq!(
        running.configurations.version(),
        1,
        "there are no other rules"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_says_what_is_not_in_use_and_is_written_once() {
    let control_plane = FakeControlPlane::default();
    let mut known = customization("b", HEALTHY, 3);
    known["status"] = json!({ "conditions": [{
        "type": "Accepted", "status": "False", "reason": "DefinedElsewhere", "observedGeneration": 3, "lastTransitionTime": "2026-01-01T00:00:00Z",
        "message": "spec.customizations.healthInterpretation: is not used: customization \"a\" has a script for InterpretHealth on \"example.io/v1/Workload\" already; remove one of them",
    }] });
    control_plane.list(
        CUSTOMIZATIONS,
        &json!([customization("a", BROKEN, 2), known]),
    );
    let _running = start(&control_plane, None);
    until(|| !control_plane.writes.lock().is_empty(), String::new).await;
    let writes = control_plane.writes();
    let (method, uri, body) = &writes[0];
    assert_eq!(method, Method::PATCH);
    assert!(
        uri.starts_with(&format!("{CUSTOMIZATIONS}/a/status?")),
        "{uri}"
    );
    assert!(
        uri.contains("fieldManager=fleetdex") && uri.contains("force=true"),
        "{uri}"
    );
    let condition = &body["status"]["conditions"][0];
    assert_eq!(
        (
            &condition["type"],
            &condition["status"],
            &condition["reason"],
            &condition["observedGeneration"]
        ),
        (
            &json!("Accepted"),
            &json!("False"),
            &json!("InvalidScript"),
            &json!(2)
        )
    );
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.starts_with("spec.customizations.healthInterpretation.luaScript: line 1: "),
        "{message}"
    );
    assert!(
        writes.iter().all(|(_, uri, _)| uri.contains("/a/status")),
        "that of b is as it should be: {writes:?}"
    );
    // The control plane now shows what was written.
    let mut written = customization("a", BROKEN, 2);
    written["status"] = body["status"].clone();
    let shown = control_plane.answers.lock()[&format!("{CUSTOMIZATIONS}/b")]
        .1
        .clone();
    control_plane.list(CUSTOMIZATIONS, &json!([written, shown]));
    control_plane.interrupt.notify_waiters();
    tokio::time::sleep(Duration::from_secs(20)).await;
    control_plane.writes.lock().clear();
    tokio::time::sleep(Duration::from_mins(5)).await;
    assert_eq!(control_plane.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_is_not_in_use_where_the_kind_has_no_status() {
    let control_plane = FakeControlPlane {
        has_no_status: true,
        ..FakeControlPlane::default()
    };
    let objects = json!([
        customization("a", BROKEN, 1),
        customization("c", HEALTHY, 1)
    ]);
    control_plane.list(CUSTOMIZATIONS, &objects);
    let _running = start(&control_plane, None);
    let writes = until_written(&control_plane, 2).await;
    let regarding: Vec<(&Value, &Value)> = writes
        .iter()
        .map(|(_, _, event)| (&event["regarding"]["name"], &event["reason"]))
        .collect();
    assert_eq!(
        regarding,
        [
            (&json!("a"), &json!("InvalidScript")),
            (&json!("c"), &json!("DefinedElsewhere"))
        ]
    );
    let (method, uri, event) = &writes[0];
    assert_eq!(
        (method, uri.as_str()),
        (
            &Method::POST,
            "/apis/events.k8s.io/v1/namespaces/default/events?"
        )
    );
    assert_eq!(
        (
            &event["type"],
            &event["reason"],
            &event["regarding"]["kind"]
        ),
        (
            &json!("Warning"),
            &json!("InvalidScript"),
            &json!("ResourceInterpreterCustomization")
        )
    );

    control_plane.list(CUSTOMIZATIONS, &json!([customization("a", HEALTHY, 2)]));
    control_plane.interrupt.notify_waiters();
    let writes = until_written(&control_plane, 3).await;
    assert_eq!(
        (
            &writes[2].2["type"],
            &writes[2].2["reason"],
            &writes[2].2["regarding"]["name"]
        ),
        (&json!("Normal"), &json!("InUse"), &json!("a"))
    );
}

#[tokio::test(start_paused = true)]
async fn only_the_named_config_map_is_read() {
    let control_plane = FakeControlPlane::default();
    control_plane.list(CONFIG_MAPS, &json!([]));
    let running = start(&control_plane, Some("argocd/argocd-cm"));
    running.configurations.wait_until_read().await;
    let report = running.readiness.report();
    assert!(
        report.contains("degraded: ConfigMap argocd/argocd-cm: there is no such object"),
        "{report}"
    );
    let lists = control_plane.lists.lock().clone();
    let named = lists.iter().filter(|list| list.starts_with(CONFIG_MAPS));
    assert!(named.clone().count() > 0, "{lists:?}");
    assert!(
        named
            .clone()
            .all(|list| list.contains("fieldSelector=metadata.name%3Dargocd-cm")),
        "{lists:?}"
    );
    let config_map = json!([{
        "metadata": { "name": "argocd-cm", "namespace": "argocd", "resourceVersion": "8" },
        "data": { "resource.customizations.health.Pod": "return (" },
    }]);
    control_plane.list(CONFIG_MAPS, &config_map);
    control_plane.interrupt.notify_waiters();
    let writes = until_written(&control_plane, 1).await;
    let (_, uri, event) = &writes[0];
    assert!(
        uri.starts_with("/apis/events.k8s.io/v1/namespaces/argocd/events"),
        "{uri}"
    );
    assert_eq!(
        (&event["reason"], &event["regarding"]["kind"]),
        (&json!("InvalidScript"), &json!("ConfigMap"))
    );
    assert_eq!(running.configurations.version(), 2);
    assert!(running.readiness.is_ready());
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_list_does_not_change_the_rules() {
    let control_plane = FakeControlPlane::default();
    for path in [CUSTOMIZATIONS, INTERPRETER_WEBHOOKS, EXPLORING_WEBHOOKS] {
        control_plane.list(path, &json!([]));
    }
    control_plane.list(CUSTOMIZATIONS, &json!([customization("a", HEALTHY, 1)]));
    let running = start(&control_plane, None);
    running.configurations.wait_until_read().await;
    let rules = running.configurations.rules();
    // Another version of the object, with the same content.
    control_plane.list(CUSTOMIZATIONS, &json!([customization("a", HEALTHY, 2)]));
    let lists = control_plane.lists.lock().len();
    control_plane.interrupt.notify_waiters();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(control_plane.lists.lock().len() > lists);
    assert_eq!(running.configurations.version(), 1);
    assert!(Arc::ptr_eq(&rules, &running.configurations.rules()));
}
