//! Fetches what a member is and what it serves. Unchanged discovery costs one small `304` per path.

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
    discovery::{self, Discovery, GroupVersion, Reader},
    request::{self, RequestError},
    source::Sample,
};

/// The newest shape first; a server takes the first that it knows.
const ACCEPT_DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                                application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                                application/json";
/// Characters of a member's version at most; those of Kubernetes and its distributions have some 20.
const MAX_VERSION: usize = 64;
/// How many groups of a member without aggregated discovery are asked at a time.
const CLASSIC_REQUESTS: usize = 4;

/// The discovery of one connection, and what is needed to ask only for changes of it.
#[derive(Debug, Default)]
pub struct DiscoveryCache {
    core: Part,
    groups: Part,
    joined: Option<Arc<Discovery>>,
}

#[derive(Debug, Default)]
struct Part {
    tag: Option<HeaderValue>,
    found: Discovery,
}

impl DiscoveryCache {
    /// For a new connection to a member that served `previous` before: what of it does not answer now is still known.
    pub fn after(previous: Option<Arc<Discovery>>) -> Self {
        Self {
            joined: previous,
            ..Self::default()
        }
    }

    /// Asks the member again. The same `Arc` comes back when nothing changed. Each request takes at most `timeout`.
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
            found = found.keeping_unknown_of(previous);
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

impl Part {
    /// The part as it is now, or `None` if it did not change.
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
        let answer = match request::get(client, path, headers, timeout).await {
            Ok(answer) => answer,
            // A server without core groups, or without any other, is still a server; but one that had them has them.
            Err(error)
                if error.status() == Some(StatusCode::NOT_FOUND)
                    && self.found == Discovery::default() =>
            {
                return Ok(Some(Self::default()));
            }
            Err(error) => return Err(error),
        };
        if answer.status == StatusCode::NOT_MODIFIED {
            return Ok(None);
        }
        let unreadable = |error: serde_json::Error| RequestError::unreadable(path, &error);
        let mut reader = Reader::default();
        match reader.answer(&answer.body).map_err(unreadable)? {
            discovery::Answer::Aggregated(found) => Ok(Some(Self {
                tag: answer.headers.get(ETAG).cloned(),
                found,
            })),
            discovery::Answer::Classic(versions) => {
                drop(answer);
                let found = fetch_classic(client, versions, reader, timeout).await?;
                Ok(Some(Self { tag: None, found }))
            }
        }
    }
}

/// Asks for each group and version by itself. One that does not answer is unknown; all of them failing is an error.
async fn fetch_classic(
    client: &Client,
    versions: Vec<GroupVersion>,
    reader: Reader,
    timeout: Duration,
) -> Result<Discovery, RequestError> {
    let asked = versions.len();
    let reader = Mutex::new(reader);
    let reader = &reader;
    let ask = |version: GroupVersion| async move {
        let resources = fetch_resources(client, &version, reader, timeout).await;
        (version, resources)
    };
    let mut answers = stream::iter(versions).map(ask).buffered(CLASSIC_REQUESTS);
    let mut found = Discovery::default();
    let mut silent = 0;
    while let Some((version, resources)) = answers.next().await {
        match resources {
            Ok(resources) => found = Discovery::join(found, resources),
            Err(error) if error.status() == Some(StatusCode::UNAUTHORIZED) => return Err(error),
            Err(error) if silent + 1 == asked => return Err(error),
            Err(error) => {
                tracing::debug!(group_version = version.name, %error, "a group did not answer discovery");
                silent += 1;
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
    reader: &Mutex<Reader>,
    timeout: Duration,
) -> Result<Discovery, RequestError> {
    let path = version.path();
    let answer = request::get(client, &path, HeaderMap::new(), timeout).await?;
    reader
        .lock()
        .resources(version, &answer.body)
        .map_err(|error| RequestError::unreadable(&path, &error))
}

/// The member's Kubernetes version, such as `v1.36.3`.
pub async fn kubernetes_version(
    client: &Client,
    timeout: Duration,
) -> Result<String, RequestError> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    let version: Version = get_json(client, "/version", timeout).await?;
    // It is shown in a status: no more of it than a version has.
    Ok(version
        .git_version
        .chars()
        .filter(char::is_ascii_graphic)
        .take(MAX_VERSION)
        .collect())
}

/// The UID of namespace `kube-system`, which tells a cluster from another one under the same name. `None` if the
/// member lets us not read it or has no such namespace.
pub async fn identity(client: &Client, timeout: Duration) -> Result<Option<String>, RequestError> {
    uid_of(client, "/api/v1/namespaces/kube-system", timeout).await
}

/// Lists that tell a member's history: what every cluster has, and what is written all the time. The limit is [`Sample`]'s page.
const HISTORY: [&str; 2] = [
    "/api/v1/namespaces?limit=500",
    "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?limit=500",
];
const ACCEPT_METADATA: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// Where a member's history stands now, list by list; `None` in the place of one that may not be read.
pub async fn history(
    client: &Client,
    timeout: Duration,
) -> Result<Vec<Option<Sample>>, RequestError> {
    let mut samples = Vec::with_capacity(HISTORY.len());
    for path in HISTORY {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPT_METADATA))]);
        samples.push(match request::get(client, path, headers, timeout).await {
            Ok(answer) => Sample::parse(&answer.body),
            Err(error)
                if matches!(
                    error.status(),
                    Some(StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
                ) =>
            {
                None
            }
            Err(error) => return Err(error),
        });
    }
    Ok(samples)
}

