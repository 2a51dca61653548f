//! Path and query to what is asked for, by the rules that Kubernetes' apiserver reads requests by.
//!
//! Guarantee: what is not understood is refused with its name, never ignored. The exceptions are [`IGNORED`].
//! Source of the path rules: `RequestInfo` of <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request>

use std::num::NonZeroUsize;

use super::{
    clusterpedia,
    follow::Follow,
    options::Options,
    percent::{decode_query, decode_segment},
    status::ApiError,
};
use crate::{
    model::{ClusterName, Namespace, StoreName},
    selector::{FieldSelector, LabelSelector},
};

mod changes;
mod counts;

pub use changes::ChangesRequest;
pub use counts::AggregateRequest;

/// Our API group, and Karmada's, whose clients find the same paths below it.
pub const GROUPS: [&str; 2] = ["search.fleetdex.io", "search.karmada.io"];
/// The version of both.
pub const VERSION: &str = "v1alpha1";

/// What clients always send and what changes nothing about a list: how it is laid out, which
/// [`Representation`](super::representation::Representation) reads, how long they wait for it, and a flag of watches.
const IGNORED: [&str; 5] = ["includeObject", "pretty", "timeout", "timeoutSeconds", "allowWatchBookmarks"];
/// Parts of the API that do not exist yet. Their empty value means "not given", as in Kubernetes.
const LATER: [&str; 1] = ["shardSelector"];

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiRequest {
    /// Which version runs.
    Version,
    /// What the server itself serves.
    Own(OwnDiscovery),
    /// What the schemas of the server's own groups are.
    OpenApi(OpenApi),
    /// Objects.
    List(Box<ListRequest>),
    /// How many objects there are.
    Aggregate(Box<AggregateRequest>),
    /// What this replica changes, asked by another one.
    Changes(Box<ChangesRequest>),
    /// Whether the documents of these clusters, or of all if it is empty, are as their objects.
    Verify(Vec<ClusterName>),
}

impl ApiRequest {
    /// The method that it is served for.
    pub fn method(&self) -> &'static str {
        match self {
            // It repairs what it finds.
            Self::Verify(_) => "POST",
            Self::Version | Self::Own(_) | Self::OpenApi(_) | Self::List(_) | Self::Aggregate(_) | Self::Changes(_) => "GET",
        }
    }
}

