use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use fleetdex_core::{
    model::{Gvk, Object, Projection, Projector, Resource},
    query::Permitted,
};
use fleetdex_limits::{
    computing::ComputingTurns,
    intake::Budget,
    request::{MEMORY, UserRequest},
};
use fleetdex_query_api::{
    question::{self, Question},
    uri::RequestUri,
};
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, IndexRevision, RevisionStore as _, bulk::Write,
    memory::Memory,
};
use futures::{Stream, StreamExt, future::ready};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::{
    fake,
    read::{query_plan::plan, store_moves::StoreMoves},
    render::representation::{IncludeObject, MetaVersion, OutputKind},
    watch::{event_stream::refusal, peers::Peers},
};

const PODS: &str = "/apis/search.fleetdex.io/v1alpha1/search/api/v1/pods";

/// A store with one live revision, and a catalog that names it.
struct Fleet {
    memory: Memory,
    revision: IndexRevision,
    catalog: watch::Sender<Arc<Catalog>>,
}

impl Fleet {
    async fn new() -> Self {
        let memory = Memory::new();
        let revision = memory
            .open(&fake::cluster("member1"), None, 0)
            .await
            .unwrap();
        memory
            .activate(&revision, &CompleteResources::All)
            .await
            .unwrap();
        let catalog = watch::Sender::new(Arc::new(fake::catalog(Arc::new(memory.clone()))));
        Self {
            memory,
            revision,
            catalog,
        }
    }

    /// Writes a pod; deletes it without labels.
    async fn write(&self, name: &str, version: u64, app: Option<&str>) {
        self.write_all(&[self.pod(name, version, app, "")]).await;
    }

    async fn write_all(&self, writes: &[Write]) {
        self.memory.write(writes).await.unwrap();
    }

    fn pod(&self, name: &str, version: u64, app: Option<&str>, note: &str) -> Write {
        let metadata = json!({
            "name": name, "namespace": "web", "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
            "labels": { "app": app.unwrap_or_default() }, "annotations": { "note": note },
        });
        let json = json!({ "metadata": metadata }).to_string();
        let resource = Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        };
        let projector = Projector::new(
            &self.revision.cluster,
            &resource,
            &Projection::default(),
            &[],
        );
        let mut document = projector
            .document(&Object::parse(&json).unwrap(), "2026-01-01T00:00:00Z")
            .unwrap();
        document.body = document.body.filter(|_| app.is_some());
        Write {
            index: self.revision.target.clone(),
            document,
        }
    }

    async fn watch(&self, query: &str) -> Result<Lines, ApiError> {
        self.watch_as(query, Representation::PLAIN).await
    }

    async fn resumed(&self, version: impl std::fmt::Display) -> Lines {
        let query = format!("watch=1&resourceVersion={version}");
        self.watch(&query).await.unwrap()
    }

    async fn watch_as(
        &self,
        query: &str,
        representation: Representation,
    ) -> Result<Lines, ApiError> {
        let catalog = self.catalog.subscribe();
        let Question::List(request) = question::parse(&RequestUri::parse(PODS, Some(query))?)?
        else {
            panic!("{query} is no list")
        };
        let found = plan(&catalog.borrow(), &request, Permitted::Everything)?;
        let peers = Peers::default()
            .subscribe(&found, &request.resource)
            .await?;
        peers.check(&catalog.borrow())?;
        let planned = StoreMoves::default().planned(&Arc::clone(&catalog.borrow()), &catalog);
        let opened = open(
            planned,
            found,
            &request,
            representation,
            WatchDuration::Short,
            &peers,
        )
        .await;
        let (body, _ends) = opened.or_else(refusal)?;
        Ok(Lines {
            chunks: Box::pin(body.into_data_stream().map(Result::unwrap)),
            left: Vec::new(),
        })
    }

    fn version(&self) -> FleetVersion {
        self.memory
            .sequence()
            .version(self.memory.sequence().newest())
    }
}

/// The events of a response.
struct Lines {
    chunks: std::pin::Pin<Box<dyn Stream<Item = Bytes> + Send>>,
    left: Vec<u8>,
}

impl Lines {
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.left.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.left.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            self.left.extend(self.chunks.next().await?);
        }
    }

    /// `ADDED a 5`, with the version in the cluster.
    async fn next_event(&mut self) -> String {
        let event = self.next().await.unwrap();
        let metadata = &event["object"]["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let own = text(&metadata["annotations"]["fleetdex.io/resource-version"]);
        format!("{} {} {own}", text(&event["type"]), text(&metadata["name"]))
    }
}

