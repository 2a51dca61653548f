//! The enrichment of one stream between a scripted member, a scripted webhook and the embedded
//! store.

use std::sync::atomic::AtomicU32;

use async_trait::async_trait;
use bytes::Bytes;
use fleetdex_clusters::watch::Collection;
use fleetdex_core::{
    model::{
        ClusterName, Document, Gvk, InterpretationLevel, Projection, Projector, Resource, Scope,
    },
    query::{Hit, Query, ResourceName, Selectable},
};
use fleetdex_interpreter::{
    Operation, Request, Response,
    customization::CustomizationSet,
    health::{Assessment, Health},
    request::DependentObject,
    rules::RuleSet,
    script::ArgoHealth,
    webhook::configuration::{Webhook, WebhookConfiguration},
};
use fleetdex_store::{IndexReader as _, memory::Memory};
use fleetdex_telemetry::Metrics;
use fleetdex_webhooks::{
    client::{CallError, CallFailure},
    queue::{Held, QueueLimits},
};
use http::{Request as HttpRequest, Response as HttpResponse, Uri};
use http_body_util::Full;
use kube::client::Body;
use parking_lot::Mutex as SyncMutex;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::{BoxError, service_fn};

use super::{deletions::MAX_DELETIONS, *};
use crate::{
    filter::ObjectFilter,
    progress::StreamPosition,
    sink::{Filters, Wait},
    store_fixture::StoreFixture,
};

/// How the webhooks behave.
#[derive(Clone, Copy, Debug)]
enum Behaviour {
    AnswersAfter(Duration),
    Hangs,
    Fails,
}

/// Webhooks that answer by `spec.healthy`, and name a Secret as the dependency.
struct ScriptedWebhooks {
    behaviour: SyncMutex<Behaviour>,
    /// The names and versions of the objects asked about, in this order.
    asked: SyncMutex<Vec<(String, u64)>>,
}

#[async_trait]
impl CallWebhook for ScriptedWebhooks {
    async fn call(&self, webhook: &Webhook, request: &Request<'_>) -> Result<Response, CallError> {
        let object = request.object();
        let metadata = &object["metadata"];
        let text = |member: &str| metadata[member].as_str().unwrap().to_owned();
        let asked = (text("name"), text("resourceVersion").parse().unwrap());
        self.asked.lock().push(asked);
        let behaviour = *self.behaviour.lock();
        match behaviour {
            Behaviour::AnswersAfter(time) => sleep(time).await,
            Behaviour::Hangs => std::future::pending().await,
            Behaviour::Fails => {
                return Err(CallError {
                    webhook: webhook.id.clone(),
                    failure: CallFailure::Connection("connection refused".to_owned()),
                });
            }
        }
        Ok(match request.operation() {
            Operation::InterpretHealth => Response::Health {
                assessment: Assessment::new(Health::Unknown, "", ""),
                healthy: object["spec"]["healthy"] == true,
            },
            _ => Response::Dependencies(vec![DependentObject {
                api_version: "v1".to_owned(),
                kind: "Secret".to_owned(),
                namespace: "n".to_owned(),
                name: "credentials".to_owned(),
                label_selector: None,
            }]),
        })
    }
}

/// What the member lists, at version 100. Without a list it fails.
#[derive(Default)]
struct ScriptedMember {
    objects: SyncMutex<Option<Vec<String>>>,
    /// What the second page shows; without objects there is none.
    second_page: SyncMutex<Vec<String>>,
    /// Pages that were requested.
    lists: AtomicU32,
    /// Called during each list.
    during_list: SyncMutex<Option<Box<dyn Fn() + Send>>>,
}

impl ScriptedMember {
    fn respond(&self, uri: &Uri) -> HttpResponse<Full<Bytes>> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        if let Some(during) = &*self.during_list.lock() {
            during();
        }
        let continues = uri.query().is_some_and(|query| query.contains("continue="));
        let second_page = self.second_page.lock().clone();
        let token = if continues || second_page.is_empty() {
            ""
        } else {
            "second"
        };
        let objects = if continues {
            Some(second_page)
        } else {
            self.objects.lock().clone()
        };
        match objects {
            Some(objects) => HttpResponse::new(Full::from(format!(
                r#"{{"metadata":{{"resourceVersion":"100","continue":"{token}"}},"items":[{}]}}"#,
                objects.join(",")
            ))),
            None => {
                let mut response = HttpResponse::new(Full::from("{}"));
                *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
                response
            }
        }
    }
}

