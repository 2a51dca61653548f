//! The cache over members that the test connects, each with a small API server.

use std::collections::BTreeMap;

use fleetdex_clusters::events::EventReasons;
use futures::{StreamExt, channel::mpsc};
use http::{Request as HttpRequest, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{ResourceExt, client::Body, core::Selector};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};
use tower::{BoxError, service_fn};

use super::{fake::FakeClusters, *};

type Bytes = bytes::Bytes;

/// An API server that lists and watches `/api/v1/nodes` or `/api/v1/configmaps`.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    objects: BTreeMap<String, Value>,
    watches: Vec<mpsc::UnboundedSender<Bytes>>,
    version: u64,
    requests: Vec<String>,
    /// The next watch gets a 410.
    expired: bool,
    hangs: bool,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: HttpRequest<Body>| {
            let server = server.clone();
            async move {
                if server.0.lock().hangs {
                    std::future::pending::<()>().await;
                }
                Ok::<_, BoxError>(server.answer(&request))
            }
        });
        Client::new(service, "default")
    }

    fn answer(&self, request: &HttpRequest<Body>) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
        let mut stored = self.0.lock();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch="));
        stored.requests.push(format!(
            "{} {is_watch} {}",
            request.uri().path(),
            request.uri().query().unwrap_or_default()
        ));
        if is_watch && stored.expired {
            stored.expired = false;
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old" });
            return whole(410, &status);
        }
        if is_watch {
            let (sender, lines) = mpsc::unbounded();
            stored.watches.push(sender);
            return Response::new(
                StreamBody::new(lines.map(|line| Ok::<_, BoxError>(Frame::data(line))))
                    .boxed_unsync(),
            );
        }
        let name = request.uri().path().rsplit('/').next().unwrap_or_default();
        if let Some(object) = stored.objects.get(name) {
            return whole(200, object);
        }
        let items: Vec<&Value> = stored.objects.values().collect();
        whole(
            200,
            &json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": stored.version.to_string() }, "items": items }),
        )
    }

    /// Sets or removes a node, and sends the event to the watches.
    fn node(&self, name: &str, provider: Option<&str>) {
        let mut stored = self.0.lock();
        stored.version += 1;
        let object = json!({ "apiVersion": "v1", "kind": "Node",
            "metadata": { "name": name, "uid": name, "resourceVersion": stored.version.to_string(),
                          "labels": { "pool": provider.unwrap_or("none") }, "managedFields": [{ "manager": "kubelet" }] },
            "spec": { "providerID": provider } });
        let kind = match (provider, stored.objects.remove(name)) {
            (None, _) => "DELETED",
            (Some(_), None) => "ADDED",
            (Some(_), Some(_)) => "MODIFIED",
        };
        if provider.is_some() {
            stored.objects.insert(name.to_owned(), object.clone());
        }
        let line = Bytes::from(format!("{}\n", json!({ "type": kind, "object": object })));
        stored
            .watches
            .retain(|watch| watch.unbounded_send(line.clone()).is_ok());
    }

    fn requests(&self) -> usize {
        self.0.lock().requests.len()
    }
}

fn whole(code: u16, body: &Value) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
    let body = Full::new(Bytes::from(body.to_string()))
        .map_err(BoxError::from)
        .boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
    response
}

fn a() -> ClusterName {
    "a".parse().unwrap()
}

struct Scene {
    server: Server,
    members: Arc<FakeClusters>,
    cache: ClusterCache,
}

/// A connected member with two nodes.
fn scene(options: CacheOptions) -> Scene {
    let (server, members) = (Server::default(), FakeClusters::new());
    server.node("n1", Some("cloud://1"));
    server.node("n2", Some("cloud://2"));
    let cache = ClusterCache::new(members.clone(), options);
    members.connect(&a(), server.client());
    Scene {
        server,
        members,
        cache,
    }
}

fn names(nodes: &[Arc<Node>]) -> Vec<String> {
    nodes.iter().map(|node| node.name_any()).collect()
}

async fn taken(queue: &WorkQueue) -> Vec<String> {
    sleep(Duration::from_secs(2)).await;
    std::iter::from_fn(|| queue.try_next())
        .map(|request| request.name)
        .collect()
}

