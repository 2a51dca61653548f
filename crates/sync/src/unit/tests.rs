//! A unit between a scripted member and the embedded store.

use std::time::Duration;

use bytes::Bytes;
use fleetdex_clusters::watch::{Collection, ListerWatcher};
use fleetdex_core::{
    model::{Gvk, InterpretationLevel, Projection, Projector, Resource, Scope, Unit},
    query::{Hit, Query, ResourceName, Selectable},
};
use fleetdex_interpreter::{
    customization::{Customization, CustomizationSet},
    rules::{KindRules, RuleSet},
    script::ArgoHealth,
};
use fleetdex_store::{
    DocumentVersions as _, Extent, IndexReader as _, IndexRevision, memory::Memory,
};
use fleetdex_telemetry::{Metrics, Traces};
use futures::StreamExt as _;
use http::{Request, Response, header::ACCEPT};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc},
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::{BoxError, service_fn};

use super::*;
use crate::{
    audit::{Audit, Permits},
    checkpoints::UnitKey,
    filter::ObjectFilter,
    progress::{Progress, SelectionCounts, UnitState},
    sink::{Filters, Sink},
    store_fixture::StoreFixture,
};

/// A member with prepared responses: to lists of whole objects, to lists of their metadata, and to
/// one watch.
struct ScriptedMember {
    list: Mutex<String>,
    metadata: Mutex<String>,
    lines: Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>,
}

impl ScriptedMember {
    fn respond(&self, request: &Request<Body>) -> UnsyncBoxBody<Bytes, BoxError> {
        let whole = |text: String| {
            Full::new(Bytes::from(text))
                .map_err(|never| match never {})
                .boxed_unsync()
        };
        if request
            .uri()
            .query()
            .unwrap_or_default()
            .contains("watch=true")
        {
            let Some(lines) = self.lines.lock().take() else {
                return whole(String::new());
            };
            let lines = futures::stream::unfold(lines, |mut lines| async move {
                Some((lines.recv().await?, lines))
            });
            return StreamBody::new(
                lines.map(|line| Ok::<_, BoxError>(http_body::Frame::data(line))),
            )
            .boxed_unsync();
        }
        let is_metadata = request.headers()[ACCEPT]
            .to_str()
            .unwrap()
            .contains("PartialObjectMetadataList");
        let page = if is_metadata {
            &self.metadata
        } else {
            &self.list
        };
        whole(page.lock().clone())
    }
}

/// A unit that watches a member and writes to the embedded store.
struct UnitFixture {
    member: Arc<ScriptedMember>,
    lines: mpsc::UnboundedSender<Bytes>,
    memory: Memory,
    revision: IndexRevision,
    progress: Arc<Progress>,
    audit: Arc<Audit>,
    _tasks: [AbortOnDropHandle<()>; 2],
}

fn widgets() -> Resource {
    Resource {
        gvk: Gvk::new("example.com", "v1", "Widget"),
        plural: "widgets".into(),
        namespaced: true,
    }
}

fn widget(version: u64, spec: &str) -> String {
    let metadata = json!({ "name": "a", "namespace": "n", "uid": "u", "resourceVersion": version.to_string(), "labels": { "app": "web" } });
    format!(r#"{{"metadata":{metadata},"spec":{spec}}}"#)
}

/// Another object, in namespace `x`.
fn widget_in_x(version: u64) -> String {
    let metadata = json!({ "name": "b", "namespace": "x", "uid": "v", "resourceVersion": version.to_string() });
    format!(r#"{{"metadata":{metadata}}}"#)
}

fn in_namespace(name: &str) -> ObjectFilter {
    let selector = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "namespace": name });
    let selector = serde_json::from_value(selector).unwrap();
    let spec = serde_json::from_value(json!({})).unwrap();
    ObjectFilter::new(&selector, &spec, &widgets())
        .unwrap()
        .unwrap()
}

fn page(version: u64, items: &[String]) -> String {
    format!(
        r#"{{"metadata":{{"resourceVersion":"{version}"}},"items":[{}]}}"#,
        items.join(",")
    )
}

fn deep() -> String {
    format!("{}{}", "[".repeat(600), "]".repeat(600))
}

