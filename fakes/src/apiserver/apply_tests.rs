use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

const MAP: &str = "/api/v1/namespaces/default/configmaps/a";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";

struct Caller(Server);

impl Caller {
    fn new() -> Self {
        Self(Server::new(Options::new(7)))
    }

    async fn send(&self, method: Method, path: &str, media: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() {
            Bytes::new()
        } else {
            body.to_string().into()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", media)
            .header("User-Agent", "caller");
        let response = self.0.respond(request.body(body).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn apply(&self, path: &str, manager: &str, body: Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager={manager}&force=true");
        let media = "application/apply-patch+yaml";
        self.send(Method::PATCH, &path, media, &body).await
    }

    async fn merge(&self, path: &str, body: Value) -> (u16, Value) {
        let path = format!("{path}?fieldManager=merger");
        let media = "application/merge-patch+json";
        self.send(Method::PATCH, &path, media, &body).await
    }

    async fn delete(&self, path: &str, uid: &Value) -> (u16, Value) {
        let options = json!({ "kind": "DeleteOptions", "preconditions": { "uid": uid } });
        self.send(Method::DELETE, path, "application/json", &options)
            .await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, "", &Value::Null).await
    }
}

#[expect(clippy::needless_pass_by_value, reason = "a test")]
fn map(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

fn version(object: &Value) -> &Value {
    &object["metadata"]["resourceVersion"]
}

fn manager<'v>(object: &'v Value, name: &str) -> &'v Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let mut entries = entries.iter();
    entries
        .find(|entry| entry["manager"] == name)
        .unwrap_or(&Value::Null)
}

#[tokio::test(start_paused = true)]
async fn applied_objects_are_created_changed_and_left_alone_when_nothing_changes() {
    let caller = Caller::new();
    let (code, created) = caller
        .apply(MAP, "us", map(json!({ "x": "1", "y": "1" })))
        .await;
    assert_eq!((code, &created["data"]["x"]), (201, &json!("1")));
    let same = caller
        .apply(MAP, "us", map(json!({ "y": "1", "x": "1" })))
        .await;
    assert_eq!(same, (200, created.clone()));
    let (code, changed) = caller.apply(MAP, "us", map(json!({ "x": "2" }))).await;
    assert_eq!((code, &changed["data"]), (200, &json!({ "x": "2" })));
    assert_eq!(created["metadata"]["uid"], changed["metadata"]["uid"]);
    assert_ne!(version(&created), version(&changed));
    assert_eq!(
        manager(&changed, "us")["fieldsV1"],
        json!({ "f:data": { "f:x": {} } })
    );
    let elsewhere = "/api/v1/namespaces/none/configmaps/a";
    let (code, status) = caller.apply(elsewhere, "us", map(json!({}))).await;
    assert_eq!(
        (code, &status["message"]),
        (404, &json!("namespaces \"none\" not found"))
    );
}

#[tokio::test(start_paused = true)]
async fn with_a_version_of_no_object_one_is_created_or_refused() {
    let caller = Caller::new();
    let mut sent = map(json!({ "x": "1" }));
    sent["metadata"]["resourceVersion"] = "1".into();
    let (code, created) = caller.apply(MAP, "us", sent.clone()).await;
    assert_eq!(code, 201);
    assert_ne!(version(&created), "1");
    let fields = &manager(&created, "us")["fieldsV1"];
    assert_eq!(*fields, json!({ "f:data": { "f:x": {} } }));
    for manager in ["us", "them"] {
        let (code, status) = caller.apply(MAP, manager, sent.clone()).await;
        assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    }
    assert_eq!(caller.get(MAP).await, (200, created));
}

#[tokio::test(start_paused = true)]
async fn fields_of_other_managers_stay_and_can_be_taken_over() {
    let caller = Caller::new();
    caller
        .apply(MAP, "us", map(json!({ "x": "1", "y": "1" })))
        .await;
    caller
        .apply(MAP, "them", map(json!({ "y": "1", "z": "1" })))
        .await;
    // Both own y.
    let (_, object) = caller.apply(MAP, "us", map(json!({ "x": "1" }))).await;
    assert_eq!(object["data"], json!({ "x": "1", "y": "1", "z": "1" }));
    let path = format!("{MAP}?fieldManager=us");
    let taken = map(json!({ "x": "1", "z": "2" }));
    let media = "application/apply-patch+yaml";
    let (code, status) = caller.send(Method::PATCH, &path, media, &taken).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let (_, object) = caller.apply(MAP, "us", taken).await;
    assert_eq!(object["data"]["z"], "2");
    assert_eq!(
        manager(&object, "them")["fieldsV1"],
        json!({ "f:data": { "f:y": {} } })
    );
    let (_, object) = caller.apply(MAP, "us", map(json!({}))).await;
    assert_eq!(object["data"], json!({ "y": "1" }));
}

#[tokio::test(start_paused = true)]
async fn updates_take_the_fields_that_they_change() {
    let caller = Caller::new();
    caller
        .apply(MAP, "us", map(json!({ "x": "1", "y": "1" })))
        .await;
    let editor = Editor {
        manager: "kubectl-edit",
        subresource: None,
    };
    let edited = caller
        .0
        .edit("configmaps", Some("default"), "a", editor, |object| {
            object["data"] = json!({ "x": "2", "hand": "1" });
        });
    assert_eq!(edited, Ok(true));
    let (_, object) = caller.get(MAP).await;
    assert_eq!(manager(&object, "us"), &Value::Null);
    assert_eq!(
        manager(&object, "kubectl-edit")["fieldsV1"],
        json!({ "f:data": { "f:x": {}, "f:hand": {} } })
    );
    let (_, object) = caller.apply(MAP, "us", map(json!({ "x": "1" }))).await;
    assert_eq!(object["data"], json!({ "x": "1", "hand": "1" }));
    assert_eq!(
        manager(&object, "kubectl-edit")["fieldsV1"],
        json!({ "f:data": { "f:hand": {} } })
    );
}

#[tokio::test(start_paused = true)]
async fn replicas_that_an_autoscaler_owns_stay() {
    let caller = Caller::new();
    let web = |spec: Value| json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" }, "spec": spec });
    let containers = json!([{ "name": "web", "image": "1" }]);
    let spec = json!({ "replicas": 2, "template": { "spec": { "containers": containers } } });
    caller.apply(WEB, "us", web(spec)).await;
    let editor = Editor {
        manager: "kube-controller-manager",
        subresource: Some("scale"),
    };
    let scaled = caller.0.edit(
        "deployments.apps",
        Some("default"),
        "web",
        editor,
        |object| {
            object["spec"]["replicas"] = json!(5);
        },
    );
    assert_eq!(scaled, Ok(true));
    let containers = json!([{ "name": "web", "image": "2" }]);
    let spec = json!({ "template": { "spec": { "containers": containers } } });
    let (_, object) = caller.apply(WEB, "us", web(spec)).await;
    assert_eq!(object["spec"]["replicas"], 5);
    assert_eq!(object["spec"]["template"]["spec"]["containers"], containers);
    let entry = manager(&object, "kube-controller-manager");
    assert_eq!(
        (&entry["subresource"], &entry["fieldsV1"]),
        (&json!("scale"), &json!({ "f:spec": { "f:replicas": {} } }))
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_is_written_apart() {
    let caller = Caller::new();
    let web = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": 1 }, "status": { "replicas": 7 },
    });
    let (_, object) = caller.apply(WEB, "us", web.clone()).await;
    assert_eq!(object["status"], Value::Null);
    let path = format!("{WEB}/status");
    let (code, object) = caller.apply(&path, "us", web.clone()).await;
    assert_eq!((code, &object["status"]["replicas"]), (200, &json!(7)));
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries[1]["subresource"], "status", "{entries:?}");
    let (_, object) = caller
        .merge(WEB, json!({ "spec": { "replicas": 2 }, "status": null }))
        .await;
    assert_eq!(
        (&object["spec"]["replicas"], &object["status"]["replicas"]),
        (&json!(2), &json!(7))
    );
    assert_eq!(caller.get(&path).await.0, 200);
    let absent = WEB.replace("web", "absent") + "/status";
    assert_eq!(caller.apply(&absent, "us", web).await.0, 404);
    caller.apply(MAP, "us", map(json!({}))).await;
    assert_eq!(caller.get(&format!("{MAP}/status")).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_object_with_finalizers_is_gone_when_they_are() {
    let caller = Caller::new();
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "a", "finalizers": ["x.example.com/a"] },
    });
    let (_, created) = caller.apply(MAP, "us", object.clone()).await;
    let uid = &created["metadata"]["uid"];
    let (code, deleted) = caller.delete(MAP, uid).await;
    assert_eq!(code, 200);
    assert!(
        deleted["metadata"]["deletionTimestamp"].is_string(),
        "{deleted}"
    );
    assert_eq!(caller.delete(MAP, uid).await, (200, deleted.clone()));
    // What is being deleted can still be changed, and cannot be revived.
    let (_, changed) = caller.apply(MAP, "us", object).await;
    assert!(changed["metadata"]["deletionTimestamp"].is_string());
    let (code, last) = caller
        .merge(MAP, json!({ "metadata": { "finalizers": [] } }))
        .await;
    assert_eq!((code, &last["metadata"]["finalizers"]), (200, &Value::Null));
    assert_eq!(caller.get(MAP).await.0, 404);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_deleted_only_if_it_is_the_one_that_is_meant() {
    let caller = Caller::new();
    let (_, created) = caller.apply(MAP, "us", map(json!({}))).await;
    let (code, status) = caller.delete(MAP, &json!("other")).await;
    assert_eq!((code, &status["reason"]), (409, &json!("Conflict")));
    let mut wrong = map(json!({ "x": "1" }));
    wrong["metadata"]["uid"] = json!("other");
    assert_eq!(caller.apply(MAP, "us", wrong.clone()).await.0, 409);
    let absent = "/api/v1/namespaces/default/configmaps/b";
    assert_eq!(caller.apply(absent, "us", wrong).await.0, 409);
    let (code, status) = caller.delete(MAP, &created["metadata"]["uid"]).await;
    assert_eq!((code, &status["status"]), (200, &json!("Success")));
}