#[tokio::test(start_paused = true)]
async fn checklist_31_and_40_calls_for_a_disconnected_member_fail_at_once() {
    let Scene { members, cache, .. } = scene(CacheOptions::new());
    let (b, queue) = ("b".parse().unwrap(), WorkQueue::new());
    let watch = ClusterWatch::new("nodes").kind::<Node>();
    let not_connected = |cluster: &ClusterName| ClusterNotConnected {
        cluster: cluster.clone(),
    };
    for cluster in [&b, &a()] {
        members.disconnect(&a());
        assert_eq!(
            cache.uncached_client(cluster).err(),
            Some(not_connected(cluster))
        );
        assert_eq!(cache.reader(cluster).err(), Some(not_connected(cluster)));
        assert_eq!(cache.client(cluster).err(), Some(not_connected(cluster)));
        assert_eq!(
            cache.rest_config(cluster).err(),
            Some(not_connected(cluster))
        );
        assert_eq!(
            cache.watch(cluster, &watch, &queue),
            Err(not_connected(cluster).into())
        );
        assert_eq!(
            cache.client_certificate_key(cluster).await.err(),
            Some(not_connected(cluster).into())
        );
    }
    assert_eq!(cache.last_probe_success(&b), None);
}

#[tokio::test(start_paused = true)]
async fn checklist_33_cached_reads_follow_the_member_and_apply_the_transform() {
    let Scene { server, cache, .. } = scene(CacheOptions::new().nodes_by_provider_id());
    let client = cache.client(&a()).unwrap();
    let node: Arc<Node> = client.get(None, "n1").await.unwrap().unwrap();
    assert_eq!(node.metadata.managed_fields, None);
    let uncached = client.all::<Node>().get("n1").await.unwrap();
    assert_eq!(
        uncached.metadata.managed_fields.map(|fields| fields.len()),
        Some(1)
    );

    let asked = server.requests();
    let all = Selector::default();
    assert_eq!(
        names(&client.list::<Node>(None, &all).await.unwrap()),
        ["n1", "n2"]
    );
    assert_eq!(
        names(
            &client
                .by_index::<Node>(PROVIDER_ID, "cloud://2")
                .await
                .unwrap()
        ),
        ["n2"]
    );
    server.node("n3", Some("cloud://2"));
    server.node("n1", None);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(
        names(
            &client
                .by_index::<Node>(PROVIDER_ID, "cloud://2")
                .await
                .unwrap()
        ),
        ["n2", "n3"]
    );
    assert!(client.get::<Node>(None, "n1").await.unwrap().is_none());
    let pool: Selector = kube::core::Expression::Equal("pool".into(), "cloud://2".into()).into();
    assert_eq!(
        names(&client.list::<Node>(None, &pool).await.unwrap()),
        ["n2", "n3"]
    );
    assert_eq!(
        server.requests(),
        asked,
        "reads from memory send no requests"
    );
    let error = client
        .by_index::<Node>("metadata.name", "n2")
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("no index \"metadata.name\" of Node"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn uncached_kinds_are_never_stored() {
    let Scene { server, cache, .. } = scene(CacheOptions::new().uncached::<Node>());
    let reader = cache.reader(&a()).unwrap();
    for expected in [Some("cloud://1"), Some("cloud://9")] {
        server.node("n1", expected);
        let node: Arc<Node> = reader.get(None, "n1").await.unwrap().unwrap();
        assert_eq!(node.spec.as_ref().unwrap().provider_id.as_deref(), expected);
    }
    assert_eq!(
        reader
            .list::<Node>(None, &Selector::default())
            .await
            .unwrap()
            .len(),
        2
    );
    assert!(server.0.lock().watches.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_restricted_by_its_selectors() {
    let restriction = CacheSelectors {
        label_selector: Some("app=web".into()),
        field_selector: Some("metadata.name=x".into()),
    };
    let Scene { server, cache, .. } = scene(
        CacheOptions::new()
            .restrict::<ConfigMap>(restriction)
            .restrict_to_namespace::<ConfigMap>("web"),
    );
    server.0.lock().objects.clear();
    let reader = cache.reader(&a()).unwrap();
    reader
        .list::<ConfigMap>(None, &Selector::default())
        .await
        .unwrap();
    sleep(Duration::from_secs(1)).await;
    let requests = server.0.lock().requests.clone();
    assert_eq!(requests.len(), 2, "{requests:?}");
    for request in requests {
        assert!(
            request.starts_with("/api/v1/namespaces/web/configmaps"),
            "{request}"
        );
        assert!(
            request.contains("labelSelector=app%3Dweb")
                && request.contains("fieldSelector=metadata.name%3Dx"),
            "{request}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_read_fails_if_the_member_does_not_list_in_time() {
    let Scene { server, cache, .. } = scene(CacheOptions::new());
    server.0.lock().hangs = true;
    let started = Instant::now();
    let error = cache
        .reader(&a())
        .unwrap()
        .get::<Node>(None, "n1")
        .await
        .unwrap_err();
    assert!(
        matches!(error, ClusterReadError::NotSynced { .. })
            && error.to_string().contains("Node of cluster a"),
        "{error}"
    );
    assert_eq!(started.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn checklist_41_42_and_43_a_watch_is_registered_once_by_its_name() {
    let Scene { server, cache, .. } = scene(CacheOptions::new());
    let queue = WorkQueue::new();
    let watch = ClusterWatch::new("nodes").kind::<Node>();
    cache.watch(&a(), &watch, &queue).unwrap();
    cache.watch(&a(), &watch, &queue).unwrap();
    assert_eq!(taken(&queue).await, ["n1", "n2"]);
    assert_eq!(server.0.lock().watches.len(), 1);
    server.node("n2", Some("cloud://3"));
    assert_eq!(taken(&queue).await, ["n2"]);
    assert_eq!(
        cache.watch(&a(), &ClusterWatch::new(""), &queue),
        Err(ClusterWatchError::NameMissing)
    );
    let empty = cache.watch(&a(), &ClusterWatch::new("empty"), &queue);
    assert_eq!(
        empty,
        Err(ClusterWatchError::KindsMissing {
            name: "empty".into()
        })
    );
}

#[tokio::test(start_paused = true)]
async fn checklist_44_a_watch_restarts_after_a_reconnect_and_a_reader_does_not() {
    // In Cluster API a watch is dropped with its connection, and has to be added again.
    let Scene {
        server,
        members,
        cache,
    } = scene(CacheOptions::new());
    let queue = WorkQueue::new();
    cache
        .watch(&a(), &ClusterWatch::new("nodes").kind::<Node>(), &queue)
        .unwrap();
    let reader = cache.reader(&a()).unwrap();
    assert_eq!(taken(&queue).await, ["n1", "n2"]);
    members.disconnect(&a());
    server.node("n3", Some("cloud://3"));
    assert_eq!(taken(&queue).await, [""; 0]);
    assert!(
        server
            .0
            .lock()
            .watches
            .iter()
            .all(mpsc::UnboundedSender::is_closed),
        "nothing follows what is disconnected"
    );
    members.connect(&a(), server.client());
    assert_eq!(taken(&queue).await, ["n1", "n2", "n3"]);
    assert!(matches!(
        reader.get::<Node>(None, "n1").await,
        Err(ClusterReadError::NotConnected(_))
    ));
    assert!(
        cache
            .reader(&a())
            .unwrap()
            .get::<Node>(None, "n3")
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn checklist_45_a_failed_registration_of_a_watch_can_be_retried() {
    let Scene {
        server,
        members,
        cache,
    } = scene(CacheOptions::new());
    let queue = WorkQueue::new();
    let watch = ClusterWatch::new("nodes").kind::<Node>();
    members.disconnect(&a());
    assert!(cache.watch(&a(), &watch, &queue).is_err());
    members.connect(&a(), server.client());
    assert_eq!(taken(&queue).await, [""; 0]);
    cache.watch(&a(), &watch, &queue).unwrap();
    assert_eq!(taken(&queue).await, ["n1", "n2"]);
}

#[tokio::test(start_paused = true)]
async fn predicates_filter_changes_and_resyncs_repeat_all_objects() {
    let Scene { server, cache, .. } = scene(CacheOptions::new().resync(Duration::from_mins(10)));
    let (moved, all) = (WorkQueue::new(), WorkQueue::new());
    let other_provider = |change: &ObjectChange<Node>| match change {
        ObjectChange::Modified { old, new } => old.spec != new.spec,
        _ => false,
    };
    cache
        .watch(
            &a(),
            &ClusterWatch::new("moved").kind_with_predicate(other_provider),
            &moved,
        )
        .unwrap();
    cache
        .watch(&a(), &ClusterWatch::new("all").kind::<Node>(), &all)
        .unwrap();
    assert_eq!(taken(&all).await, ["n1", "n2"]);
    server.node("n1", Some("cloud://1"));
    server.node("n2", Some("cloud://9"));
    assert_eq!(
        (taken(&all).await, taken(&moved).await),
        (vec!["n1".into(), "n2".into()], vec!["n2".to_owned()])
    );
    sleep(Duration::from_mins(10)).await;
    assert_eq!(
        (taken(&all).await, taken(&moved).await),
        (vec!["n1".into(), "n2".into()], Vec::<String>::new())
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_lists_again_and_reports_missed_changes() {
    let Scene { server, cache, .. } = scene(CacheOptions::new());
    let queue = WorkQueue::new();
    cache
        .watch(&a(), &ClusterWatch::new("nodes").kind::<Node>(), &queue)
        .unwrap();
    assert_eq!(taken(&queue).await, ["n1", "n2"]);
    {
        let mut stored = server.0.lock();
        stored.watches.clear();
        stored.expired = true;
    }
    server.node("n1", None);
    server.node("n3", Some("cloud://3"));
    sleep(Duration::from_secs(10)).await;
    assert_eq!(taken(&queue).await, ["n1", "n3"]);
}

#[tokio::test(start_paused = true)]
async fn removing_a_member_ends_its_watches() {
    let Scene {
        server,
        members,
        cache,
    } = scene(CacheOptions::new());
    let queue = WorkQueue::new();
    cache
        .watch(&a(), &ClusterWatch::new("nodes").kind::<Node>(), &queue)
        .unwrap();
    assert_eq!(taken(&queue).await, ["n1", "n2"]);
    members.remove(&a());
    sleep(Duration::from_secs(1)).await;
    members.connect(&a(), server.client());
    assert_eq!(taken(&queue).await, [""; 0]);
}

#[tokio::test]
async fn the_client_certificate_key_is_generated_once_and_outlives_connections() {
    let Scene {
        server,
        members,
        cache,
    } = scene(CacheOptions::new());
    let first = cache.client_certificate_key(&a()).await.unwrap();
    members.connect(&a(), server.client());
    tokio::task::yield_now().await;
    let second = cache.client_certificate_key(&a()).await.unwrap();
    assert_eq!(first.der(), second.der());
    assert!(first.pem().starts_with("-----BEGIN PRIVATE KEY-----"));
    let read = aws_lc_rs::rsa::KeyPair::from_pkcs8(first.der()).unwrap();
    assert_eq!(read.public_modulus_len(), 256);
    assert_eq!(format!("{first:?}"), "ClientCertificateKey (hidden)");
}

#[tokio::test(start_paused = true)]
async fn events_report_connects_and_failing_probes() {
    let Scene {
        server,
        members,
        cache,
    } = scene(CacheOptions::new());
    let mut events = cache.events(&[Duration::from_mins(1)]);
    members.connect(&a(), server.client());
    assert_eq!(
        events.next().await.unwrap().reasons,
        EventReasons {
            connected: true,
            disconnected: true,
            probe_failure: false
        }
    );
    let answered = cache.last_probe_success(&a()).unwrap();
    assert!(answered.duration_until(Timestamp::now()) < SignedDuration::from_secs(60));
    sleep(Duration::from_mins(2)).await;
    members.fail_probe(&a());
    assert!(events.next().await.unwrap().reasons.probe_failure);
    assert!(
        timeout(Duration::from_mins(1), events.next())
            .await
            .is_err()
    );
}