impl UnitFixture {
    /// Watches a member that has these objects, listed at version 9. `redact`: paths that are not
    /// stored.
    async fn new(objects: &[String], redact: &[&str]) -> Self {
        Self::interpreted(objects, redact, None).await
    }

    async fn interpreted(objects: &[String], redact: &[&str], rules: Option<KindRules>) -> Self {
        let (lines, receiver) = mpsc::unbounded_channel();
        let member = Arc::new(ScriptedMember {
            metadata: Mutex::new(page(9, objects)),
            list: Mutex::new(page(9, objects)),
            lines: Mutex::new(Some(receiver)),
        });
        let answering = Arc::clone(&member);
        let service = service_fn(move |request: Request<Body>| {
            let response = Response::new(answering.respond(&request));
            async move { Ok::<_, BoxError>(response) }
        });
        let unit = Unit {
            cluster: "member1".parse().unwrap(),
            resource: widgets(),
            scope: Scope::All,
        };
        let collection = Collection {
            resource: widgets(),
            scope: Scope::All,
            label_selector: None,
            field_selector: None,
        };
        let source = ListerWatcher::new(kube::Client::new(service, "default"), collection);
        let metrics = Metrics::new();
        let store = StoreFixture::start(&unit.cluster, &metrics).await;
        let redact: Vec<String> = redact.iter().map(|path| (*path).to_owned()).collect();
        let projection = Projection::new(&redact, &[]).unwrap();
        let mut projector = Projector::new(&unit.cluster, &unit.resource, &projection, &[]);
        if let Some(rules) = &rules {
            projector = projector.interpreted_by(Arc::new(rules.clone()));
        }
        let progress = Progress::new(unit.cluster.clone(), store.changed);
        let filters = Filters::new(
            &unit.cluster,
            &unit.resource,
            vec![ObjectFilter::default(), in_namespace("x")],
            &[],
            &progress,
        )
        .counting(vec![("all".into(), vec![0]), ("x".into(), vec![1])]);
        let sink = Arc::new(Sink {
            pipeline: store.pipeline,
            projector,
            filters,
        });
        let unit_metrics = || metrics.unit(&unit.cluster, &unit.resource.gvk);
        let audit = Arc::new(Audit {
            unit: unit.clone(),
            source: source.clone(),
            sink: Arc::clone(&sink),
            progress: Arc::clone(&progress),
            metrics: unit_metrics(),
            permits: Permits::default().for_unit(&unit.cluster),
            stop: CancellationToken::new(),
        });
        let task = UnitTask {
            uid: None,
            predecessors: Vec::new(),
            source,
            sink,
            plan: "all".to_owned(),
            rules_hash: None,
            written_status_hash: None,
            stop: CancellationToken::new(),
            is_selective: false,
            progress: Arc::clone(&progress),
            rules,
            enrichment: None,
            lists: Arc::new(Semaphore::new(LISTS_PER_CLUSTER)),
            metrics: unit_metrics(),
            traces: Traces::default(),
            audit: Arc::clone(&audit),
            audit_interval: None,
            unit: unit.clone(),
        };
        let task = AbortOnDropHandle::new(tokio::spawn(task.run()));
        let fixture = Self {
            member,
            lines,
            memory: store.memory,
            revision: store.revision,
            progress,
            audit,
            _tasks: [store.writer, task],
        };
        fixture
            .until("the list is stored", |fixture| {
                fixture.progress.status().state == UnitState::Synced
            })
            .await;
        fixture
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let met = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_mins(1), met)
            .await
            .unwrap_or_else(|_| panic!("{what}: {:?}", self.progress.status()));
    }

    /// Sends an event, and waits until it is stored. From now on the member lists `listed`.
    async fn event(&self, kind: &str, version: u64, object: &str, listed: &[String]) {
        *self.member.metadata.lock() = page(version, listed);
        let line = format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n");
        let bookmark = format!(
            "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n"
        );
        self.lines.send((line + &bookmark).into()).unwrap();
        let is_stored = |fixture: &Self| {
            fixture
                .progress
                .acknowledged()
                .is_some_and(|mark| mark.version.get() >= version)
        };
        self.until("the event is stored", is_stored).await;
    }

    async fn stored(&self) -> Vec<Value> {
        let selectable = Selectable::of(&widgets().gvk, &[]);
        let all = Query::all_of(ResourceName::new("example.com", "widgets"), selectable, 10);
        let found = self.memory.search(&all, None).await.unwrap().items;
        found
            .iter()
            .map(|hit| serde_json::from_str(hit.object.get()).unwrap())
            .collect()
    }

    /// The reasons of the health of all objects.
    async fn reasons(&self) -> Vec<String> {
        let selectable = Selectable::of(&widgets().gvk, &[]);
        let all = Query::all_of(ResourceName::new("example.com", "widgets"), selectable, 10);
        let found = self.memory.search(&all, None).await.unwrap().items;
        let reason = |hit: Hit| hit.interpretation.unwrap().health_reason.clone();
        let mut reasons: Vec<String> = found.into_iter().map(reason).collect();
        reasons.sort();
        reasons
    }

    /// The fallback documents in the store and in the status, and the skipped objects.
    async fn counted(&self) -> (usize, u64, u64) {
        let rejected = self
            .memory
            .rejected(&self.revision, &Extent::of(&self.audit.unit))
            .await
            .unwrap();
        (
            rejected.len(),
            self.progress.rejected(),
            self.progress.skipped(),
        )
    }
}