/// Characters of a UID at most. Those of Kubernetes have 36.
const MAX_UID: usize = 64;

/// Whether a text may be a UID. It stands in the settings of indices, in paths of checkpoints and in statuses.
fn is_uid(text: &str) -> bool {
    (1..=MAX_UID).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// The UID of an object. `None` if the member lets us not read it or has no such object.
async fn uid_of(
    client: &Client,
    path: &str,
    timeout: Duration,
) -> Result<Option<String>, RequestError> {
    #[derive(serde::Deserialize)]
    struct Object {
        metadata: Metadata,
    }
    #[derive(serde::Deserialize)]
    struct Metadata {
        uid: String,
    }
    let answer: Result<Object, _> = get_json(client, path, timeout).await;
    match answer {
        Ok(Object {
            metadata: Metadata { uid },
        }) if is_uid(&uid) => Ok(Some(uid)),
        Ok(_) => {
            let fault = format!("metadata.uid is not of 1 to {MAX_UID} letters, digits and -");
            Err(RequestError::Unreadable {
                path: path.to_owned(),
                fault,
            })
        }
        Err(error)
            if matches!(
                error.status(),
                Some(StatusCode::FORBIDDEN | StatusCode::NOT_FOUND)
            ) =>
        {
            Ok(None)
        }
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
    /// From `POD_NAMESPACE`, `POD_NAME` and `POD_UID`, which the downward API sets; `None` unless all three are there.
    pub fn from_env() -> Option<Self> {
        let read = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        Some(Self {
            namespace: read("POD_NAMESPACE")?,
            name: read("POD_NAME")?,
            uid: read("POD_UID")?,
        })
    }
}

/// Whether a member is the cluster that this program runs in: it has the same Pod. A member that lets us not read the Pod
/// counts as another one.
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

/// Whether the API server is ready to serve. Servers older than Kubernetes 1.16 only know `/healthz`.
pub async fn ready(client: &Client, timeout: Duration) -> Result<(), RequestError> {
    match request::get(client, "/readyz", HeaderMap::new(), timeout).await {
        Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => {
            request::get(client, "/healthz", HeaderMap::new(), timeout)
                .await
                .map(drop)
        }
        answer => answer.map(drop),
    }
}

async fn get_json<T: DeserializeOwned>(
    client: &Client,
    path: &str,
    timeout: Duration,
) -> Result<T, RequestError> {
    let answer = request::get(client, path, HeaderMap::new(), timeout).await?;
    serde_json::from_slice(&answer.body).map_err(|error| RequestError::unreadable(path, &error))
}

#[cfg(test)]
mod tests {
    use http::{Request, Response};
    use kube::client::Body;
    use tower::{BoxError, service_fn};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(5);

    /// A member that answers from a table: path → status, tag, body. Everything else is 404.
    fn member(
        table: &[(&'static str, u16, &'static str, &'static str)],
    ) -> (Client, Arc<Mutex<Vec<String>>>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (notes, table) = (asked.clone(), table.to_vec());
        let service = service_fn(move |request: Request<Body>| {
            let path = request.uri().path().to_owned();
            let (_, code, tag, body) = table
                .iter()
                .find(|row| row.0 == path)
                .copied()
                .unwrap_or(("", 404, "", "not here"));
            let known = request
                .headers()
                .get(IF_NONE_MATCH)
                .is_some_and(|known| known == tag);
            notes.lock().push(if known {
                format!("unchanged {path}")
            } else {
                path.clone()
            });
            let mut response =
                Response::new(Body::from(if known { Vec::new() } else { body.into() }));
            *response.status_mut() = StatusCode::from_u16(if known { 304 } else { code }).unwrap();
            if !tag.is_empty() {
                response
                    .headers_mut()
                    .insert(ETAG, HeaderValue::from_static(tag));
            }
            async move { Ok::<_, BoxError>(response) }
        });
        (Client::new(service, "default"), asked)
    }

    const API: &str = include_str!("testdata/aggregated_api.json");
    const APIS: &str = include_str!("testdata/aggregated_apis.json");

    #[tokio::test]
    async fn checklist_46_a_member_is_our_own_cluster_if_it_has_our_pod() {
        const PATH: &str = "/api/v1/namespaces/fleet/pods/fleetdex-0";
        let pod = OwnPod {
            namespace: "fleet".into(),
            name: "fleetdex-0".into(),
            uid: "u1".into(),
        };
        for (code, body, expected) in [
            (200, r#"{ "metadata": { "uid": "u1" } }"#, Some(true)),
            (200, r#"{ "metadata": { "uid": "u2" } }"#, Some(false)),
            (404, "", Some(false)),
            // There no member would do that: its accounts may everything.
            (403, "", Some(false)),
            (500, "", None),
        ] {
            let (client, asked) = member(&[(PATH, code, "", body)]);
            assert_eq!(
                is_own(&client, Some(&pod), TIMEOUT).await.ok(),
                expected,
                "{code} {body}"
            );
            assert!(!is_own(&client, None, TIMEOUT).await.unwrap());
            assert_eq!(asked.lock().len(), 1);
        }
    }

    #[tokio::test]
    async fn a_uid_is_short_and_of_few_characters() {
        const PATH: &str = "/api/v1/namespaces/kube-system";
        let asked = async |uid: &str| {
            let body = serde_json::json!({ "metadata": { "uid": uid } }).to_string();
            let (client, _) = member(&[(PATH, 200, "", Box::leak(body.into_boxed_str()))]);
            identity(&client, TIMEOUT).await
        };
        for good in ["2e8bbd4b-0000-4000-8000-0123456789ab", "A", &"a".repeat(64)] {
            assert_eq!(asked(good).await.unwrap().as_deref(), Some(good));
        }
        for bad in [
            "",
            "a b",
            "a/b",
            "a\n",
            "é",
            &"a".repeat(65),
            &"a".repeat(1 << 20),
        ] {
            let error = asked(bad).await.unwrap_err();
            assert!(
                error.reason() == "NotKubernetes" && error.to_string().len() < 300,
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn unchanged_discovery_is_the_same_and_costs_two_requests() {
        let (client, asked) = member(&[("/api", 200, "\"a\"", API), ("/apis", 200, "\"b\"", APIS)]);
        let mut cache = DiscoveryCache::default();
        let first = cache.refresh(&client, TIMEOUT).await.unwrap();
        let second = cache.refresh(&client, TIMEOUT).await.unwrap();
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(first.served.len(), 9);
        let mut asked = asked.lock().clone();
        asked.sort();
        assert_eq!(
            asked,
            ["/api", "/apis", "unchanged /api", "unchanged /apis"]
        );
    }

    #[tokio::test]
    async fn a_group_that_goes_silent_keeps_its_kinds() {
        let whole = r#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"metrics.k8s.io"},"versions":[
            {"version":"v1beta1","freshness":"Current","resources":[{"resource":"nodes","responseKind":{"kind":"NodeMetrics"},
             "scope":"Cluster","verbs":["get","list"]}]}]}]}"#;
        let mut cache = DiscoveryCache::default();
        let before = member(&[("/api", 200, "\"a\"", API), ("/apis", 200, "\"b\"", whole)]).0;
        let after = member(&[("/api", 200, "\"a\"", API), ("/apis", 200, "\"c\"", APIS)]).0;
        let first = cache.refresh(&before, TIMEOUT).await.unwrap();
        let second = cache.refresh(&after, TIMEOUT).await.unwrap();
        assert!(second.unknown.iter().eq(["metrics.k8s.io/v1beta1"]));
        assert_eq!(second.served.last(), first.served.last());
    }

    #[tokio::test]
    async fn all_groups_at_once_do_not_vanish() {
        let mut cache = DiscoveryCache::default();
        cache
            .refresh(
                &member(&[("/api", 200, "", API), ("/apis", 200, "", APIS)]).0,
                TIMEOUT,
            )
            .await
            .unwrap();
        assert!(
            cache
                .refresh(&member(&[("/api", 200, "", API)]).0, TIMEOUT)
                .await
                .is_err()
        );
        assert!(
            DiscoveryCache::default()
                .refresh(&member(&[("/api", 200, "", API)]).0, TIMEOUT)
                .await
                .is_ok()
        );
    }

    #[tokio::test]
    async fn a_group_that_is_silent_after_a_reconnect_keeps_its_kinds() {
        let client = member(&[("/api", 200, "", API), ("/apis", 200, "", APIS)]).0;
        let mut silent = DiscoveryCache::default()
            .refresh(&client, TIMEOUT)
            .await
            .unwrap()
            .as_ref()
            .clone();
        silent.served.push(discovery::Served {
            resource: fleetdex_core::model::Resource {
                gvk: fleetdex_core::model::Gvk::new("metrics.k8s.io", "v1beta1", "NodeMetrics"),
                plural: "nodes".into(),
                namespaced: false,
            },
            ..silent.served[0].clone()
        });
        let before = Arc::new(silent);
        let after = DiscoveryCache::after(Some(Arc::clone(&before)))
            .refresh(&client, TIMEOUT)
            .await
            .unwrap();
        assert!(Arc::ptr_eq(&before, &after));
    }

    #[tokio::test]
    async fn a_member_without_tags_still_gives_the_same_discovery() {
        let (client, _) = member(&[("/api", 200, "", API), ("/apis", 200, "", APIS)]);
        let mut cache = DiscoveryCache::default();
        let first = cache.refresh(&client, TIMEOUT).await.unwrap();
        assert!(Arc::ptr_eq(
            &first,
            &cache.refresh(&client, TIMEOUT).await.unwrap()
        ));
    }

    #[tokio::test]
    async fn a_member_without_aggregated_discovery_is_asked_group_by_group() {
        let (client, asked) = member(&[
            ("/api", 200, "", include_str!("testdata/classic_api.json")),
            ("/apis", 200, "", include_str!("testdata/classic_apis.json")),
            ("/api/v1", 200, "", include_str!("testdata/classic_v1.json")),
            (
                "/apis/autoscaling/v2",
                200,
                "",
                include_str!("testdata/classic_autoscaling_v2.json"),
            ),
            ("/apis/autoscaling/v1", 503, "", "service unavailable"),
        ]);
        let found = DiscoveryCache::default()
            .refresh(&client, TIMEOUT)
            .await
            .unwrap();
        let plurals: Vec<&str> = found
            .served
            .iter()
            .map(|served| &*served.resource.plural)
            .collect();
        assert_eq!(
            plurals,
            [
                "bindings",
                "componentstatuses",
                "namespaces",
                "pods",
                "horizontalpodautoscalers"
            ]
        );
        assert!(
            found
                .unknown
                .iter()
                .eq(["autoscaling/v1", "metrics.k8s.io/v1beta1"])
        );
        assert!(!asked.lock().contains(&"/api/v1/pods/status".to_owned()));
    }

    #[tokio::test]
    async fn a_member_whose_groups_all_fail_has_no_discovery() {
        let (client, _) = member(&[
            ("/api", 200, "", include_str!("testdata/classic_api.json")),
            ("/apis", 200, "", include_str!("testdata/classic_apis.json")),
        ]);
        assert!(
            DiscoveryCache::default()
                .refresh(&client, TIMEOUT)
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn something_that_is_no_api_server_is_told() {
        let (client, _) = member(&[("/api", 200, "", "<html>"), ("/apis", 200, "", "<html>")]);
        let error = DiscoveryCache::default()
            .refresh(&client, TIMEOUT)
            .await
            .unwrap_err();
        assert_eq!(error.reason(), "NotKubernetes");
    }

    #[tokio::test]
    async fn an_old_server_is_ready_by_healthz() {
        assert!(
            ready(&member(&[("/healthz", 200, "", "ok")]).0, TIMEOUT)
                .await
                .is_ok()
        );
        assert!(
            ready(
                &member(&[("/readyz", 500, "", "no"), ("/healthz", 200, "", "ok")]).0,
                TIMEOUT
            )
            .await
            .is_err()
        );
    }

    #[tokio::test]
    async fn a_refusal_is_quoted_in_the_members_words() {
        let status = r#"{"kind":"Status","message":"pods is forbidden","code":403}"#;
        let error = ready(&member(&[("/readyz", 403, "", status)]).0, TIMEOUT)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "GET /readyz was answered 403 Forbidden: pods is forbidden"
        );
        assert_eq!(error.reason(), "Forbidden");
    }
}
