//! A client of the query API.

mod client_config;
mod error;
mod page;
mod transport;
mod watch;

use std::collections::BTreeMap;

use fleetdex_query_api::{
    answer::{Counts, SearchCompletions},
    group::BASE,
    media_type::{JSON, TABLE},
    percent,
    report::ReportLine,
    warning,
};
use fleetdex_search::Completions;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{HeaderMap, Method, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

pub use self::{
    client_config::ClientConfig,
    error::ClientError,
    page::{ListItem, ListShape, ObjectPage},
    transport::ApiserverClient,
    watch::{TableEvent, WatchReader},
};
use self::{error::malformed_response, transport::Transport};
use super::resources::DiscoveredResource;

/// Concurrent requests for discovery documents.
const DISCOVERIES_AT_ONCE: usize = 8;

/// Where links to the web page are made.
const LINKS_PATH: &str = "/ui/links";

/// A link to the web page.
#[derive(Deserialize)]
struct PageLink {
    path: String,
}

/// A client of one server.
pub struct Api {
    transport: Transport,
}

impl Api {
    /// Fails unless the server is there and serves the fleet.
    pub async fn check(&self) -> Result<(), ClientError> {
        self.discovery::<APIVersions>("api").await.map(drop)
    }

    /// Reads the token or the kubeconfig; sends no request.
    pub async fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        Ok(Self {
            transport: Transport::new(config).await?,
        })
    }

    /// Returns the namespace of the context, or `default`.
    pub fn default_namespace(&self) -> &str {
        self.transport.default_namespace()
    }

    /// Returns a link to the web page that signs its first user in, within five minutes.
    pub async fn page_link(&self) -> Result<String, ClientError> {
        let url = self.transport.url().ok_or(ClientError::NoPage)?;
        let response = self.transport.send(Method::POST, LINKS_PATH, JSON).await?;
        let code = response.code.as_u16();
        let body = response.bytes().await?;
        let link: PageLink = serde_json::from_slice(&body)
            .map_err(|error| malformed_response(LINKS_PATH, code, &error))?;
        Ok(format!("{url}{}", link.path))
    }

    /// Returns every resource that the server serves, the preferred version of each group first.
    pub async fn resources(&self) -> Result<Vec<DiscoveredResource>, ClientError> {
        let core: APIVersions = self.discovery("api").await?;
        let groups: APIGroupList = self.discovery("apis").await?;
        let mut group_versions: Vec<(String, String)> = core
            .versions
            .into_iter()
            .map(|version| (String::new(), version))
            .collect();
        for group in groups.groups {
            group_versions.extend(
                group
                    .versions
                    .into_iter()
                    .map(|entry| (group.name.clone(), entry.version)),
            );
        }
        let lists =
            stream::iter(group_versions).map(|(group, version)| self.resources_of(group, version));
        let resources: Vec<Vec<DiscoveredResource>> =
            lists.buffered(DISCOVERIES_AT_ONCE).try_collect().await?;
        Ok(resources.into_iter().flatten().collect())
    }

    async fn resources_of(
        &self,
        group: String,
        version: String,
    ) -> Result<Vec<DiscoveredResource>, ClientError> {
        let path = if group.is_empty() {
            format!("api/{version}")
        } else {
            format!("apis/{group}/{version}")
        };
        let list: APIResourceList = self.discovery(&path).await?;
        let resources = list
            .resources
            .into_iter()
            .filter(|resource| !resource.name.contains('/'));
        Ok(resources
            .map(|resource| DiscoveredResource {
                group: group.clone(),
                version: version.clone(),
                api: resource,
            })
            .collect())
    }

    /// Returns one page of a list; `path` is the collection's native path.
    pub async fn list(
        &self,
        path: &str,
        parameters: &BTreeMap<&'static str, String>,
        shape: ListShape,
    ) -> Result<ObjectPage, ClientError> {
        let path = below(
            "search",
            path,
            parameters.iter().map(|(key, value)| (*key, value)),
        );
        self.page(&path, shape).await
    }

    /// Watches the objects of a list from the resource version among the parameters on.
    pub async fn watch(
        &self,
        native: &str,
        parameters: &BTreeMap<&'static str, String>,
        shape: ListShape,
    ) -> Result<WatchReader, ClientError> {
        let enabled = String::from("true");
        let flags = ["watch", "allowWatchBookmarks"].map(|flag| (flag, &enabled));
        let pairs = parameters
            .iter()
            .map(|(key, value)| (*key, value))
            .chain(flags);
        self.open_watch(&below("search", native, pairs), shape)
            .await
    }

    /// Watches a search across kinds, from the resource version among the parameters on or from
    /// now.
    pub async fn watch_search(
        &self,
        parameters: &[(&str, String)],
        shape: ListShape,
    ) -> Result<WatchReader, ClientError> {
        let enabled = String::from("true");
        let pairs = pairs(parameters).chain([("watch", &enabled)]);
        self.open_watch(&with_query("objects", pairs), shape).await
    }

    async fn open_watch(
        &self,
        below_group: &str,
        shape: ListShape,
    ) -> Result<WatchReader, ClientError> {
        let path = path(below_group);
        let sending = self.transport.send(Method::GET, &path, media_type(shape));
        let response = sending.await?;
        let warnings = warnings(&response.headers);
        Ok(WatchReader::new(response, path, shape, warnings))
    }

    /// Returns one page of a search across kinds.
    pub async fn search(
        &self,
        parameters: &[(&str, String)],
        shape: ListShape,
    ) -> Result<ObjectPage, ClientError> {
        self.page(&with_query("objects", pairs(parameters)), shape)
            .await
    }

    /// Returns what may stand at the end of a search.
    pub async fn search_completions(&self, text: &str) -> Result<Completions, ClientError> {
        let path = with_query("completions", pairs(&[("q", text.to_owned())]));
        let (served, _): (SearchCompletions, Vec<String>) = self.get_json(&path).await?;
        Ok(served.into())
    }

    /// Returns how the server would query its store for a list.
    pub async fn explanation(
        &self,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<(Value, Vec<String>), ClientError> {
        self.get_json(&below("search", path, pairs(parameters)))
            .await
    }

    /// Counts the objects of a list.
    pub async fn count(
        &self,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<(Counts, Vec<String>), ClientError> {
        self.get_json(&below("aggregate", path, pairs(parameters)))
            .await
    }

    /// Returns a Table below the API's group.
    pub async fn table(
        &self,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<ObjectPage, ClientError> {
        self.page(&with_query(path, pairs(parameters)), ListShape::Table)
            .await
    }

    /// Returns a document below the API's group, and the warnings.
    pub async fn document(
        &self,
        path: &str,
        parameters: &[(&str, String)],
    ) -> Result<(Value, Vec<String>), ClientError> {
        self.get_json(&with_query(path, pairs(parameters))).await
    }

    async fn discovery<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let path = format!("proxying/karmada/proxy/{path}");
        Ok(self.get_json(&path).await?.0)
    }

    async fn page(&self, below_group: &str, shape: ListShape) -> Result<ObjectPage, ClientError> {
        let read = |body: &[u8]| ObjectPage::parse(body, shape);
        let (mut page, warnings) = self.get(below_group, media_type(shape), read).await?;
        page.warnings = warnings;
        Ok(page)
    }

    pub(crate) async fn get_json<T: DeserializeOwned>(
        &self,
        below_group: &str,
    ) -> Result<(T, Vec<String>), ClientError> {
        let read = |body: &[u8]| serde_json::from_slice(body);
        self.get(below_group, JSON, read).await
    }

    /// Returns a document, and the warnings of the response.
    async fn get<T>(
        &self,
        below_group: &str,
        accept: &'static str,
        read: impl FnOnce(&[u8]) -> Result<T, serde_json::Error>,
    ) -> Result<(T, Vec<String>), ClientError> {
        let path = path(below_group);
        let mut response = self.transport.send(Method::GET, &path, accept).await?;
        let code = response.code.as_u16();
        let warnings = warnings(&std::mem::take(&mut response.headers));
        let body = response.bytes().await?;
        let read = read(&body).map_err(|error| malformed_response(&path, code, &error))?;
        Ok((read, warnings))
    }

    /// Verifies these clusters, or all. Calls `take` with every line but the last. A verification
    /// may take hours, so only the time between two lines is bounded.
    pub async fn verify(
        &self,
        clusters: &[String],
        mut take: impl FnMut(ReportLine),
    ) -> Result<(), ClientError> {
        let parameter = if clusters.is_empty() {
            String::new()
        } else {
            format!("?clusters={}", percent::encode(&clusters.join(",")))
        };
        let path = path(&format!("verify{parameter}"));
        let mut response = self.transport.send(Method::POST, &path, JSON).await?;
        let code = response.code.as_u16();
        let mut buffer: Vec<u8> = Vec::new();
        while let Some(piece) = response.next().await? {
            buffer.extend_from_slice(&piece);
            while let Some(end) = memchr::memchr(b'\n', &buffer) {
                let line = serde_json::from_slice(&buffer[..end])
                    .map_err(|error| malformed_response(&path, code, &error))?;
                if let ReportLine::End { .. } = line {
                    return Ok(());
                }
                take(line);
                buffer.drain(..=end);
            }
        }
        Err(ClientError::Truncated {
            server: self.transport.server().to_owned(),
        })
    }
}

fn media_type(shape: ListShape) -> &'static str {
    match shape {
        ListShape::Objects => JSON,
        ListShape::Table => TABLE,
    }
}

fn path(below_group: &str) -> String {
    format!("{BASE}/{below_group}")
}

fn pairs<'p>(parameters: &'p [(&'p str, String)]) -> impl Iterator<Item = (&'p str, &'p String)> {
    parameters.iter().map(|(key, value)| (*key, value))
}

fn below<'p>(
    what: &str,
    native: &str,
    parameters: impl Iterator<Item = (&'p str, &'p String)>,
) -> String {
    with_query(&format!("{what}/{native}"), parameters)
}

fn with_query<'p>(path: &str, parameters: impl Iterator<Item = (&'p str, &'p String)>) -> String {
    let pairs: Vec<String> = parameters
        .map(|(key, value)| format!("{key}={}", percent::encode(value)))
        .collect();
    format!("{path}?{}", pairs.join("&"))
}

/// Returns the texts of `Warning: 299 - "text"` headers.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers
        .get_all(header::WARNING)
        .iter()
        .filter_map(|value| value.to_str().ok());
    values.filter_map(warning::text).collect()
}