fn widgets() -> Resource {
    Resource {
        gvk: Gvk::new("example.com", "v1", "Widget"),
        plural: "widgets".into(),
        namespaced: true,
    }
}

fn widget(name: &str, version: u64, healthy: bool) -> String {
    let metadata = json!({ "name": name, "namespace": "n", "uid": name, "resourceVersion": version.to_string() });
    json!({ "metadata": metadata, "spec": { "healthy": healthy }, "status": { "phase": "Ready" } })
        .to_string()
}

fn version(number: u64) -> Version {
    number.to_string().parse().unwrap()
}

/// A configuration of one webhook for each set of operations, in the dialect of the proposal, which
/// has failure policies.
fn rules(failure_policy: &str, operations: &[&[&str]]) -> KindRules {
    let webhook = |(number, operations): (usize, &&[&str])| {
        json!({
            "name": format!("hook{number}"),
            "rules": [{ "operations": operations, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"] }],
            "clientConfig": { "url": "https://webhook.example.com" },
            "exploreReviewVersions": ["v1alpha1"],
            "failurePolicy": failure_policy,
        })
    };
    let webhooks: Vec<Value> = operations.iter().enumerate().map(webhook).collect();
    let configuration = WebhookConfiguration::parse(&json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceExploringWebhookConfiguration",
        "metadata": { "name": "w" },
        "webhooks": webhooks,
    }));
    RuleSet::new(
        CustomizationSet::default(),
        ArgoHealth::default(),
        configuration.unwrap().webhooks,
    )
    .of_kind(&widgets(), false, InterpretationLevel::All)
    .unwrap()
}

fn health_rules(failure_policy: &str) -> KindRules {
    rules(failure_policy, &[&["ExploreHealthy"]])
}

/// Room for so many objects.
fn room_for(parts: usize) -> QueueLimits {
    let held = Held {
        parts,
        bytes: parts << 16,
    };
    QueueLimits {
        total: held,
        webhook: held,
        retries: Held {
            parts: parts / 2,
            bytes: held.bytes / 2,
        },
        ..QueueLimits::default()
    }
}

/// A stored document.
#[derive(Debug)]
struct Stored {
    version: u64,
    health: &'static str,
    reason: String,
    dependencies: usize,
}

/// The enrichment of a stream that has reached version 10.
struct Fixture {
    enrichment: Arc<UnitEnrichment>,
    webhooks: Arc<ScriptedWebhooks>,
    member: Arc<ScriptedMember>,
    source: ListerWatcher,
    memory: Memory,
    target: IndexName,
    tasks: Vec<AbortOnDropHandle<()>>,
}

impl Fixture {
    async fn new(rules: &KindRules, limits: QueueLimits) -> Self {
        let cluster: ClusterName = "member1".parse().unwrap();
        let metrics = Metrics::new();
        let store = StoreFixture::start(&cluster, &metrics).await;
        let progress = Progress::new(cluster.clone(), store.changed);
        let any = vec![ObjectFilter::default()];
        let projector = Projector::new(&cluster, &widgets(), &Projection::default(), &[]);
        let sink = Arc::new(Sink {
            pipeline: store.pipeline,
            projector: projector.interpreted_by(Arc::new(rules.clone())),
            filters: Filters::new(&cluster, &widgets(), any, &[], &progress),
        });
        let webhooks = Arc::new(ScriptedWebhooks {
            behaviour: SyncMutex::new(Behaviour::AnswersAfter(Duration::from_millis(100))),
            asked: SyncMutex::default(),
        });
        let access = WebhookAccess::new(
            Arc::clone(&webhooks) as Arc<dyn CallWebhook>,
            EnrichmentQueue::new(limits, metrics.webhooks()),
        );
        let queue = access.queue.clone();
        let asking = tokio::spawn(async move { queue.run(CancellationToken::new()).await });
        let prefix = "1 main ".to_owned();
        let enrichment = UnitEnrichment::new(rules, &access, &sink, &progress, prefix).unwrap();
        let member = Arc::new(ScriptedMember::default());
        let answering = Arc::clone(&member);
        let service = service_fn(move |request: HttpRequest<Body>| {
            let response = answering.respond(request.uri());
            async move { Ok::<_, BoxError>(response) }
        });
        let collection = Collection {
            resource: widgets(),
            scope: Scope::All,
            label_selector: None,
            field_selector: None,
        };
        Self {
            enrichment,
            webhooks,
            member,
            source: ListerWatcher::new(kube::Client::new(service, "default"), collection),
            memory: store.memory,
            target: store.revision.target,
            tasks: vec![store.writer, AbortOnDropHandle::new(asking)],
        }
    }

