//! Reads objects of the control plane, kind by kind and page by page.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fleetdex_cli::ControlPlaneArgs;
use fleetdex_clusters::{
    discovery::{Discovery, ServedResource},
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
/// A page that is too large is asked for again with a quarter of its objects.
const SHRINKING: u32 = 4;

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

    /// What it serves.
    pub fn served(&self) -> Arc<Discovery> {
        Arc::clone(&self.served)
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

    /// The resources that a word names, as kubectl does: a plural, a singular, a kind or a short
    /// name, alone or followed by `.group`; the start of a group is enough.
    pub fn named(&self, word: &str) -> Vec<&Resource> {
        let (name, group) = word.split_once('.').unwrap_or((word, ""));
        let is_called = |one: &&ServedResource| {
            let full_names = [&one.resource.plural, &one.singular, &one.resource.gvk.kind];
            let mut full_names = full_names.into_iter();
            full_names.any(|full| full.eq_ignore_ascii_case(name))
                || one.short_names.iter().any(|short| **short == *name)
        };
        let served = self.served.served.iter();
        let named = served.filter(|one| one.list_and_watch && !name.is_empty());
        let named = named.filter(is_called).map(|one| &one.resource);
        named
            .filter(|resource| resource.gvk.group.starts_with(group))
            .collect()
    }

    /// All objects of a kind, in all namespaces.
    pub async fn list(&self, resource: &Resource) -> Result<Vec<Value>, ControlPlaneError> {
        let mut objects = Vec::new();
        let mut pages = self.pages(resource, &Scope::All, None, PAGE);
        while let Some(page) = pages.next().await? {
            objects.extend(page);
        }
        Ok(objects)
    }

    /// The objects of a kind page by page; only the one of a name, if there is one. `size`: the
    /// objects of a page. A page of more bytes than are read is asked for again with fewer.
    pub fn pages(
        &self,
        resource: &Resource,
        scope: &Scope,
        name: Option<&str>,
        size: u32,
    ) -> ControlPlanePages {
        ControlPlanePages {
            client: self.client.clone(),
            kind: resource.gvk.clone(),
            path: resource.path(scope),
            name: name.map(str::to_owned),
            size,
            next: None,
            is_over: false,
        }
    }
}

/// The pages of a list.
pub struct ControlPlanePages {
    client: Client,
    kind: Gvk,
    path: String,
    name: Option<String>,
    size: u32,
    next: Option<String>,
    is_over: bool,
}

impl ControlPlanePages {
    /// The objects of the next page; `None` after the last one.
    pub async fn next(&mut self) -> Result<Option<Vec<Value>>, ControlPlaneError> {
        if self.is_over {
            return Ok(None);
        }
        let page = self.page().await?;
        self.next = page.metadata.next.filter(|token| !token.is_empty());
        self.is_over = self.next.is_none();
        let items = page.items.into_iter();
        Ok(Some(items.map(|item| typed(&self.kind, item)).collect()))
    }

    async fn page(&mut self) -> Result<ControlPlanePage, ControlPlaneError> {
        loop {
            let (name, next) = (self.name.as_deref(), self.next.as_deref());
            let request = page_request(&self.path, name, next, self.size);
            let request = request.map_err(|source| ControlPlaneError::Request {
                kind: self.kind.clone(),
                source,
            })?;
            match self.read(request).await {
                Err(RequestError::Unread { .. }) if self.size > 1 => {
                    self.size = (self.size / SHRINKING).max(1);
                }
                read => {
                    return read.map_err(|source| ControlPlaneError::List {
                        kind: self.kind.clone(),
                        source,
                    });
                }
            }
        }
    }

    async fn read(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<ControlPlanePage, RequestError> {
        let response = request::send(&self.client, request.map(Body::from), TIMEOUT).await?;
        serde_json::from_slice(&response.body)
            .map_err(|error| RequestError::unreadable(&self.path, &error))
    }
}

/// The request for a page; `name`: of the one object that it has.
fn page_request(
    path: &str,
    name: Option<&str>,
    next: Option<&str>,
    size: u32,
) -> Result<http::Request<Vec<u8>>, QueryError> {
    let mut parameters = ListParams::default().limit(size);
    if let Some(name) = name {
        parameters = parameters.fields(&format!("metadata.name={name}"));
    }
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
        let uri = |next, name| {
            let request = page_request("/api/v1/pods", name, next, 500).unwrap();
            request.uri().to_string()
        };
        assert_eq!(uri(None, None), "/api/v1/pods?&limit=500");
        assert_eq!(
            uri(Some("a+b="), None),
            "/api/v1/pods?&limit=500&continue=a%2Bb%3D"
        );
        assert_eq!(
            uri(None, Some("web")),
            "/api/v1/pods?&fieldSelector=metadata.name%3Dweb&limit=500"
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
