//! A member and a store in memory, with a unit between them, for tests.
#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::unwrap_used,
    reason = "for tests only"
)]

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use fleetdex_clusters::watch::{Collection, ListerWatcher};
use fleetdex_core::model::{Gvk, Projection, Projector, Resource, Scope, Unit, Version};
use fleetdex_replicas::write_fence::WriteFence;
use fleetdex_store::{
    IndexWriter,
    fake::{PreparedReader, PreparedWriter},
};
use fleetdex_telemetry::Metrics;
use http::{Request, Response, StatusCode, header::ACCEPT};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tower::{BoxError, service_fn};

use super::{Audit, Permits};
use crate::{
    filter::ObjectFilter,
    pipeline::{OpenStore, OpenedStore, Pipeline, PipelineLimits, Unavailable},
    progress::{Progress, StreamPosition},
    sink::{Filters, Sink},
};

/// The objects of a member, and the requests that it received.
#[derive(Default)]
pub struct FakeMember {
    pub version: u64,
    /// Versions by UID.
    pub objects: BTreeMap<String, u64>,
    /// The status of every response.
    pub fails: Option<StatusCode>,
    /// A list has this many objects on each page, whatever the limit, and no end.
    pub endless: Option<usize>,
    /// The delay of each response.
    pub delay: Duration,
    /// Path and `Accept` of each request.
    pub requests: Vec<(String, String)>,
}

impl FakeMember {
    fn endless_page(&self, from: &str, objects: usize) -> String {
        let from: usize = from.parse().unwrap_or_default();
        let object = |number| {
            format!(r#"{{"metadata":{{"name":"a","uid":"{number}","resourceVersion":"1"}}}}"#)
        };
        let items: Vec<String> = (from..from + objects).map(object).collect();
        let (version, next) = (self.version, from + objects.max(1));
        format!(
            r#"{{"metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
            items.join(",")
        )
    }

    fn page(&self, uri: &http::Uri) -> String {
        let parameters: BTreeMap<&str, &str> = uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .collect();
        let limit = parameters["limit"].parse().unwrap();
        let from = parameters.get("continue").copied().unwrap_or_default();
        if let Some(objects) = self.endless {
            return self.endless_page(from, objects);
        }
        let mut rest = self.objects.iter().filter(|(uid, _)| uid.as_str() > from);
        let items: Vec<_> = rest.by_ref().take(limit).collect();
        let next = items
            .last()
            .filter(|_| rest.next().is_some())
            .map(|(uid, _)| (*uid).clone());
        let object = |(uid, version): &(&String, &u64)| json!({ "metadata": { "name": format!("name-{uid}"), "uid": uid, "resourceVersion": version.to_string() } });
        let metadata = json!({ "resourceVersion": self.version.to_string(), "continue": next.unwrap_or_default() });
        json!({ "metadata": metadata, "items": items.iter().map(object).collect::<Vec<_>>() })
            .to_string()
    }
}

fn client(member: &Arc<Mutex<FakeMember>>) -> kube::Client {
    let member = Arc::clone(member);
    let service = service_fn(move |request: Request<Body>| {
        let member = Arc::clone(&member);
        async move {
            let delay = {
                let mut member = member.lock();
                let accept = request.headers()[ACCEPT].to_str().unwrap().to_owned();
                member.requests.push((request.uri().to_string(), accept));
                member.delay
            };
            tokio::time::sleep(delay).await;
            let member = member.lock();
            let mut response = Response::new(Body::from(member.page(request.uri()).into_bytes()));
            *response.status_mut() = member.fails.unwrap_or(StatusCode::OK);
            Ok::<_, BoxError>(response)
        }
    });
    kube::Client::new(service, "default")
}

struct FakeOpener(Arc<PreparedWriter>);

#[async_trait]
impl OpenStore for FakeOpener {
    async fn open(&self) -> Result<OpenedStore, Unavailable> {
        Ok(OpenedStore {
            writer: Arc::clone(&self.0) as Arc<dyn IndexWriter>,
            reader: PreparedReader::with(Vec::new()),
        })
    }