    /// The stream opens its revision at version 10, and repeats passes from now on.
    fn start(&mut self, resumes: bool) {
        let progress = &self.enrichment.unit.progress;
        progress.resume_from(StreamPosition {
            version: version(10),
            objects: 0,
            selected: Arc::default(),
        });
        self.enrichment.opened(&self.target, resumes);
        let (enrichment, source) = (Arc::clone(&self.enrichment), self.source.clone());
        let passes = tokio::spawn(async move {
            let _never = enrichment.run_passes(&source).await;
        });
        self.tasks.push(AbortOnDropHandle::new(passes));
    }

    /// A started fixture with one webhook for health.
    async fn asking_for_health(failure_policy: &str, limits: QueueLimits) -> Self {
        let mut fixture = Self::new(&health_rules(failure_policy), limits).await;
        fixture.start(false);
        fixture
    }

    /// Acts while the member answers a list, whose number among all is the last parameter.
    fn during_lists(&self, act: impl Fn(&UnitEnrichment, &ScriptedMember, u32) + Send + 'static) {
        let enrichment = Arc::downgrade(&self.enrichment);
        let member = Arc::downgrade(&self.member);
        *self.member.during_list.lock() = Some(Box::new(move || {
            let (enrichment, member) = (enrichment.upgrade().unwrap(), member.upgrade().unwrap());
            act(&enrichment, &member, member.lists.load(Ordering::SeqCst));
        }));
    }

    fn behave(&self, behaviour: Behaviour) {
        *self.webhooks.behaviour.lock() = behaviour;
    }

    /// Writes and submits an object, as its stream does.
    async fn index(&self, json: &str) {
        let object = Object::parse(json).unwrap();
        let sink = &self.enrichment.unit.sink;
        let document = sink.projector.document(&object, "2026-01-01T00:00:00.000Z");
        self.write(document.unwrap()).await;
        self.enrichment.submit(&object);
    }

    async fn write(&self, document: Document) {
        let EnrichedUnit { sink, progress, .. } = &*self.enrichment.unit;
        let wait = Wait::Never;
        sink.write(progress, &self.target, document, None, None, wait)
            .await;
    }

    async fn stored(&self) -> Vec<Stored> {
        let selectable = Selectable::of(&widgets().gvk, &[]);
        let name = ResourceName::new("example.com", "widgets");
        let all = Query::all_of(name, selectable, 100);
        let found = self.memory.search(&all, None).await.unwrap().items;
        let row = |hit: &Hit| {
            let object: Value = serde_json::from_str(hit.object.get()).unwrap();
            let version = object["metadata"]["resourceVersion"].as_str().unwrap();
            let meaning = hit.interpretation.as_deref().cloned().unwrap_or_default();
            Stored {
                version: version.parse().unwrap(),
                health: meaning.health,
                reason: meaning.health_reason,
                dependencies: meaning.dependencies.len(),
            }
        };
        found.iter().map(row).collect()
    }

    /// Waits until the only document has this version, health and reason.
    async fn until_stored(&self, version: u64, health: &str, reason: &str) {
        self.until(&format!("{version} {health} {reason}"), |stored| {
            let [only] = stored else { return false };
            (only.version, only.health, only.reason.as_str()) == (version, health, reason)
        })
        .await;
    }

    /// Waits until there are so many documents, all of them healthy.
    async fn until_healthy(&self, documents: usize) {
        self.until("all are answered", |stored| {
            stored.len() == documents && stored.iter().all(|found| found.health == "Healthy")
        })
        .await;
    }