#[tokio::test]
async fn a_watch_sends_the_existing_objects_and_then_their_changes() {
    let fleet = Fleet::new().await;
    fleet.write("a", 5, Some("web")).await;
    fleet.write("b", 6, Some("api")).await;
    let mut lines = fleet
        .watch("watch=true&labelSelector=app%3Dweb")
        .await
        .unwrap();
    assert_eq!(lines.next_event().await, "ADDED a 5");
    fleet.write("b", 7, Some("web")).await;
    assert_eq!(lines.next_event().await, "ADDED b 7");
    fleet.write("a", 8, Some("web")).await;
    assert_eq!(lines.next_event().await, "MODIFIED a 8");
    fleet.write("a", 9, Some("api")).await;
    let left = lines.next().await.unwrap();
    assert_eq!(
        (&left["type"], &left["object"]["metadata"]["labels"]["app"]),
        (&json!("DELETED"), &json!("web")),
        "as it was last"
    );
    assert_eq!(
        left["object"]["metadata"]["resourceVersion"],
        fleet.version().to_string(),
        "the version is that of the event"
    );
    fleet.write("b", 10, None).await;
    assert_eq!(lines.next_event().await, "DELETED b 7");
}

#[tokio::test]
async fn a_watch_resumes_from_the_version_of_any_event() {
    let fleet = Fleet::new().await;
    let begins = fleet.version();
    for (name, version) in [("a", 5), ("b", 6), ("c", 7)] {
        fleet.write(name, version, Some("web")).await;
    }
    let mut all = fleet.resumed(begins).await;
    let first = all.next().await.unwrap();
    let after = first["object"]["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut rest = fleet.resumed(after).await;
    assert_eq!(
        [all.next_event().await, all.next_event().await],
        ["ADDED b 6", "ADDED c 7"]
    );
    assert_eq!(
        [rest.next_event().await, rest.next_event().await],
        ["ADDED b 6", "ADDED c 7"]
    );
}

#[tokio::test(start_paused = true)]
async fn bookmarks_mark_the_end_of_the_initial_events_and_the_progress() {
    let fleet = Fleet::new().await;
    fleet.write("a", 5, Some("web")).await;
    let query = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=app";
    let mut lines = fleet.watch(query).await.unwrap();
    assert_eq!(lines.next_event().await, "ADDED a 5");
    let end = lines.next().await.unwrap();
    let expected = json!({ "type": "BOOKMARK", "object": { "kind": "Pod", "apiVersion": "v1", "metadata": {
        "resourceVersion": fleet.version().to_string(), "annotations": { "k8s.io/initial-events-end": "true" },
    } } });
    assert_eq!(end, expected);
    let began = Instant::now();
    fleet.write("b", 6, Some("web")).await;
    assert_eq!(lines.next_event().await, "ADDED b 6");
    let last = lines.next().await.unwrap();
    assert_eq!(
        (
            &last["type"],
            &last["object"]["metadata"]["resourceVersion"]
        ),
        (&json!("BOOKMARK"), &json!(fleet.version().to_string()))
    );
    assert!(
        began.elapsed() < Duration::from_secs(50) && began.elapsed() > Duration::from_secs(40),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(
        lines.next().await,
        None,
        "the aggregation layer would have cut it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_the_clients_timeout() {
    let fleet = Fleet::new().await;
    let began = Instant::now();
    let mut lines = fleet.watch("watch=true&timeoutSeconds=7").await.unwrap();
    assert_eq!(lines.next().await, None, "no bookmarks were requested");
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test]
async fn unknown_and_expired_versions_get_410() {
    let fleet = Fleet::new().await;
    let newest = fleet.version();
    let next = newest.to_string().parse::<u64>().unwrap() + 256;
    let of_another_replica = newest.to_string().parse::<u64>().unwrap() ^ 1;
    for version in [1, next, of_another_replica, u64::MAX] {
        let mut lines = fleet.resumed(version).await;
        let error = lines.next().await.unwrap();
        let (code, reason) = (&error["object"]["code"], &error["object"]["reason"]);
        assert_eq!(
            (&error["type"], code, reason),
            (&json!("ERROR"), &json!(410), &json!("Expired")),
            "{version}"
        );
        assert_eq!(lines.next().await, None);
    }
    assert!(
        fleet
            .watch(&format!("watch=true&resourceVersion={newest}"))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_client_that_reads_too_slowly_has_to_list_again() {
    let fleet = Fleet::new().await;
    let mut lines = fleet.watch("watch=true").await.unwrap();
    fleet.write("a", 5, Some("web")).await;
    assert_eq!(lines.next_event().await, "ADDED a 5");
    for version in 6..16 {
        // Nothing that can be packed: more in all than the log holds.
        let note = || {
            (0..50_000)
                .map(|_| fastrand::alphanumeric())
                .collect::<String>()
        };
        let writes: Vec<Write> = (0..100)
            .map(|number| fleet.pod(&format!("b-{number}"), version, Some("web"), &note()))
            .collect();
        fleet.write_all(&writes).await;
    }
    let mut seen = BTreeMap::new();
    while let Some(event) = lines.next().await {
        *seen
            .entry(event["type"].as_str().unwrap().to_owned())
            .or_insert(0) += 1;
        if event["type"] == "ERROR" {
            assert_eq!(
                (&event["object"]["code"], &event["object"]["reason"]),
                (&json!(410), &json!("Expired"))
            );
            return;
        }
    }
    panic!("no error but {seen:?}");
}

#[tokio::test]
async fn a_watch_ends_when_its_resource_or_the_server_goes() {
    let fleet = Fleet::new().await;
    let mut lines = fleet.watch("watch=true&resourceVersion=0").await.unwrap();
    fleet
        .catalog
        .send_replace(Arc::new(fake::catalog(Arc::new(fleet.memory.clone()))));
    fleet.write("a", 5, Some("web")).await;
    assert_eq!(
        lines.next_event().await,
        "ADDED a 5",
        "the resource is still there"
    );
    fleet.catalog.send_replace(Arc::new(Catalog::default()));
    let error = lines.next().await.unwrap();
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(lines.next().await, None);

    let fleet = Fleet::new().await;
    let mut lines = fleet.watch("watch=true").await.unwrap();
    drop(fleet.catalog);
    assert_eq!(lines.next().await, None);
}

#[tokio::test]
async fn a_watch_that_would_miss_the_clusters_of_another_replica_is_refused() {
    let fleet = Fleet::new().await;
    let mut catalog = fake::catalog(Arc::new(fleet.memory.clone()));
    catalog.add_peer_cluster(fake::cluster("member2"), "fleetdex-1".to_owned());
    fleet.catalog.send_replace(Arc::new(catalog));
    let error = fleet.watch("watch=true").await.err().unwrap();
    assert!(
        error.code() == 400 && error.to_string().contains("fleetdex-1"),
        "{error}"
    );
    assert!(fleet.watch("watch=true&clusters=member1").await.is_ok());
}

#[tokio::test]
async fn table_events_contain_the_columns_only_in_the_first_event() {
    let fleet = Fleet::new().await;
    fleet.write("a", 5, Some("web")).await;
    let form = OutputKind::Table(MetaVersion::V1, IncludeObject::Metadata);
    let mut lines = fleet
        .watch_as(
            "watch=true",
            Representation {
                output: form,
                pretty: true,
                ..Representation::PLAIN
            },
        )
        .await
        .unwrap();
    let first = lines.next().await.unwrap();
    assert_eq!(
        (
            &first["object"]["kind"],
            &first["object"]["columnDefinitions"][0]["name"]
        ),
        (&json!("Table"), &json!("Cluster"))
    );
    fleet.write("a", 6, Some("web")).await;
    let second = lines.next().await.unwrap();
    assert_eq!(
        (&second["type"], &second["object"]["columnDefinitions"]),
        (&json!("MODIFIED"), &Value::Null)
    );
    let version = &second["object"]["rows"][0]["object"]["metadata"]["resourceVersion"];
    assert_eq!(
        (version, &second["object"]["rows"][0]["cells"][0]),
        (&json!(fleet.version().to_string()), &json!("member1"))
    );
}

#[tokio::test]
async fn large_objects_are_sent_a_few_at_a_time() {
    const OBJECT: usize = 100 << 10;
    let fleet = Fleet::new().await;
    let note = "x".repeat(OBJECT);
    let write = async |version: u64| {
        let pods: Vec<Write> = (0..40)
            .map(|number| fleet.pod(&format!("pod-{number}"), version, Some("web"), &note))
            .collect();
        fleet.write_all(&pods).await;
    };
    write(5).await;
    let mut lines = fleet.watch("watch=true").await.unwrap();
    let mut next = async |bound: usize| {
        let mut event_count = 0;
        while event_count < 40 {
            let chunk = lines.chunks.next().await.unwrap();
            assert!(chunk.len() < bound + 2 * OBJECT, "{} bytes", chunk.len());
            event_count += chunk.split(|byte| *byte == b'\n').count() - 1;
        }
        assert_eq!(event_count, 40);
    };
    next(CHUNK_BYTES).await;
    write(6).await;
    next(512 << 10).await;
}

#[tokio::test(start_paused = true)]
async fn large_events_are_in_the_memory_of_the_request_until_they_are_sent() {
    const OBJECT: usize = 2 << 20;
    let (budget, turns) = (Budget::new(MEMORY), ComputingTurns::default());
    let request = || UserRequest::new(&budget, &turns, "alice");
    let fleet = Fleet::new().await;
    let note = "x".repeat(OBJECT);
    let mut lines = fleet.watch("watch=true").await.unwrap();
    let mut next = async |version: u64| {
        let pod = fleet.pod("pod", version, Some("web"), &note);
        fleet.write_all(&[pod]).await;
        let mut lines = lines
            .chunks
            .by_ref()
            .filter(|chunk| ready(!chunk.is_empty()));
        request().scope(lines.next()).await.unwrap()
    };
    let unread = next(5).await;
    assert!(unread.starts_with(br#"{"type":"ADDED""#));
    assert!((OBJECT..OBJECT + (256 << 10)).contains(&budget.held()));
    drop(unread);
    assert_eq!(budget.held(), 0);

    // While others have all but the reserve, a watch waits, and then ends.
    let other = UserRequest::new(&budget, &turns, "bob");
    let mut held = other.memory().reservation();
    held.grow(MEMORY.shared).await.unwrap();
    let refused = next(6).await;
    let refused: Value = serde_json::from_slice(&refused).unwrap();
    assert_eq!(
        (&refused["type"], &refused["object"]["code"]),
        (&json!("ERROR"), &json!(429))
    );
}
