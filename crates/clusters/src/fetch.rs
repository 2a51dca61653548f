//! Reads readiness, version, identity and discovery of a member. Unchanged discovery costs one
//! small `304` per path.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use http::{
    HeaderMap, HeaderValue, StatusCode,
    header::{ACCEPT, ETAG, IF_NONE_MATCH},
};
use kube::Client;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;

use super::{
    discovery::{self, Discovery, DiscoveryReader, GroupVersion},
    request::{self, RequestError},
    source::HistorySample,
};

/// The newest form first; a server uses the first that it supports.
const ACCEPT_DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                                application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                                application/json";
/// Longest version of a member, in characters; those of Kubernetes and its distributions have some
/// 20.
const MAX_VERSION: usize = 64;
/// Concurrent requests for the groups of a member without aggregated discovery.
const CLASSIC_REQUESTS: usize = 4;

/// The discovery of one connection, with the entity tags for conditional requests.
#[derive(Debug, Default)]
pub struct DiscoveryCache {
    core: DiscoveryRoot,
    groups: DiscoveryRoot,
    joined: Option<Arc<Discovery>>,
}

#[derive(Debug, Default)]
struct DiscoveryRoot {
    tag: Option<HeaderValue>,
    found: Discovery,
}

impl DiscoveryCache {
    /// For a new connection to a member that served `previous`, whose groups stay known if they do
    /// not answer now.
    pub fn after(previous: Option<Arc<Discovery>>) -> Self {
        Self {
            joined: previous,
            ..Self::default()
        }
    }

    /// Refreshes the discovery. Returns the same `Arc` if nothing changed. Each request takes at
    /// most `timeout`.
    pub async fn refresh(
        &mut self,
        client: &Client,
        timeout: Duration,
    ) -> Result<Arc<Discovery>, RequestError> {
        let (core, groups) = tokio::join!(
            self.core.fetch(client, "/api", timeout),
            self.groups.fetch(client, "/apis", timeout)
        );
        let (core, groups) = (core?, groups?);
        let changed = core.is_some() || groups.is_some();
        self.core = core.unwrap_or_else(|| std::mem::take(&mut self.core));
        self.groups = groups.unwrap_or_else(|| std::mem::take(&mut self.groups));
        match &self.joined {
            Some(joined) if !changed => Ok(joined.clone()),
            _ => Ok(self.join()),
        }
    }

    fn join(&mut self) -> Arc<Discovery> {
        let mut found = Discovery::join(self.core.found.clone(), self.groups.found.clone());
        if let Some(previous) = &self.joined {
            found = found.retaining_unknown_of(previous);
        }
        let same = self
            .joined
            .as_ref()
            .filter(|previous| ***previous == found)
            .cloned();
        let joined = same.unwrap_or_else(|| Arc::new(found));
        self.joined = Some(joined.clone());
        joined
    }
}

impl DiscoveryRoot {
    /// Returns the current discovery, or `None` if it did not change.
    async fn fetch(
        &self,
        client: &Client,
        path: &str,
        timeout: Duration,
    ) -> Result<Option<Self>, RequestError> {
        let mut headers =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPT_DISCOVERY))]);
        if let Some(tag) = &self.tag {
            headers.insert(IF_NONE_MATCH, tag.clone());
        }
        let response = match request::get(client, path, headers, timeout).await {
            Ok(response) => response,
            // A server may lack the core group, or all others; but not if it had them before.
            Err(error)
                if error.status() == Some(StatusCode::NOT_FOUND)
                    && self.found == Discovery::default() =>
            {
                return Ok(Some(Self::default()));
            }
            Err(error) => return Err(error),
        };
        if response.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let unreadable = |error: serde_json::Error| RequestError::unreadable(path, &error);
        let mut reader = DiscoveryReader::default();
        match reader.response(&response.body).map_err(unreadable)? {
            discovery::DiscoveryResponse::Aggregated(found) => Ok(Some(Self {
                tag: response.headers.get(ETAG).cloned(),
                found,
            })),
            discovery::DiscoveryResponse::Classic(versions) => {
                drop(response);
                let found = fetch_classic(client, versions, reader, timeout).await?;
                Ok(Some(Self { tag: None, found }))
            }
        }
    }
}

/// Requests each group version. One that does not answer is unknown; it is an error if all fail.
async fn fetch_classic(
    client: &Client,
    versions: Vec<GroupVersion>,
    reader: DiscoveryReader,
    timeout: Duration,
) -> Result<Discovery, RequestError> {
    let requested = versions.len();
    let reader = Mutex::new(reader);
    let reader = &reader;
    let fetch = |version: GroupVersion| async move {
        let resources = fetch_resources(client, &version, reader, timeout).await;
        (version, resources)
    };
    let mut responses = stream::iter(versions).map(fetch).buffered(CLASSIC_REQUESTS);
    let mut found = Discovery::default();
    let mut failed = 0;
    while let Some((version, resources)) = responses.next().await {
        match resources {
            Ok(resources) => found = Discovery::join(found, resources),
            Err(error) if error.status() == Some(StatusCode::UNAUTHORIZED) => return Err(error),
            Err(error) if failed + 1 == requested => return Err(error),
            Err(error) => {
                tracing::debug!(group_version = version.name, %error, "a group did not answer discovery");
                failed += 1;
                found.unknown.insert(version.name);
            }
        }
    }
    found.left_out = reader.lock().left_out();
    Ok(found)
}

