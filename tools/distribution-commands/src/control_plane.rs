//! Reads objects of the control plane, kind by kind and page by page.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_cli::ControlPlaneArgs;
use fleetdex_clusters::{
    discovery::Discovery,
    fetch::DiscoveryCache,
    request::{self, RequestError},
};
use fleetdex_core::model::{Gvk, Resource, Scope};
use kube::{
    Client,
    api::ListParams,
    client::Body,
    core::{Request, request::Error as QueryError},
};
use serde::Deserialize;
use serde_json::Value;

/// How long one answer of the control plane may take.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Objects of a page.
const PAGE: u32 = 500;

/// Why objects of the control plane are not known.
#[derive(Debug, thiserror::Error)]
pub enum ControlPlaneError {
    /// The kubeconfig does not make a connection.
    #[error("cannot connect to the control plane: {0:#}")]
    Connection(anyhow::Error),
    /// It does not say what it serves.
    #[error("cannot read what the control plane serves")]
    Discovery(#[source] RequestError),
    /// A kind cannot be read.
    #[error("cannot read {kind} of the control plane")]
    List {
        /// The kind.
        kind: Gvk,
        /// Why.
        source: RequestError,
    },
    /// A request cannot be made.
    #[error("cannot ask the control plane for {kind}")]
    Request {
        /// The kind.
        kind: Gvk,
        /// Why.
        source: QueryError,
    },
}

/// A page of a list.
#[derive(Deserialize)]
struct ControlPlanePage {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Value>,
}

/// Where the next page begins.
#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: Option<String>,
}

/// A connection to the control plane, and what that serves.
pub struct ControlPlaneReader {
    client: Client,
    served: Arc<Discovery>,
    /// The namespace of its context.
    pub namespace: String,
}

impl ControlPlaneReader {
    /// Connects, and asks for what is served.
    pub async fn connect(args: &ControlPlaneArgs) -> Result<Self, ControlPlaneError> {
        let config = args.config().await.map_err(ControlPlaneError::Connection)?;
        let client = ControlPlaneArgs::client(&config).map_err(ControlPlaneError::Connection)?;
        let served = DiscoveryCache::default()
            .refresh(&client, TIMEOUT)
            .await
            .map_err(ControlPlaneError::Discovery)?;
        Ok(Self {
            client,
            served,
            namespace: config.default_namespace,
        })
    }

    /// The resource of a kind; `None`: it is not served.
    pub fn resource(&self, kind: &Gvk) -> Option<&Resource> {
        let mut served = self.served.served.iter();
        let found = served.find(|one| one.list_and_watch && one.resource.gvk == *kind)?;
        Some(&found.resource)
    }

    /// The kinds without namespaces, with their groups.
    pub fn cluster_scoped(&self) -> BTreeSet<(String, String)> {
        let served = self.served.served.iter().map(|one| &one.resource);
        let cluster_scoped = served.filter(|resource| !resource.namespaced);
        cluster_scoped
            .map(|resource| {
                (
                    resource.gvk.group.to_string(),
                    resource.gvk.kind.to_string(),
                )
            })
            .collect()
    }

    /// All objects of a kind, in all namespaces.
    pub async fn list(&self, resource: &Resource) -> Result<Vec<Value>, ControlPlaneError> {
        let kind = &resource.gvk;
        let path = resource.path(&Scope::All);
        let mut objects = Vec::new();
        let mut next = None;
        loop {
            let request = page_request(&path, next.as_deref()).map_err(|source| {
                ControlPlaneError::Request {
                    kind: kind.clone(),
                    source,
                }
            })?;
            let page = self.page(&path, request).await;
            let page = page.map_err(|source| ControlPlaneError::List {
                kind: kind.clone(),
                source,
            })?;
            objects.extend(page.items.into_iter().map(|item| typed(kind, item)));
            next = page.metadata.next.filter(|token| !token.is_empty());
            if next.is_none() {
                return Ok(objects);
            }
        }
    }

    async fn page(
        &self,
        path: &str,
        request: http::Request<Vec<u8>>,
    ) -> Result<ControlPlanePage, RequestError> {
        let response = request::send(&self.client, request.map(Body::from), TIMEOUT).await?;
        serde_json::from_slice(&response.body)
            .map_err(|error| RequestError::unreadable(path, &error))
    }
}

fn page_request(path: &str, next: Option<&str>) -> Result<http::Request<Vec<u8>>, QueryError> {
    let mut parameters = ListParams::default().limit(PAGE);
    if let Some(token) = next {
        parameters = parameters.continue_token(token);
    }
    Request::new(path).list(&parameters)
}

/// An item with its type, which items of lists do not say.
fn typed(kind: &Gvk, mut item: Value) -> Value {
    if let Some(members) = item.as_object_mut() {
        members.shift_insert(0, "kind".to_owned(), kind.kind.as_ref().into());
        members.shift_insert(0, "apiVersion".to_owned(), kind.api_version().into());
    }
    item
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_page_begins_where_the_last_one_ended() {
        let uri = |next| {
            page_request("/api/v1/pods", next)
                .unwrap()
                .uri()
                .to_string()
        };
        assert_eq!(uri(None), "/api/v1/pods?&limit=500");
        assert_eq!(
            uri(Some("a+b=")),
            "/api/v1/pods?&limit=500&continue=a%2Bb%3D"
        );
        let page = |text: &str| serde_json::from_str::<ControlPlanePage>(text).unwrap();
        let last = page(r#"{"metadata": {"resourceVersion": "1"}, "items": [{}]}"#);
        assert_eq!((last.metadata.next, last.items.len()), (None, 1));
        let first = page(r#"{"metadata": {"continue": "x"}, "items": []}"#);
        assert_eq!(first.metadata.next.as_deref(), Some("x"));
    }

    #[test]
    fn items_of_lists_get_their_type() {
        let item = typed(
            &Gvk::new("apps", "v1", "Deployment"),
            json!({"metadata": {}}),
        );
        let expected = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {}});
        assert_eq!(item, expected);
    }
}