/// Discovery of the server's own groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnDiscovery {
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(&'static str),
    /// `/apis/<group>/v1alpha1`
    Resources(&'static str),
}

/// `OpenAPI` documents of the server's own groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApi {
    /// `/openapi/v2`
    V2,
    /// `/openapi/v3`
    Index,
    /// `/openapi/v3/apis/<group>/v1alpha1`
    V3(&'static str),
}

/// Discovery of what is registered, below `proxying/karmada/proxy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FleetDiscovery {
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/<group>`
    Group(String),
    /// `/api/<version>` (with the empty group) and `/apis/<group>/<version>`
    Resources {
        /// API group; empty for the core group.
        group: String,
        /// Version in the group.
        version: String,
    },
}

/// A list of objects of one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListRequest {
    /// The resource.
    pub native: NativePath,
    /// The cluster that the path names; it must exist.
    pub path_cluster: Option<ClusterName>,
    /// Only these clusters; empty: all. Holds the path's.
    pub clusters: Vec<ClusterName>,
    /// Only these namespaces; empty: all. Holds the path's.
    pub namespaces: Vec<Namespace>,
    /// Only these names; empty: all. Holds the path's.
    pub names: Vec<String>,
    /// Label selector.
    pub labels: LabelSelector,
    /// Field selector.
    pub fields: FieldSelector,
    /// One page of at most so many; `None`: everything.
    pub limit: Option<NonZeroUsize>,
    /// Where to go on.
    pub continue_token: Option<String>,
    /// The store to ask, where several hold the resource.
    pub store: Option<StoreName>,
    /// The kind of store that the path names.
    pub engine: Option<Engine>,
    /// What goes beyond Kubernetes.
    pub options: Options,
    /// From which version on, and whether changes follow.
    pub follow: Follow,
    /// Whether objects have the fleet's resource version in place of their member's: below `proxying/`.
    pub rewrites_version: bool,
}

/// A kind of store, as Karmada's paths name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// `search/cache`: the one in this process.
    Embedded,
    /// `search/opensearch`
    OpenSearch,
}

impl Engine {
    /// Whether a store is of this kind.
    pub fn is_of(self, store: &StoreName) -> bool {
        (self == Self::Embedded) == (*store == StoreName::embedded())
    }
}

/// A path as apiservers have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NativePath {
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Plural.
    pub plural: String,
    /// The namespace that the path names.
    pub namespace: Option<Namespace>,
    /// The object that the path names.
    pub name: Option<String>,
}

/// Reads a request's path and query.
pub fn parse(path: &str, query: Option<&str>) -> Result<ApiRequest, ApiError> {
    let decoded = path_segments(path)?;
    let segments: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let parameters = parameters(query.unwrap_or_default())?;
    let no_such_path = || ApiError::NoSuchPath { path: path.to_owned() };
    let request = match segments.as_slice() {
        ["version"] => ApiRequest::Version,
        ["openapi", "v2"] => ApiRequest::OpenApi(OpenApi::V2),
        ["openapi", "v3"] => ApiRequest::OpenApi(OpenApi::Index),
        ["openapi", "v3", "apis", group, VERSION] => ApiRequest::OpenApi(OpenApi::V3(own_group(group).ok_or_else(no_such_path)?)),
        ["apis"] => ApiRequest::Own(OwnDiscovery::Groups),
        ["apis", group] => ApiRequest::Own(OwnDiscovery::Group(own_group(group).ok_or_else(no_such_path)?)),
        ["apis", group, VERSION] => ApiRequest::Own(OwnDiscovery::Resources(own_group(group).ok_or_else(no_such_path)?)),
        ["apis", group, VERSION, rest @ ..] if own_group(group).is_some() => below_group(path, rest)?,
        _ => return Err(no_such_path()),
    };
    match request {
        ApiRequest::List(list) => Ok(ApiRequest::List(Box::new(list.with(&parameters)?))),
        ApiRequest::Aggregate(counts) => Ok(ApiRequest::Aggregate(Box::new(counts.with(&parameters)?))),
        ApiRequest::Changes(changes) => Ok(ApiRequest::Changes(Box::new(changes.with(&parameters)?))),
        ApiRequest::Verify(_) => clusters_to_verify(&parameters).map(ApiRequest::Verify),
        // Clients bring what they found in the index, such as a hash.
        ApiRequest::OpenApi(_) => Ok(request),
        discovery => {
            refuse_parameters(&parameters)?;
            Ok(discovery)
        }
    }
}

fn own_group(group: &str) -> Option<&'static str> {
    GROUPS.into_iter().find(|own| *own == group)
}

/// The decoded segments of a path. Empty ones are refused: they are a variable that a script forgot to set.
pub(super) fn path_segments(path: &str) -> Result<Vec<String>, ApiError> {
    let mut segments = Vec::new();
    for segment in path.trim_matches('/').split('/') {
        let decoded = decode_segment(segment).map_err(|error| ApiError::bad_request(format!("path: {error}")))?;
        if decoded.is_empty() && path != "/" {
            return Err(ApiError::bad_request(format!("path {path:?} has an empty segment")));
        }
        segments.push(decoded);
    }
    Ok(segments)
}

/// What follows `/apis/<group>/v1alpha1/`.
fn below_group(path: &str, rest: &[&str]) -> Result<ApiRequest, ApiError> {
    match rest {
        ["search", "cache", native @ ..] => Ok(ListRequest::of(path, native, None)?.from(Engine::Embedded).boxed()),
        ["search", "opensearch", native @ ..] => Ok(ListRequest::of(path, native, None)?.from(Engine::OpenSearch).boxed()),
        ["search", native @ ..] => Ok(ListRequest::of(path, native, None)?.boxed()),
        ["clusters", cluster, native @ ..] if !native.is_empty() => {
            let name = cluster.parse().map_err(|error| ApiError::bad_request(format!("path: {error}")))?;
            Ok(ListRequest::of(path, native, Some(name))?.boxed())
        }
        ["verify"] => Ok(ApiRequest::Verify(Vec::new())),
        ["changes", native @ ..] => Ok(ApiRequest::Changes(Box::new(ChangesRequest::of(path, native)?))),
        ["aggregate", native @ ..] => Ok(ApiRequest::Aggregate(Box::new(AggregateRequest::of(path, native)?))),
        _ => Err(ApiError::NoSuchPath { path: path.to_owned() }),
    }
}

/// A list below `proxying/`: `native` is what follows there, decoded, and `cluster` the one that the path names.
pub fn list_of_fleet(
    path: &str,
    native: &[&str],
    cluster: Option<ClusterName>,
    query: Option<&str>,
) -> Result<ListRequest, ApiError> {
    let list = ListRequest::of(path, native, cluster)?.with(&parameters(query.unwrap_or_default())?)?;
    Ok(ListRequest { rewrites_version: true, ..list })
}

fn not_yet(what: &str) -> ApiError {
    ApiError::bad_request(format!("{what} is not supported yet"))
}

impl ListRequest {
    fn of(path: &str, segments: &[&str], path_cluster: Option<ClusterName>) -> Result<Self, ApiError> {
        let native = NativePath::parse(path, segments)?;
        Ok(Self {
            clusters: path_cluster.iter().cloned().collect(),
            namespaces: native.namespace.iter().cloned().collect(),
            names: native.name.iter().cloned().collect(),
            path_cluster,
            native,
            ..Self::default()
        })
    }

    fn from(self, engine: Engine) -> Self {
        Self { engine: Some(engine), ..self }
    }

    fn boxed(self) -> ApiRequest {
        ApiRequest::List(Box::new(self))
    }

    fn with(mut self, parameters: &[(String, String)]) -> Result<Self, ApiError> {
        for (key, value) in parameters {
            self.set(key, value)?;
        }
        self.read_labels(parameters)?;
        self.options.check().map_err(ApiError::bad_request)?;
        self.follow.check(self.continue_token.is_some())?;
        self.check_watch()?;
        Ok(self)
    }

    /// Takes the parameters that stand as pseudo-labels in the label selector; those of the URL win.
    fn read_labels(&mut self, parameters: &[(String, String)]) -> Result<(), ApiError> {
        let refused = |problem: String| ApiError::bad_request(format!("parameter labelSelector: {problem}"));
        let (labels, pseudos) = clusterpedia::take(std::mem::take(&mut self.labels)).map_err(refused)?;
        self.labels = labels;
        for pseudo in pseudos {
            let is_given = parameters.iter().any(|(key, value)| key == pseudo.parameter && !value.is_empty());
            if !is_given {
                self.set(pseudo.parameter, &pseudo.value)?;
            }
        }
        Ok(())
    }

    /// What a watch cannot do.
    fn check_watch(&self) -> Result<(), ApiError> {
        let Options { order_by, owner, explain, .. } = &self.options;
        let problems = [
            (!owner.names.is_empty(), "parameter ownerName: owners are looked up once, so a watch cannot follow them"),
            (!owner.uids.is_empty(), "parameter ownerUID: owners are looked up once, so a watch cannot follow them"),
            (!order_by.is_empty(), "parameter orderBy: a watch tells changes in the order in which they come"),
            (*explain, "parameter explain: only lists and counts are explained"),
        ];
        match problems.into_iter().find(|(is_asked, _)| *is_asked && self.follow.watch) {
            None => Ok(()),
            Some((_, problem)) => Err(ApiError::bad_request(problem)),
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), ApiError> {
        let refused = |problem: String| ApiError::bad_request(format!("parameter {key}: {problem}"));
        if self.follow.set(key, value).map_err(refused)? {
            return Ok(());
        }
        match key {
            "labelSelector" => self.labels = value.parse().map_err(|error| refused(format!("{value:?}: {error}")))?,
            "fieldSelector" => self.fields = value.parse().map_err(|error| refused(format!("{value:?}: {error}")))?,
            "limit" => self.limit = limit(value).map_err(refused)?,
            "continue" => self.continue_token = Some(value.to_owned()).filter(|token| !token.is_empty()),
            "clusters" => words(value, &mut self.clusters).map_err(refused)?,
            "namespaces" => words(value, &mut self.namespaces).map_err(refused)?,
            "names" => words(value, &mut self.names).map_err(refused)?,
            "store" if value.is_empty() => {}
            "store" => self.store = Some(value.parse().map_err(|error| refused(format!("{error}")))?),
            ignored if IGNORED.contains(&ignored) => {}
            later if LATER.contains(&later) => {
                if !value.is_empty() {
                    return Err(not_yet(&format!("parameter {later}")));
                }
            }
            other => {
                if !self.options.set(other, value).map_err(refused)? {
                    return Err(unknown_parameter(other));
                }
            }
        }
        Ok(())
    }
}

fn unknown_parameter(key: &str) -> ApiError {
    let known = "labelSelector, fieldSelector, limit, continue, clusters, namespaces, names, store";
    unknown(key, &format!("{known}, {}", Options::KNOWN.join(", ")))
}

fn unknown(key: &str, known: &str) -> ApiError {
    ApiError::bad_request(format!("parameter {key:?} is unknown; known are {known}"))
}

pub(super) fn refuse_parameters(parameters: &[(String, String)]) -> Result<(), ApiError> {
    match parameters.iter().find(|(key, _)| !IGNORED.contains(&key.as_str())) {
        Some((key, _)) => Err(ApiError::bad_request(format!("parameter {key:?} means nothing for discovery"))),
        None => Ok(()),
    }
}

fn clusters_to_verify(parameters: &[(String, String)]) -> Result<Vec<ClusterName>, ApiError> {
    let mut clusters = Vec::new();
    for (key, value) in parameters {
        match key.as_str() {
            "clusters" => {
                words(value, &mut clusters).map_err(|problem| ApiError::bad_request(format!("parameter clusters: {problem}")))?;
            }
            ignored if IGNORED.contains(&ignored) => {}
            unknown => return Err(ApiError::bad_request(format!("parameter {unknown:?} is unknown; clusters is the only one"))),
        }
    }
    Ok(clusters)
}

/// Zero means no limit, as in Kubernetes.
fn limit(value: &str) -> Result<Option<NonZeroUsize>, String> {
    if value.is_empty() {
        return Ok(None);
    }
    match value.parse() {
        Ok(number) => Ok(NonZeroUsize::new(number)),
        Err(_) => Err(format!("{value:?} is no whole number from 0 up")),
    }
}

/// Adds a comma-separated list. One that the path has filled already cannot be given again.
fn words<T: std::str::FromStr>(value: &str, list: &mut Vec<T>) -> Result<(), String> {
    if value.is_empty() {
        return Ok(());
    }
    if !list.is_empty() {
        return Err("the path names one already; give either the path or the parameter".to_owned());
    }
    for word in value.split(',') {
        let parsed = Some(word).filter(|text| !text.is_empty()).and_then(|text| text.parse().ok());
        list.push(parsed.ok_or_else(|| format!("{value:?} has an empty item"))?);
    }
    Ok(())
}

/// Keys and values, decoded; a key that stands twice is refused, because servers disagree on which one counts.
pub(super) fn parameters(query: &str) -> Result<Vec<(String, String)>, ApiError> {
    let malformed = |error| ApiError::bad_request(format!("query: {error}"));
    let mut parameters: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (encoded_key, encoded_value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = decode_query(encoded_key).map_err(malformed)?;
        let value = decode_query(encoded_value).map_err(malformed)?;
        if parameters.iter().any(|(known, _)| *known == key) {
            return Err(ApiError::bad_request(format!("parameter {key:?} is given twice")));
        }
        parameters.push((key, value));
    }
    Ok(parameters)
}

impl NativePath {
    /// Reads `api/v1/…` or `apis/<group>/<version>/…`; `path` is the whole path, for messages.
    fn parse(path: &str, segments: &[&str]) -> Result<Self, ApiError> {
        let no_resource = || {
            let example = "api/v1/pods or apis/apps/v1/namespaces/default/deployments";
            ApiError::bad_request(format!("path {path:?} names no resource; it must end with a path such as {example}"))
        };
        let (group, version, rest) = match segments {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Err(no_resource()),
        };
        let (namespace, in_namespace) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize", ..] => (None, rest),
            ["namespaces", namespace, inside @ ..] if !inside.is_empty() => (Some(*namespace), inside),
            _ => (None, rest),
        };
        let (plural, name) = match in_namespace {
            [] => return Err(no_resource()),
            [verb @ ("watch" | "proxy"), ..] => return Err(not_yet(&format!("path segment {verb:?}"))),
            [plural] => (*plural, None),
            [plural, name] => (*plural, Some((*name).to_owned())),
            [_, _, subresource, ..] => {
                let problem = format!("path {path:?}: subresource {subresource:?} is not in the index, only objects are");
                return Err(ApiError::bad_request(problem));
            }
        };
        // As an API server has it: no object can have such a name.
        for segment in namespace.into_iter().chain(name.as_deref()) {
            if matches!(segment, "." | "..") || segment.contains(['/', '%']) {
                return Err(ApiError::bad_request(format!(
                    "path: {segment:?} is no name: it is '.' or '..', or has a '/' or a '%'"
                )));
            }
        }
        let parsed_namespace = namespace.map(str::parse).transpose();
        Ok(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: parsed_namespace.map_err(|error| ApiError::bad_request(format!("path: {error}")))?,
            name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::FieldPath, query::GroupKey};

    const SEARCH: &str = "/apis/search.fleetdex.io/v1alpha1/search";

    fn list(path: &str, query: &str) -> Result<ListRequest, ApiError> {
        match parse(path, Some(query))? {
            ApiRequest::List(request) => Ok(*request),
            other => panic!("{path} is no list but {other:?}"),
        }
    }

    fn message(path: &str, query: &str) -> String {
        let error = parse(path, Some(query)).unwrap_err();
        format!("{} {error}", error.code())
    }

    #[test]
    fn native_paths_are_read_as_the_apiserver_reads_them() {
        let read = |native: &str| {
            let found = list(&format!("{SEARCH}/{native}"), "").unwrap().native;
            let namespace = found.namespace.map(String::from).unwrap_or_default();
            let name = found.name.unwrap_or_default();
            format!("{}|{}|{}|{namespace}|{name}", found.group, found.version, found.plural)
        };
        assert_eq!(read("api/v1/pods"), "|v1|pods||");
        assert_eq!(read("api/v1/namespaces/web/pods"), "|v1|pods|web|");
        assert_eq!(read("api/v1/namespaces/web/pods/p-1"), "|v1|pods|web|p-1");
        assert_eq!(read("api/v1/namespaces"), "|v1|namespaces||");
        assert_eq!(read("api/v1/namespaces/web"), "|v1|namespaces||web");
        assert_eq!(read("api/v1/nodes/n-1"), "|v1|nodes||n-1");
        assert_eq!(read("apis/apps/v1/deployments/"), "apps|v1|deployments||");
        assert_eq!(read("apis/apps/v1/namespaces/web/deployments/a%2Eb"), "apps|v1|deployments|web|a.b");
        assert_eq!(read("opensearch/apis/apps/v1/deployments"), "apps|v1|deployments||");
    }

    #[test]
    fn karmadas_group_leads_to_the_same_paths() {
        let ours = list(&format!("{SEARCH}/api/v1/pods"), "limit=5").unwrap();
        assert_eq!(list("/apis/search.karmada.io/v1alpha1/search/api/v1/pods", "limit=5").unwrap(), ours);
    }

    #[test]
    fn a_cluster_in_the_path_is_the_only_one_asked() {
        let found = list("/apis/search.fleetdex.io/v1alpha1/clusters/team%2Fprod/api/v1/pods", "").unwrap();
        assert_eq!(found.path_cluster, Some("team/prod".parse().unwrap()));
        assert_eq!(found.clusters, ["team/prod".parse().unwrap()]);
    }

    #[test]
    fn a_path_may_name_the_kind_of_store() {
        let engine = |path: &str| list(&format!("{SEARCH}{path}/api/v1/pods"), "").unwrap().engine;
        assert_eq!(
            [engine(""), engine("/cache"), engine("/opensearch")],
            [None, Some(Engine::Embedded), Some(Engine::OpenSearch)]
        );
        assert!(Engine::Embedded.is_of(&StoreName::embedded()) && !Engine::OpenSearch.is_of(&StoreName::embedded()));
    }

    #[test]
    fn parameters_become_types() {
        let query = "labelSelector=app%20in%20(web,api)&fieldSelector=status.phase%3DRunning&limit=20&continue=abc\
                     &clusters=member1,member2&namespaces=a&names=x,y&store=main&pretty=true&timeoutSeconds=30&watch=false";
        let found = list(&format!("{SEARCH}/api/v1/pods"), query).unwrap();
        assert_eq!(found.labels, "app in (api,web)".parse().unwrap());
        assert_eq!(found.fields, "status.phase=Running".parse().unwrap());
        assert_eq!(found.limit.map(NonZeroUsize::get), Some(20));
        assert_eq!(found.continue_token.as_deref(), Some("abc"));
        assert_eq!(found.clusters, ["member1".parse().unwrap(), "member2".parse().unwrap()]);
        assert_eq!(found.namespaces, ["a".parse().unwrap()]);
        assert_eq!(found.names, ["x", "y"]);
        assert_eq!(found.store, Some("main".parse().unwrap()));
        assert_eq!(found.follow, Follow { timeout_seconds: Some(30), ..Follow::default() });
    }

    #[test]
    fn what_is_empty_or_zero_counts_as_not_given() {
        let bare = list(&format!("{SEARCH}/api/v1/pods"), "").unwrap();
        let empty =
            "labelSelector=&fieldSelector=&limit=0&continue=&clusters=&namespaces=&names=&store=&watch=0&resourceVersion=";
        assert_eq!(list(&format!("{SEARCH}/api/v1/pods"), empty).unwrap(), bare);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let pods = format!("{SEARCH}/api/v1/pods");
        let refused = [
            "watch=yes",
            "resourceVersion=newest",
            "sendInitialEvents=true",
            "resourceVersion=7&continue=abc",
            "watch=true&ownerName=web",
            "orderBy=name down",
            "color=red",
            "limit=-1",
            "limit=ten",
            "limit=1&limit=2",
            "labelSelector=a%2",
            "clusters=a,,b",
            "labelSelector=app+in+(web",
        ];
        let messages: Vec<String> = refused.iter().map(|query| message(&pods, query)).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        400 parameter watch: "yes" is neither true nor false
        400 parameter resourceVersion: "newest" is no resourceVersion of the fleet: those are positive decimal integers, as lists and watches over the fleet give them
        400 parameter sendInitialEvents means nothing without watch=true
        400 parameter resourceVersion: further pages show what the first one showed; leave it out with continue
        400 parameter ownerName: owners are looked up once, so a watch cannot follow them
        400 parameter orderBy: "name down" is neither `field`, `field asc` nor `field desc`
        400 parameter "color" is unknown; known are labelSelector, fieldSelector, limit, continue, clusters, namespaces, names, store, orderBy, ownerUID, ownerName, ownerGR, ownerSeniority, since, before, onlyMetadata, withRemainingCount, withContinue, explain
        400 parameter limit: "-1" is no whole number from 0 up
        400 parameter limit: "ten" is no whole number from 0 up
        400 parameter "limit" is given twice
        400 query: "a%2" has a '%' that two hexadecimal digits do not follow
        400 parameter clusters: "a,,b" has an empty item
        400 parameter labelSelector: "app in (web": at character 12: found end of text, expected a value, ',' or ')'
        "#);
    }

    #[test]
    fn paths_that_lead_nowhere_say_why() {
        let base = "/apis/search.fleetdex.io/v1alpha1";
        let refused = [
            "/".to_owned(),
            "/api/v1/pods".to_owned(),
            "/apis/apps".to_owned(),
            "/apis/search.fleetdex.io/v1".to_owned(),
            format!("{base}/search"),
            format!("{base}/search/api/v1"),
            format!("{base}/search/api/v1/watch/pods"),
            format!("{base}/search/api/v1/namespaces/web/pods/p/log"),
            format!("{base}/search/api/v1/namespaces//pods"),
            format!("{base}/clusters/member1"),
            format!("{base}/aggregate"),
            format!("{base}/verify/member1"),
            format!("{base}/proxying/karmada"),
            format!("{base}/%70roxying/karmada/proxy/api/v1/pods"),
        ];
        let messages: Vec<String> = refused.iter().map(|path| message(path, "")).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        404 the server has nothing at /
        404 the server has nothing at /api/v1/pods
        404 the server has nothing at /apis/apps
        404 the server has nothing at /apis/search.fleetdex.io/v1
        400 path "/apis/search.fleetdex.io/v1alpha1/search" names no resource; it must end with a path such as api/v1/pods or apis/apps/v1/namespaces/default/deployments
        400 path "/apis/search.fleetdex.io/v1alpha1/search/api/v1" names no resource; it must end with a path such as api/v1/pods or apis/apps/v1/namespaces/default/deployments
        400 path segment "watch" is not supported yet
        400 path "/apis/search.fleetdex.io/v1alpha1/search/api/v1/namespaces/web/pods/p/log": subresource "log" is not in the index, only objects are
        400 path "/apis/search.fleetdex.io/v1alpha1/search/api/v1/namespaces//pods" has an empty segment
        404 the server has nothing at /apis/search.fleetdex.io/v1alpha1/clusters/member1
        400 path "/apis/search.fleetdex.io/v1alpha1/aggregate" names no resource; it must end with a path such as api/v1/pods or apis/apps/v1/namespaces/default/deployments
        404 the server has nothing at /apis/search.fleetdex.io/v1alpha1/verify/member1
        404 the server has nothing at /apis/search.fleetdex.io/v1alpha1/proxying/karmada
        404 the server has nothing at /apis/search.fleetdex.io/v1alpha1/%70roxying/karmada/proxy/api/v1/pods
        "#);
    }

    #[test]
    fn counts_take_what_they_are_grouped_by_and_the_filters_of_lists() {
        let path = "/apis/search.fleetdex.io/v1alpha1/aggregate/api/v1/pods";
        let counts = |query: &str| match parse(path, Some(query)) {
            Ok(ApiRequest::Aggregate(request)) => *request,
            other => panic!("{query} is {other:?}"),
        };
        let found = counts("by=cluster,namespace,label:x.io/app,status.phase&top=5&labelSelector=a%3Db");
        let label = GroupKey::Label("x.io/app".to_owned());
        let phase = GroupKey::Field(FieldPath::new("status.phase"));
        assert_eq!(found.by, [GroupKey::Cluster, GroupKey::Namespace, label, phase]);
        assert_eq!((found.top, found.list.labels.to_string().as_str()), (5, "a=b"));
        assert_eq!((counts("").by, counts("by=&top=").top), (Vec::new(), 1_000));
        let refused = [
            "by=cluster,,a",
            "by=label:-",
            "by=cluster,cluster",
            "by=a,b,c,d,e",
            "top=0",
            "top=10001",
            "limit=5",
            "labelSelector=search.clusterpedia.io/limit%3D5",
        ];
        let messages: Vec<String> = refused.iter().map(|query| message(path, query)).collect();
        insta::assert_snapshot!(messages.join("\n"), @r#"
        400 parameter by: "cluster,,a" has an empty item
        400 parameter by: label key "-" is invalid: must consist of letters, digits, '-', '_' or '.', and start and end with a letter or digit
        400 parameter by: cluster is given twice
        400 parameter by: 5 keys, and at most 4 are possible
        400 parameter top: "0" is no whole number from 1 to 10000
        400 parameter top: "10001" is no whole number from 1 to 10000
        400 parameter limit: counts come in one answer; use top for fewer groups
        400 parameter labelSelector: an order or a page means nothing for counts
        "#);
    }

    #[test]
    fn a_parameter_cannot_contradict_the_path() {
        let path = format!("{SEARCH}/api/v1/namespaces/web/pods");
        assert_eq!(
            message(&path, "namespaces=db"),
            "400 parameter namespaces: the path names one already; give either the path or the parameter"
        );
    }

    #[test]
    fn a_verification_is_of_all_clusters_or_of_those_that_are_named() {
        let path = "/apis/search.fleetdex.io/v1alpha1/verify";
        assert_eq!(parse(path, None).unwrap(), ApiRequest::Verify(Vec::new()));
        let some = ["a".parse().unwrap(), "team/prod".parse().unwrap()].to_vec();
        assert_eq!(parse(path, Some("clusters=a,team%2Fprod&timeout=9s")).unwrap(), ApiRequest::Verify(some));
        assert_eq!(message(path, "cluster=a"), "400 parameter \"cluster\" is unknown; clusters is the only one");
        assert_eq!(message(path, "clusters=a,,b"), "400 parameter clusters: \"a,,b\" has an empty item");
    }

    #[test]
    fn discovery_takes_only_what_clients_always_send() {
        let path = "/apis/search.fleetdex.io/v1alpha1";
        let resources = ApiRequest::Own(OwnDiscovery::Resources("search.fleetdex.io"));
        assert_eq!(parse(path, Some("timeout=32s")).unwrap(), resources);
        assert_eq!(message(path, "limit=5"), "400 parameter \"limit\" means nothing for discovery");
        assert_eq!(parse("/version", None).unwrap(), ApiRequest::Version);
    }
}