async fn fetch_resources(
    client: &Client,
    version: &GroupVersion,
    reader: &Mutex<DiscoveryReader>,
    timeout: Duration,
) -> Result<Discovery, RequestError> {
    let path = version.path();
    let response = request::get(client, &path, HeaderMap::new(), timeout).await?;
    reader
        .lock()
        .resources(version, &response.body)
        .map_err(|error| RequestError::unreadable(&path, &error))
}

/// The member's Kubernetes version, such as `v1.36.3`.
pub async fn kubernetes_version(
    client: &Client,
    timeout: Duration,
) -> Result<String, RequestError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct VersionInfo {
        git_version: String,
    }
    let version: VersionInfo = get_json(client, "/version", timeout).await?;
    // It is shown in a status, so only characters that a version may have.
    Ok(version
        .git_version
        .chars()
        .filter(char::is_ascii_graphic)
        .take(MAX_VERSION)
        .collect())
}

/// The cluster UID, that of the namespace `kube-system`, which distinguishes a cluster from another
/// one of the same name. `None` if it may not be read or there is no such namespace.
pub async fn cluster_uid(
    client: &Client,
    timeout: Duration,
) -> Result<Option<String>, RequestError> {
    uid_of(client, "/api/v1/namespaces/kube-system", timeout).await
}

/// The lists that a history is sampled from: objects that every cluster has, and objects that are
/// written all the time. The limit is that of [`HistorySample`].
const HISTORY: [&str; 2] = [
    "/api/v1/namespaces?limit=500",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?limit=500",
];
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Samples a member's history, list by list; `None` for a list that may not be read.
pub async fn history(
    client: &Client,
    timeout: Duration,
) -> Result<Vec<Option<HistorySample>>, RequestError> {
    let mut samples = Vec::with_capacity(HISTORY.len());
    for path in HISTORY {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPT_METADATA))]);
        samples.push(match request::get(client, path, headers, timeout).await {
            Ok(response) => HistorySample::parse(&response.body),
            Err(error) if error.is_forbidden_or_absent() => None,
            Err(error) => return Err(error),
        });
    }
    Ok(samples)
}

/// Longest UID, in characters. Those of Kubernetes have 36.
const MAX_UID: usize = 64;

/// Whether a text is a valid UID. It is used in the settings of indices, in paths of checkpoints
/// and in statuses.
fn is_uid(text: &str) -> bool {
    (1..=MAX_UID).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The UID of an object; `None` if it may not be read or does not exist.
async fn uid_of(
    client: &Client,
    path: &str,
    timeout: Duration,
) -> Result<Option<String>, RequestError> {
    #[derive(serde::Deserialize)]
    struct UidObject {
        metadata: UidMetadata,
    }
    #[derive(serde::Deserialize)]
    struct UidMetadata {
        uid: String,
    }
    let object: Result<UidObject, _> = get_json(client, path, timeout).await;
    match object {
        Ok(UidObject {
            metadata: UidMetadata { uid },
        }) if is_uid(&uid) => Ok(Some(uid)),
        Ok(_) => {
            let fault =
                format!("metadata.uid does not consist of 1 to {MAX_UID} letters, digits and -");
            Err(RequestError::Unreadable {
                request: format!("GET {path}"),
                fault,
            })
        }
        Err(error) if error.is_forbidden_or_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The Pod that this program runs in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl OwnPod {
    /// Reads `POD_NAMESPACE`, `POD_NAME` and `POD_UID`, which the downward API sets; `None` unless
    /// all three are set.
    pub fn from_env() -> Option<Self> {
        let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self {
            namespace: read("POD_NAMESPACE")?,
            name: read("POD_NAME")?,
            uid: read("POD_UID")?,
        })
    }
}

/// Whether a member is the cluster that this program runs in, as it has the same Pod. A member
/// whose Pod may not be read counts as another cluster.
pub async fn is_own(
    client: &Client,
    pod: Option<&OwnPod>,
    timeout: Duration,
) -> Result<bool, RequestError> {
    let Some(OwnPod {
        namespace,
        name,
        uid,
    }) = pod
    else {
        return Ok(false);
    };
    Ok(uid_of(
        client,
        &format!("/api/v1/namespaces/{namespace}/pods/{name}"),
        timeout,
    )
    .await?
    .as_ref()
        == Some(uid))
}

/// Whether the API server is ready. Servers older than Kubernetes 1.16 have only `/healthz`.
pub async fn ready(client: &Client, timeout: Duration) -> Result<(), RequestError> {
    match request::get(client, "/readyz", HeaderMap::new(), timeout).await {
        Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {
            request::get(client, "/healthz", HeaderMap::new(), timeout)
                .await
                .map(drop)
        }
        response => response.map(drop),
    }
}

async fn get_json<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    timeout: Duration,
) -> Result<T, RequestError> {
    let response = request::get(client, path, HeaderMap::new(), timeout).await?;
    serde_json::from_slice(&response.body).map_err(|error| RequestError::unreadable(path, &error))
}

#[cfg(test)]
mod tests;