#[tokio::test(start_paused = true)]
async fn of_an_object_that_is_too_deep_the_identity_is_stored_until_it_is_deleted() {
    let fixture = UnitFixture::new(&[widget(5, "{\"color\":\"red\"}")], &[]).await;
    assert_eq!(fixture.stored().await[0]["spec"]["color"], "red");
    fixture
        .event("MODIFIED", 12, &widget(12, &deep()), &[widget(12, "{}")])
        .await;
    let stored = fixture.stored().await;
    let metadata = &stored[0]["metadata"];
    assert_eq!(
        (
            &metadata["resourceVersion"],
            &metadata["annotations"]["fleetdex.io/redacted"]
        ),
        (&json!("12"), &json!("$"))
    );
    assert!(
        stored.len() == 1 && stored[0].get("spec").is_none() && metadata.get("labels").is_none(),
        "{stored:?}"
    );
    assert_eq!(fixture.counted().await, (1, 1, 0));
    assert_eq!(
        fixture.audit.run().await.unwrap().drift(),
        0,
        "its metadata is not deep"
    );
    fixture
        .event("MODIFIED", 14, &widget(14, "{}"), &[widget(14, "{}")])
        .await;
    assert_eq!(fixture.counted().await, (0, 0, 0));
    fixture
        .event("MODIFIED", 16, &widget(16, &deep()), &[widget(16, "{}")])
        .await;
    fixture
        .event("DELETED", 18, &widget(18, &deep()), &[])
        .await;
    assert!(fixture.stored().await.is_empty());
    assert_eq!(fixture.counted().await, (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_cannot_be_redacted_is_not_stored() {
    // Not too deep to be stored, but for what looks for redactions.
    let secret = format!("{}\"hunter2\"{}", "[".repeat(200), "]".repeat(200));
    let fixture = UnitFixture::new(&[widget(5, &secret)], &["spec..password"]).await;
    assert!(!format!("{:?}", fixture.stored().await).contains("hunter2"));
    assert_eq!(fixture.counted().await, (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn unidentifiable_objects_are_counted_until_a_list_without_them() {
    let fixture = UnitFixture::new(&["{\"metadata\":{\"name\":7}}".to_owned()], &[]).await;
    assert_eq!(fixture.counted().await, (0, 0, 1));
    assert!(fixture.stored().await.is_empty());
    let tracker = &fixture.audit.sink.pipeline.checkpoints.tracker;
    let resumes_from = || {
        tracker
            .resume(
                &fixture.revision,
                &UnitKey::from(&fixture.audit.unit),
                "all",
            )
            .map(|mark| mark.version.get())
    };
    assert_eq!(
        resumes_from(),
        None,
        "it would not be counted after a restart"
    );
    *fixture.member.list.lock() = page(12, &[widget(12, "{}")]);
    fixture
        .lines
        .send("{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n".into())
        .unwrap();
    fixture
        .until("a list without it is stored", |fixture| {
            fixture
                .progress
                .acknowledged()
                .is_some_and(|mark| mark.version.get() == 12)
        })
        .await;
    assert_eq!(
        (fixture.counted().await, fixture.stored().await.len()),
        ((0, 0, 0), 1)
    );
    assert_eq!(resumes_from(), Some(12));
}

/// A script that runs without end for objects that say so.
fn endless_rules() -> KindRules {
    let script = "function InterpretHealth(o) while o.spec.endless do end return true end";
    let customization = Customization::parse(&json!({
        "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterCustomization", "metadata": { "name": "widgets" },
        "spec": {
            "target": { "apiVersion": "example.com/v1", "kind": "Widget" },
            "customizations": { "healthInterpretation": { "luaScript": script } },
        },
    }));
    let customizations = CustomizationSet::new(&customization);
    let rules = RuleSet::new(customizations, ArgoHealth::default(), Vec::new());
    rules
        .of_kind(&widgets(), true, InterpretationLevel::All)
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stream_stops_for_other_rules_when_too_many_runs_of_a_script_reach_a_limit() {
    let rules = endless_rules();
    let fixture = UnitFixture::interpreted(&[widget(5, "{}")], &[], Some(rules.clone())).await;
    let endless = |version| widget(version, "{\"endless\":true}");
    for version in 11..20 {
        fixture
            .event("MODIFIED", version, &endless(version), &[endless(version)])
            .await;
    }
    assert!(!fixture.progress.is_broken());
    for version in 20..22 {
        let line = format!(
            "{{\"type\":\"MODIFIED\",\"object\":{}}}\n",
            endless(version)
        );
        fixture.lines.send(line.into()).unwrap();
    }
    fixture
        .until("the stream stops", |fixture| fixture.progress.is_broken())
        .await;
    assert_eq!(rules.exhausted_scripts().len(), 1);
    assert_eq!(
        fixture.progress.acknowledged(),
        None,
        "only a list repairs what it stores"
    );
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert_eq!(
        fixture.stored().await[0]["metadata"]["resourceVersion"],
        "19",
        "that list writes what other rules say of the object"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stream_stops_for_other_rules_before_it_writes_the_first_status_of_its_kind() {
    let rules = RuleSet::default().of_kind(&widgets(), true, InterpretationLevel::BuiltIn);
    let listed = [widget(5, "{}"), widget_in_x(6)];
    let fixture = UnitFixture::interpreted(&listed, &[], rules.clone()).await;
    assert_eq!(fixture.reasons().await, ["NoController", "NoController"]);
    let failed = widget_in_x(12).replace(
        r#""resourceVersion":"12"}}"#,
        r#""resourceVersion":"12"},"status":{"phase":"Failed"}}"#,
    );
    let line = format!("{{\"type\":\"MODIFIED\",\"object\":{failed}}}\n");
    fixture.lines.send(line.into()).unwrap();
    fixture
        .until("the stream stops", |fixture| fixture.progress.is_broken())
        .await;
    assert!(rules.unwrap().have_seen_status());
    assert_eq!(fixture.progress.acknowledged(), None);
    assert_eq!(fixture.reasons().await, ["NoController", "NoController"]);
}

#[tokio::test(start_paused = true)]
async fn the_objects_of_each_selection_are_counted() {
    let fixture = UnitFixture::new(&[widget(5, "{}"), widget_in_x(6)], &[]).await;
    let counted = |fixture: &UnitFixture| {
        let status = fixture.progress.status();
        let position = fixture.progress.acknowledged().unwrap();
        assert_eq!(position.selected, status.selected, "as a checkpoint has it");
        (status.objects, status.selected["all"], status.selected["x"])
    };
    assert_eq!(counted(&fixture), (2, 2, 1));
    let rest = [widget_in_x(6)];
    fixture.event("DELETED", 12, &widget(12, "{}"), &rest).await;
    assert_eq!(counted(&fixture), (1, 1, 1));
    fixture.event("DELETED", 14, &widget_in_x(14), &[]).await;
    assert_eq!(counted(&fixture), (0, 0, 0));
    let filters = &fixture.audit.sink.filters;
    assert!(filters.are_counted(&fixture.progress.status().selected));
    let former = SelectionCounts::default();
    assert!(
        !filters.are_counted(&former),
        "a checkpoint of an earlier release is not resumed from"
    );
}