    async fn until(&self, what: &str, holds: impl Fn(&[Stored]) -> bool) {
        let met = async {
            while !holds(&self.stored().await) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        let is_met = timeout(Duration::from_hours(1), met).await.is_ok();
        assert!(is_met, "{what}: {:?}", self.stored().await);
    }

    fn asked(&self) -> Vec<(String, u64)> {
        self.webhooks.asked.lock().clone()
    }

    fn lists(&self) -> u32 {
        self.member.lists.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_document_waits_for_no_answer_and_gets_it_at_the_same_version() {
    let fixture = Fixture::asking_for_health("Fail", QueueLimits::default()).await;
    fixture.index(&widget("a", 5, true)).await;
    fixture.until_stored(5, "Unknown", "AwaitingWebhook").await;
    fixture.until_stored(5, "Healthy", "").await;
    fixture.index(&widget("a", 7, false)).await;
    fixture.until_stored(7, "Unknown", "AwaitingWebhook").await;
    fixture.until_stored(7, "Degraded", "Unhealthy").await;
    assert_eq!(fixture.lists(), 0, "no pass was due");
}

#[tokio::test(start_paused = true)]
async fn an_answer_about_an_object_that_has_changed_is_not_written() {
    let fixture = Fixture::asking_for_health("Fail", QueueLimits::default()).await;
    fixture.behave(Behaviour::AnswersAfter(Duration::from_secs(2)));
    fixture.index(&widget("a", 9, true)).await;
    sleep(Duration::from_secs(1)).await;
    fixture.index(&widget("a", 10, false)).await;
    fixture.until_stored(10, "Degraded", "Unhealthy").await;
    assert_eq!(fixture.asked(), [("a".to_owned(), 9), ("a".to_owned(), 10)]);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_written_late_does_not_replace_a_newer_document() {
    let fixture = Fixture::asking_for_health("Fail", QueueLimits::default()).await;
    let older = widget("a", 9, true);
    let object = Object::parse(&older).unwrap();
    fixture.enrichment.submit(&object);
    // The queue does not know of the newer version: it is the store that compares.
    let newer = widget("a", 10, false);
    let projector = &fixture.enrichment.unit.sink.projector;
    let document = projector.document(&Object::parse(&newer).unwrap(), "now");
    fixture.write(document.unwrap()).await;
    sleep(Duration::from_secs(10)).await;
    assert_eq!(fixture.asked(), [("a".to_owned(), 9)]);
    fixture.until_stored(10, "Unknown", "AwaitingWebhook").await;
}

#[tokio::test(start_paused = true)]
async fn the_answers_of_several_webhooks_are_in_one_document() {
    let rules = rules("Fail", &[&["ExploreHealthy"], &["ExploreDependencies"]]);
    let mut fixture = Fixture::new(&rules, QueueLimits::default()).await;
    fixture.start(false);
    fixture.index(&widget("a", 5, true)).await;
    fixture
        .until(
            "both answers",
            |stored| matches!(stored, [only] if only.health == "Healthy" && only.dependencies == 1),
        )
        .await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.asked().len(), 2);
    assert_eq!(fixture.stored().await[0].dependencies, 1);
}

#[tokio::test(start_paused = true)]
async fn what_found_no_room_is_submitted_by_a_pass() {
    let fixture = Fixture::asking_for_health("Fail", room_for(4)).await;
    let objects: Vec<String> = (0..9)
        .map(|number| widget(&format!("w{number}"), number + 1, true))
        .collect();
    *fixture.member.objects.lock() = Some(objects.clone());
    for object in &objects {
        fixture.index(object).await;
    }
    fixture.until_healthy(9).await;
    let lists = fixture.lists();
    assert!(lists > 0);
    sleep(Duration::from_hours(1)).await;
    assert_eq!(fixture.lists(), lists, "no further pass is due");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_resumes_asks_about_the_objects_that_it_has_stored_and_no_others() {
    let mut fixture = Fixture::new(&health_rules("Fail"), QueueLimits::default()).await;
    let objects = [widget("a", 5, true), widget("later", 11, true)];
    *fixture.member.objects.lock() = Some(objects.to_vec());
    fixture.start(true);
    fixture.until_stored(5, "Healthy", "").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(
        (fixture.asked(), fixture.lists()),
        (vec![("a".to_owned(), 5)], 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_page_from_before_a_list_of_the_stream_is_read_again() {
    let mut fixture = Fixture::new(&health_rules("Fail"), QueueLimits::default()).await;
    *fixture.member.objects.lock() = Some(vec![widget("deleted", 5, true)]);
    fixture.during_lists(|enrichment, member, list| {
        if list == 1 {
            enrichment.list_begun();
        } else {
            *member.objects.lock() = Some(vec![widget("a", 6, true)]);
        }
    });
    fixture.start(true);
    fixture.until_stored(6, "Healthy", "").await;
    assert_eq!(fixture.asked(), [("a".to_owned(), 6)]);
}

#[tokio::test(start_paused = true)]
async fn a_pass_does_not_ask_about_an_object_that_was_deleted_after_its_first_page() {
    let mut fixture = Fixture::new(&health_rules("Fail"), QueueLimits::default()).await;
    *fixture.member.objects.lock() = Some(vec![widget("a", 5, true)]);
    *fixture.member.second_page.lock() = vec![widget("deleted", 6, true), widget("b", 7, true)];
    fixture.during_lists(|enrichment, _, list| {
        if list == 2 {
            enrichment.cancel(&enrichment.unit.sink.projector.id("deleted"));
            enrichment.unit.progress.reached(version(12));
        }
    });
    fixture.start(true);
    fixture.until_healthy(2).await;
    sleep(Duration::from_hours(1)).await;
    let mut asked = fixture.asked();
    asked.sort();
    assert_eq!(asked, [("a".to_owned(), 5), ("b".to_owned(), 7)]);
    assert_eq!((fixture.lists(), fixture.stored().await.len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_pass_begins_again_if_the_stream_lists_between_two_pages() {
    let mut fixture = Fixture::new(&health_rules("Fail"), room_for(4)).await;
    fixture.behave(Behaviour::AnswersAfter(Duration::from_secs(10)));
    let first_page = ["a", "b", "c"].map(|name| widget(name, 5, true));
    *fixture.member.objects.lock() = Some(first_page.to_vec());
    // Created after the end of a watch, and deleted before the list that follows: the stream
    // submits no deletion of it.
    *fixture.member.second_page.lock() = vec![widget("unseen", 11, true)];
    fixture.during_lists(|_, member, list| {
        if list == 3 {
            member.second_page.lock().clear();
        }
    });
    fixture.start(true);
    // The first page leaves no room for the second one until there are answers.
    let first_asked = async {
        while fixture.asked().is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_hours(1), first_asked).await.unwrap();
    assert_eq!(fixture.lists(), 1);
    fixture.enrichment.unit.progress.list_started();
    fixture.enrichment.list_begun();
    fixture.enrichment.unit.progress.reached(version(12));
    sleep(Duration::from_hours(1)).await;
    fixture.until_healthy(3).await;
    assert_eq!(fixture.lists(), 3);
    let asked = fixture.asked();
    assert!(asked.iter().all(|(name, _)| name != "unseen"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pass_during_which_too_much_is_deleted_begins_again() {
    let mut fixture = Fixture::new(&health_rules("Fail"), QueueLimits::default()).await;
    *fixture.member.objects.lock() = Some(vec![widget("a", 5, true)]);
    fixture.during_lists(|enrichment, _, list| {
        if list == 1 {
            for number in 0..=MAX_DELETIONS {
                enrichment.deletions.add(&number.to_string());
            }
        }
    });
    fixture.start(true);
    fixture.until_stored(5, "Healthy", "").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(
        (fixture.asked(), fixture.lists()),
        (vec![("a".to_owned(), 5)], 2)
    );
}

#[tokio::test(start_paused = true)]
async fn no_pass_reads_while_the_stream_lists() {
    let mut fixture = Fixture::new(&health_rules("Fail"), QueueLimits::default()).await;
    *fixture.member.objects.lock() = Some(vec![widget("a", 5, true)]);
    fixture.start(true);
    fixture.enrichment.unit.progress.list_started();
    sleep(Duration::from_hours(1)).await;
    assert_eq!(fixture.lists(), 0);
    fixture.enrichment.unit.progress.reached(version(12));
    fixture.until_stored(5, "Healthy", "").await;
}

#[tokio::test(start_paused = true)]
async fn passes_that_fail_are_repeated_less_and_less_often() {
    let mut fixture = Fixture::new(&health_rules("Fail"), QueueLimits::default()).await;
    fixture.start(true);
    sleep(Duration::from_hours(1)).await;
    let in_the_first_hour = fixture.lists();
    assert!((8..=16).contains(&in_the_first_hour), "{in_the_first_hour}");
    sleep(Duration::from_hours(1)).await;
    let in_the_second = fixture.lists() - in_the_first_hour;
    assert!((2..=6).contains(&in_the_second), "{in_the_second}");
    *fixture.member.objects.lock() = Some(vec![widget("a", 5, true)]);
    fixture.until_stored(5, "Healthy", "").await;
}

#[tokio::test(start_paused = true)]
async fn without_an_answer_the_document_says_why_until_the_webhook_is_back() {
    let fixture = Fixture::asking_for_health("Fail", QueueLimits::default()).await;
    fixture.behave(Behaviour::Fails);
    fixture.index(&widget("a", 5, true)).await;
    fixture
        .until_stored(5, "Unknown", "InterpretationFailed")
        .await;
    sleep(Duration::from_mins(10)).await;
    assert!(fixture.asked().len() > 2);
    fixture.behave(Behaviour::AnswersAfter(Duration::from_secs(1)));
    fixture.until_stored(5, "Healthy", "").await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_failed_and_cannot_wait_are_submitted_by_passes() {
    let fixture = Fixture::asking_for_health("Fail", room_for(4)).await;
    let objects: Vec<String> = (0..4)
        .map(|number| widget(&format!("w{number}"), number + 1, true))
        .collect();
    *fixture.member.objects.lock() = Some(objects.clone());
    fixture.behave(Behaviour::Fails);
    for object in &objects {
        fixture.index(object).await;
    }
    sleep(Duration::from_mins(10)).await;
    fixture.behave(Behaviour::AnswersAfter(Duration::from_secs(1)));
    fixture.until_healthy(4).await;
    assert!(fixture.lists() > 0);
}

#[tokio::test(start_paused = true)]
async fn the_next_level_answers_for_a_webhook_whose_failure_is_ignored() {
    let fixture = Fixture::asking_for_health("Ignore", QueueLimits::default()).await;
    fixture.behave(Behaviour::Fails);
    fixture.index(&widget("a", 5, false)).await;
    fixture.until_stored(5, "Healthy", "Ready").await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!((fixture.asked().len(), fixture.lists()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_under_way_does_not_bring_back_a_document_that_a_list_deletes() {
    let fixture = Fixture::asking_for_health("Fail", QueueLimits::default()).await;
    fixture.index(&widget("a", 5, true)).await;
    fixture.until_stored(5, "Unknown", "AwaitingWebhook").await;
    let id = fixture.enrichment.unit.sink.projector.id("a");
    fixture.enrichment.cancel_and_wait(&id).await;
    // At the version of the document: the object may be selected again unchanged.
    fixture.write(Document::deletion(id, version(5))).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.asked().len(), 1);
    assert!(fixture.stored().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_stream_ends_its_questions() {
    let fixture = Fixture::asking_for_health("Fail", QueueLimits::default()).await;
    fixture.behave(Behaviour::Hangs);
    fixture.index(&widget("a", 5, true)).await;
    fixture.index(&widget("b", 6, true)).await;
    fixture
        .until("both are stored", |stored| stored.len() == 2)
        .await;
    let queue = fixture.enrichment.queue.clone();
    assert_eq!(queue.held().parts, 2);
    drop(EnrichmentGuard(Arc::clone(&fixture.enrichment)));
    // The calls under way end with their time, and deliver nothing.
    sleep(Duration::from_mins(10)).await;
    assert_eq!(queue.held(), Held::default());
    fixture.enrichment.unit.progress.drained().await;
    let stored = fixture.stored().await;
    let awaits = |found: &Stored| found.reason == "AwaitingWebhook";
    assert!(stored.iter().all(awaits), "{stored:?}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_acknowledged_counts_as_a_write_of_the_stream() {
    let mut fixture = Fixture::new(&health_rules("Fail"), QueueLimits::default()).await;
    fixture.start(false);
    let writer = fixture.tasks.remove(0);
    writer.abort();
    let json = widget("a", 5, true);
    fixture.enrichment.submit(&Object::parse(&json).unwrap());
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fixture.enrichment.unit.progress.outstanding(), 1);
}