#[tokio::test(start_paused = true)]
async fn answers_of_writes_are_lost_after_they_are_done() {
    let caller = Caller::new();
    caller.0.inject(Fault::LoseAnswer, Extent::Times(1));
    assert_eq!(caller.get("/api/v1/configmaps").await.0, 200);
    let path = format!("{MAP}?fieldManager=us");
    let request = Request::patch(path).header("Content-Type", "application/apply-patch+yaml");
    let body = Bytes::from(map(json!({})).to_string());
    let lost = caller.0.respond(request.body(body).unwrap()).await;
    assert_eq!(lost.err(), Some(Broken::Reset));
    assert_eq!(caller.get(MAP).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_told_of_writes_by_clients() {
    let caller = Caller::new();
    let seen: Arc<Mutex<Vec<ClientWrite>>> = Arc::default();
    let writes = Arc::clone(&seen);
    caller
        .0
        .observe(move |write| writes.lock().push(write.clone()));
    for data in [
        json!({ "x": "1" }),
        json!({ "x": "1" }),
        json!({ "x": "2" }),
    ] {
        caller.apply(MAP, "us", map(data)).await;
    }
    caller.delete(MAP, &Value::Null).await;
    let seen = seen.lock();
    let methods: Vec<&str> = seen.iter().map(|write| write.method.as_str()).collect();
    assert_eq!(methods, ["PATCH", "PATCH", "PATCH", "DELETE"]);
    assert!(seen[0].before.is_none() && seen[3].after.is_none());
    assert_eq!(seen[1].before, seen[1].after);
    assert_eq!(
        (seen[1].resource.as_str(), seen[1].agent.as_str()),
        ("configmaps", "caller")
    );
    assert_eq!(seen[2].after.as_ref().unwrap()["data"]["x"], "2");
}