    async fn changed(&self) -> bool {
        false
    }
}

/// A unit in sync at version 10, with its member, store and audit.
pub struct AuditFixture {
    pub audit: Arc<Audit>,
    pub member: Arc<Mutex<FakeMember>>,
    pub store: Arc<PreparedWriter>,
    pub metrics: Arc<Metrics>,
    _writer: AbortOnDropHandle<()>,
}

pub fn version(number: u64) -> Version {
    number.to_string().parse().unwrap()
}

fn unit(cluster: &str) -> Unit {
    let resource = Resource {
        gvk: Gvk::new("", "v1", "ConfigMap"),
        plural: "configmaps".into(),
        namespaced: true,
    };
    Unit {
        cluster: cluster.parse().unwrap(),
        resource,
        scope: Scope::All,
    }
}

impl AuditFixture {
    /// All `ConfigMaps` of a cluster are selected.
    pub async fn new(cluster: &str) -> Self {
        Self::with(cluster, ObjectFilter::default(), &mut Permits::default()).await
    }

    pub async fn with(cluster: &str, filter: ObjectFilter, permits: &mut Permits) -> Self {
        let unit = unit(cluster);
        let member = Arc::new(Mutex::new(FakeMember {
            version: 10,
            ..FakeMember::default()
        }));
        let store = Arc::new(PreparedWriter::default());
        let metrics = Arc::new(Metrics::new());
        let changed = Arc::new(Notify::new());
        let name = "main".parse().unwrap();
        let pipeline = Pipeline::new(
            name,
            PipelineLimits::default(),
            WriteFence::OPEN,
            metrics.store(&"main".parse().unwrap()),
            Arc::clone(&changed),
        );
        let opener = Arc::new(FakeOpener(Arc::clone(&store)));
        let writer = tokio::spawn(pipeline.clone().run(
            opener,
            CancellationToken::new(),
            Duration::from_secs(1),
        ));
        pipeline.revisions.open(&unit.cluster, None).await.unwrap();
        let collection = Collection {
            resource: unit.resource.clone(),
            scope: unit.scope.clone(),
            label_selector: None,
            field_selector: None,
        };
        let projector = Projector::new(&unit.cluster, &unit.resource, &Projection::default(), &[]);
        let progress = Progress::new(unit.cluster.clone(), changed);
        let filters = Filters::new(&unit.cluster, &unit.resource, vec![filter], &[], &progress);
        progress.resume_from(StreamPosition {
            version: version(10),
            objects: 0,
            selected: Arc::default(),
        });
        let audit = Audit {
            source: ListerWatcher::new(client(&member), collection),
            sink: Arc::new(Sink {
                pipeline,
                projector,
                filters,
            }),
            progress,
            metrics: metrics.unit(&unit.cluster, &unit.resource.gvk),
            permits: permits.for_unit(&unit.cluster),
            stop: CancellationToken::new(),
            unit,
        };
        Self {
            audit: Arc::new(audit),
            member,
            store,
            metrics,
            _writer: AbortOnDropHandle::new(writer),
        }
    }

    /// Sets the objects of the member, by UID and version.
    pub fn has(&self, objects: &[(&str, u64)]) {
        let objects = objects
            .iter()
            .map(|(uid, number)| ((*uid).to_owned(), *number));
        self.member.lock().objects = objects.collect();
    }

    /// Sets the stored documents, by UID and version.
    pub fn stores(&self, documents: &[(&str, u64)]) {
        let documents = documents
            .iter()
            .map(|(uid, number)| (format!("v1/ConfigMap/{uid}"), version(*number)));
        *self.store.documents.lock() = documents.collect();
    }

    /// The value of a counter.
    pub fn counter(&self, line: &str) -> u64 {
        let text = self.metrics.encode().unwrap();
        let value = text
            .lines()
            .find_map(|found| found.strip_prefix(line))
            .unwrap_or_default();
        value
            .trim()
            .parse()
            .unwrap_or_else(|_| panic!("no {line} in {text}"))
    }
}
