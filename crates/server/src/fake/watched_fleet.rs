//! A fleet in the embedded store whose objects change while clients watch it.

use std::{pin::Pin, sync::Arc};

use axum::body::Body;
use bytes::Bytes;
use fleetdex_core::model::{FleetVersion, Gvk, Object, Projection, Projector, Resource};
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, IndexRevision, RevisionStore as _, bulk::Write,
    memory::Memory,
};
use futures::{Stream, StreamExt as _};
use http::Response;
use serde_json::{Value, json};

use super::{catalog, cluster};
use crate::catalog::Catalog;

/// Group, version, kind, plural, and whether it has namespaces.
pub type FleetKind = (&'static str, &'static str, &'static str, &'static str, bool);

pub const POD: FleetKind = ("", "v1", "Pod", "pods", true);
pub const NODE: FleetKind = ("", "v1", "Node", "nodes", false);
pub const DEPLOYMENT: FleetKind = ("apps", "v1beta1", "Deployment", "deployments", true);

/// Objects of member1, which the store `main` of [`catalog`] holds.
pub struct WatchedFleet {
    memory: Memory,
    revision: IndexRevision,
}

impl WatchedFleet {
    pub async fn new() -> Self {
        let memory = Memory::new();
        let revision = memory.open(&cluster("member1"), None, 0).await.unwrap();
        memory
            .activate(&revision, &CompleteResources::All)
            .await
            .unwrap();
        Self { memory, revision }
    }

    pub fn catalog(&self) -> Catalog {
        catalog(Arc::new(self.memory.clone()))
    }

    /// Writes an object; deletes it without a label. Those with namespaces are in `web`.
    pub async fn write(&self, kind: FleetKind, name: &str, version: u64, app: Option<&str>) {
        self.write_noted(kind, name, version, app, "").await;
    }

    /// The same with an annotation.
    pub async fn write_noted(
        &self,
        kind: FleetKind,
        name: &str,
        version: u64,
        app: Option<&str>,
        note: &str,
    ) {
        let (group, api_version, kind, plural, namespaced) = kind;
        let mut metadata = json!({
            "name": name, "uid": format!("uid-{plural}-{name}"), "resourceVersion": version.to_string(),
            "labels": { "app": app.unwrap_or_default() }, "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": { "note": note },
        });
        if namespaced {
            metadata["namespace"] = "web".into();
        }
        let resource = Resource {
            gvk: Gvk::new(group, api_version, kind),
            plural: plural.into(),
            namespaced,
        };
        let api_version = resource.gvk.api_version();
        let json = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
        let cluster = &self.revision.cluster;
        let projector = Projector::new(cluster, &resource, &Projection::default(), &[]);
        let json = json.to_string();
        let object = Object::parse(&json).unwrap();
        let mut document = projector.document(&object, "2026-01-01T00:00:00Z").unwrap();
        document.body = document.body.filter(|_| app.is_some());
        let index = self.revision.target.clone();
        let write = Write { index, document };
        self.memory.write(&[write]).await.unwrap();
    }

    /// The version of the newest change.
    pub fn version(&self) -> FleetVersion {
        let sequence = self.memory.sequence();
        sequence.version(sequence.newest())
    }
}

/// The events of a watch.
pub struct WatchedLines {
    chunks: Pin<Box<dyn Stream<Item = Bytes> + Send>>,
    left: Vec<u8>,
}

impl WatchedLines {
    pub fn of(response: Response<Body>) -> Self {
        assert_eq!(response.status(), 200);
        let chunks = response.into_body().into_data_stream();
        Self {
            chunks: Box::pin(chunks.map(Result::unwrap)),
            left: Vec::new(),
        }
    }

    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.left.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.left.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            self.left.extend(self.chunks.next().await?);
        }
    }

    /// `ADDED Pod web-0`, `BOOKMARK`, `ERROR 410`.
    pub async fn next_event(&mut self) -> String {
        let event = self.next().await.unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["object"];
        let kind = text(&event["type"]);
        match kind.as_str() {
            "BOOKMARK" => kind,
            "ERROR" => format!("{kind} {}", object["code"]),
            _ => {
                let name = text(&object["metadata"]["name"]);
                format!("{kind} {} {name}", text(&object["kind"]))
            }
        }
    }

    /// The version of the next event or bookmark.
    pub async fn next_version(&mut self) -> String {
        let event = self.next().await.unwrap();
        let version = &event["object"]["metadata"]["resourceVersion"];
        version
            .as_str()
            .unwrap_or_else(|| panic!("{event}"))
            .to_owned()
    }
}
