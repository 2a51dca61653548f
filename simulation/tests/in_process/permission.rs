//! Permissions, on both engines: a user's response to a query is the administrator's response
//! without the objects that the user may not see.
//!
//! Only the control plane and the members are fakes. Authentication, authorization, the API and the
//! engine are the real ones.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use fakes::opensearch::OpenSearch;
use fleetdex_clusters::{
    Clusters, ConnectionTiming,
    connect::Network,
    discovery::{ResourceCapabilities, ServedResource},
    source::Loader,
};
use fleetdex_core::model::{ClusterName, Gvk, Object, Projection, Projector, Resource, StoreName};
use fleetdex_server::{
    answers::Answers,
    auth::{
        authenticate::RemoteClient,
        authentication_mode::{AuthenticationMode, DelegatedAuth},
        authorize::AuthorizationMode,
        client_trust::ClientTrust,
        reviews::Reviews,
    },
    catalog::{Catalog, CatalogEntry},
    http::{api_state::ApiState, serve::router},
    limits::{LimitArgs, RequestLimits},
    proxying::MemberProxy,
};
use fleetdex_store::{
    CompleteResources, IndexReader, Store,
    bulk::{Verdict, Write},
    memory::Memory,
    opensearch::ResponseBudget,
};
use fleetdex_telemetry::{Metrics, Readiness};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use kube::{Client, client::Body};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::{ServiceExt, service_fn};

const CLUSTERS: [&str; 3] = ["one", "three", "two"];
const NAMESPACES: [&str; 3] = ["db", "ops", "web"];
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const ROOT: &str = "/apis/search.fleetdex.io/v1alpha1";

/// A kind: group, version, kind, plural, whether it is namespaced.
type Kind = (&'static str, &'static str, &'static str, &'static str, bool);
const KINDS: [Kind; 3] = [
    ("", "v1", "Pod", "pods", true),
    ("apps", "v1", "Deployment", "deployments", true),
    ("", "v1", "Node", "nodes", false),
];

/// An object of the fleet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FleetObject {
    plural: &'static str,
    namespace: &'static str,
    name: &'static str,
    cluster: &'static str,
    label: &'static str,
    /// The name of the deployment in the same cluster and namespace that owns it.
    owner: Option<&'static str>,
}

impl FleetObject {
    fn uid(plural: &str, cluster: &str, namespace: &str, name: &str) -> String {
        format!("{plural}-{cluster}-{namespace}-{name}")
    }
}

/// The permissions of alice.
#[derive(Clone, Debug)]
struct Rights {
    /// `None`: all clusters.
    clusters: Option<BTreeSet<&'static str>>,
    /// By plural; `None`: all namespaces, and cluster-scoped objects.
    namespaces: BTreeMap<&'static str, Option<BTreeSet<&'static str>>>,
}

impl Rights {
    fn random(random: &mut StdRng) -> Self {
        let some =
            |random: &mut StdRng, all: [&'static str; 3]| -> Option<BTreeSet<&'static str>> {
                (!random.random_ratio(1, 3)).then(|| {
                    all.into_iter()
                        .filter(|_| random.random_bool(0.5))
                        .collect()
                })
            };
        let clusters = some(random, CLUSTERS);
        let namespaces = KINDS
            .iter()
            .map(|kind| (kind.3, some(random, NAMESPACES)))
            .collect();
        Self {
            clusters,
            namespaces,
        }
    }

    fn sees_cluster(&self, name: &str) -> bool {
        self.clusters
            .as_ref()
            .is_none_or(|clusters| clusters.contains(name))
    }

    fn sees(&self, plural: &str, of_cluster: &str, namespace: &str) -> bool {
        self.sees_cluster(of_cluster)
            && self.namespaces[plural]
                .as_ref()
                .is_none_or(|names| names.contains(namespace))
    }

    /// Returns the allowed requests as `user verb group/resource namespace name`, with `*` as
    /// wildcard, in the order of `review_words`.
    fn rules(&self) -> Vec<String> {
        let mut rules = vec![
            "admin * * * *".to_owned(),
            "alice get search.fleetdex.io/search/v1  *".to_owned(),
            "alice get search.fleetdex.io/search/apps  *".to_owned(),
            "alice get search.fleetdex.io/aggregate/v1  *".to_owned(),
            "alice get search.fleetdex.io/aggregate/apps  *".to_owned(),
            "alice get search.fleetdex.io/proxying/proxy  *".to_owned(),
        ];
        match &self.clusters {
            None => rules.push("alice get search.fleetdex.io/clusters  *".to_owned()),
            Some(names) => rules.extend(
                names
                    .iter()
                    .map(|name| format!("alice get search.fleetdex.io/clusters  {name}")),
            ),
        }
        for (group, _, _, plural, _) in KINDS {
            match &self.namespaces[plural] {
                None => rules.push(format!("alice * {group}/{plural} * *")),
                Some(names) => rules.extend(
                    names
                        .iter()
                        .map(|name| format!("alice * {group}/{plural} {name} *")),
                ),
            }
        }
        rules
    }
}

struct Fleet {
    objects: BTreeSet<FleetObject>,
    catalog: Catalog,
}

impl Fleet {
    async fn random(random: &mut StdRng, store: Arc<dyn Store>) -> Self {
        let in_store: StoreName = "main".parse().unwrap();
        let (mut objects, mut catalog) = (BTreeSet::new(), Catalog::default());
        let reader: Arc<dyn IndexReader> = Arc::clone(&store) as _;
        catalog.add_store(in_store.clone(), reader);
        for name in CLUSTERS {
            let of_cluster: ClusterName = name.parse().unwrap();
            let revision = store.open(&of_cluster, Some(name), 0).await.unwrap();
            let mut writes = Vec::new();
            for kind in KINDS {
                // Some clusters do not serve all kinds.
                if random.random_ratio(1, 5) {
                    continue;
                }
                let gvk = Gvk::new(kind.0, kind.1, kind.2);
                let resource = Resource {
                    gvk,
                    plural: kind.3.into(),
                    namespaced: kind.4,
                };
                let (served, fields) = (served(&resource), &[]);
                catalog.add(CatalogEntry {
                    served: &served,
                    cluster: &of_cluster,
                    store: &in_store,
                    fields,
                    any_path: false,
                });
                let projector = Projector::new(&of_cluster, &resource, &Projection::default(), &[]);
                for _ in 0..random.random_range(0..8) {
                    let object = random_object(kind, name, random);
                    let is_new = !objects.iter().any(|known: &FleetObject| {
                        (known.plural, known.cluster, known.namespace, known.name)
                            == (object.plural, object.cluster, object.namespace, object.name)
                    });
                    if is_new {
                        let text = object_json(&object).to_string();
                        let document = projector
                            .document(&Object::parse(&text).unwrap(), "2026-01-01T00:00:00Z")
                            .unwrap();
                        writes.push(Write {
                            index: revision.target.clone(),
                            document,
                        });
                        objects.insert(object);
                    }
                }
            }
            if !writes.is_empty() {
                let verdicts = store.write(&writes).await.unwrap();
                assert!(
                    verdicts.iter().all(|verdict| *verdict == Verdict::Indexed),
                    "{verdicts:?}"
                );
            }
            store
                .activate(&revision, &CompleteResources::All)
                .await
                .unwrap();
        }
        Self { objects, catalog }
    }

    /// Whether an object has an owner with this name that a caller with these rights may list.
    fn is_owned(&self, object: &FleetObject, owner: &str, rights: &Rights) -> bool {
        let is_owner = |other: &&FleetObject| {
            (other.plural, other.cluster, other.namespace, other.name)
                == ("deployments", object.cluster, object.namespace, owner)
        };
        object.owner == Some(owner)
            && self
                .objects
                .iter()
                .filter(is_owner)
                .any(|other| rights.sees(other.plural, other.cluster, other.namespace))
    }
}

fn random_object(kind: Kind, cluster: &'static str, random: &mut StdRng) -> FleetObject {
    let choose = |random: &mut StdRng, from: &[&'static str]| *from.choose(random).unwrap();
    FleetObject {
        plural: kind.3,
        namespace: if kind.4 {
            choose(random, &NAMESPACES)
        } else {
            ""
        },
        name: choose(random, &NAMES),
        cluster,
        label: choose(random, &["x", "y"]),
        owner: (kind.3 == "pods" && random.random_bool(0.5)).then(|| choose(random, &NAMES)),
    }
}

fn object_json(object: &FleetObject) -> Value {
    let uid = FleetObject::uid(object.plural, object.cluster, object.namespace, object.name);
    let mut metadata = json!({ "name": object.name, "uid": uid, "resourceVersion": "1", "labels": { "app": object.label } });
    if !object.namespace.is_empty() {
        metadata["namespace"] = object.namespace.into();
    }
    if let Some(owner) = object.owner {
        let uid = FleetObject::uid("deployments", object.cluster, object.namespace, owner);
        metadata["ownerReferences"] =
            json!([{ "apiVersion": "apps/v1", "kind": "Deployment", "name": owner, "uid": uid }]);
    }
    json!({ "metadata": metadata })
}

/// The parameters of a query, independent of the operation.
#[derive(Clone, Debug)]
struct ListQuery {
    kind: Kind,
    clusters: Vec<&'static str>,
    namespaces: Vec<&'static str>,
    label: Option<&'static str>,
    owner: Option<&'static str>,
    name: Option<&'static str>,
}

impl ListQuery {
    fn random(random: &mut StdRng) -> Self {
        let kind = *KINDS.choose(random).unwrap();
        let some = |random: &mut StdRng, all: &[&'static str]| -> Vec<&'static str> {
            if random.random_ratio(2, 3) {
                Vec::new()
            } else {
                all.iter()
                    .filter(|_| random.random_bool(0.5))
                    .copied()
                    .collect()
            }
        };
        Self {
            kind,
            clusters: some(random, &["nowhere", "one", "three", "two"]),
            namespaces: if kind.4 {
                some(random, &NAMESPACES)
            } else {
                Vec::new()
            },
            label: random.random_bool(0.3).then_some("x"),
            owner: random
                .random_bool(0.2)
                .then(|| *NAMES.choose(random).unwrap()),
            name: random
                .random_bool(0.2)
                .then(|| *NAMES.choose(random).unwrap()),
        }
    }

    fn path(&self, operation: &str, more: &str) -> String {
        let (group, version, _, plural, _) = self.kind;
        let root = if group.is_empty() {
            "api".to_owned()
        } else {
            format!("apis/{group}")
        };
        let (namespace, namespaces) = match (self.name, self.namespaces.as_slice()) {
            (Some(_), [one, ..]) => (format!("namespaces/{one}/"), String::new()),
            (_, names) => (String::new(), format!("&namespaces={}", names.join(","))),
        };
        let name = self.name.map(|name| format!("/{name}")).unwrap_or_default();
        let label = self
            .label
            .map(|label| format!("&labelSelector=app%3D{label}"))
            .unwrap_or_default();
        let owner = self
            .owner
            .map(|owner| format!("&ownerName={owner}&ownerSeniority=0"))
            .unwrap_or_default();
        let clusters = self.clusters.join(",");
        format!(
            "{ROOT}/{operation}/{root}/{version}/{namespace}{plural}{name}?clusters={clusters}{namespaces}{label}{owner}{more}"
        )
    }

    /// Whether the query selects an object, for a caller with these rights on owners.
    fn selects(&self, fleet: &Fleet, object: &FleetObject, rights: &Rights) -> bool {
        let namespaces = if self.name.is_some() {
            &self.namespaces[..self.namespaces.len().min(1)]
        } else {
            &self.namespaces[..]
        };
        object.plural == self.kind.3
            && (self.clusters.is_empty() || self.clusters.contains(&object.cluster))
            && (namespaces.is_empty() || namespaces.contains(&object.namespace))
            && self.label.is_none_or(|label| object.label == label)
            && self.name.is_none_or(|name| object.name == name)
            && self
                .owner
                .is_none_or(|owner| fleet.is_owned(object, owner, rights))
    }
}

/// Returns namespace, name and cluster of each object of a list.
fn items(list: &Value) -> Vec<(String, String, String)> {
    let items = list["items"].as_array().unwrap().iter();
    items.map(object_key).collect()
}

fn object_key(item: &Value) -> (String, String, String) {
    let metadata = &item["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let uid = text(&metadata["uid"]);
    let of_cluster = CLUSTERS
        .iter()
        .find(|name| uid.split('-').nth(1) == Some(name))
        .unwrap();
    (
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        (*of_cluster).to_owned(),
    )
}

fn served(resource: &Resource) -> ServedResource {
    let verbs = ["get", "list", "watch"].map(Arc::from).to_vec();
    ServedResource {
        singular: resource.gvk.kind.to_ascii_lowercase().into(),
        resource: resource.clone(),
        short_names: Vec::new(),
        list_and_watch: true,
        preferred: true,
        capabilities: Arc::new(ResourceCapabilities {
            verbs,
            ..ResourceCapabilities::default()
        }),
    }
}

/// A control plane that authenticates users by a token equal to their name, and authorizes by the
/// rules.
fn control_plane(rules: Vec<String>) -> Client {
    let rules: Arc<[String]> = rules.into();
    let service = service_fn(move |request: Request<Body>| {
        let rules = Arc::clone(&rules);
        async move {
            let is_token_review = request.uri().path().ends_with("/tokenreviews");
            let bytes = request.into_body().collect().await.unwrap().to_bytes();
            let mut review: Value = serde_json::from_slice(&bytes).unwrap();
            review["status"] = if is_token_review {
                json!({ "authenticated": true, "user": { "username": review["spec"]["token"] } })
            } else {
                let attributes =
                    review_words(&serde_json::from_value(review["spec"].clone()).unwrap());
                json!({ "allowed": rules.iter().any(|rule| allows(rule, &attributes)) })
            };
            let body = Body::from(review.to_string().into_bytes());
            Ok::<_, std::convert::Infallible>(Response::builder().status(201).body(body).unwrap())
        }
    });
    Client::new(service, "default")
}

fn review_words(spec: &SubjectAccessReviewSpec) -> Vec<String> {
    let user = spec.user.clone().unwrap();
    let Some(attributes) = spec.resource_attributes.clone() else {
        return vec![user];
    };
    let mut resource = format!(
        "{}/{}",
        attributes.group.unwrap_or_default(),
        attributes.resource.unwrap()
    );
    if let Some(below) = attributes.subresource {
        resource = format!("{resource}/{below}");
    }
    vec![
        user,
        attributes.verb.unwrap(),
        resource,
        attributes.namespace.unwrap_or_default(),
        attributes.name.unwrap_or_default(),
    ]
}

fn allows(rule: &str, attributes: &[String]) -> bool {
    let rule: Vec<&str> = rule.split(' ').collect();
    rule.len() == attributes.len()
        && rule
            .iter()
            .zip(attributes)
            .all(|(allowed, word)| *allowed == "*" || allowed == word)
}

/// Returns the API over a catalog. The sender of the catalog has to live as long as the API is
/// used.
fn api(rules: Vec<String>, catalog: watch::Receiver<Arc<Catalog>>) -> ApiState {
    let (_, trust) = watch::channel(Arc::new(ClientTrust::new(false)));
    let metrics = Arc::new(Metrics::new());
    let reviews = Reviews::new(
        control_plane(rules),
        Arc::new(|_: &ClusterName| None),
        Vec::new(),
        metrics.rejected_requests("reviews"),
    );
    let authentication_mode = AuthenticationMode::Delegated(DelegatedAuth::new(
        trust,
        reviews,
        AuthorizationMode::ControlPlane,
        &metrics,
    ));
    let limits = RequestLimits::new(&LimitArgs::default(), &metrics);
    let (loader, network) = (
        Loader::without_control_plane(),
        Arc::new(Network::default()),
    );
    let none = Arc::new(Clusters::new(
        loader,
        network,
        ConnectionTiming::default(),
        CancellationToken::new(),
    ));
    let members = Arc::new(MemberProxy::new(none, CancellationToken::new()));
    ApiState::new(
        Answers::new(catalog, authentication_mode, limits, metrics),
        members,
    )
}

struct UserClient<'w> {
    api: &'w ApiState,
    name: &'static str,
}

impl UserClient<'_> {
    /// Returns the JSON documents of a response: one, or the events of a watch.
    async fn get(&self, path: &str) -> (u16, Vec<Value>) {
        let bearer = format!("Bearer {}", self.name);
        let mut request = Request::get(path)
            .header("authorization", bearer)
            .body(Empty::new())
            .unwrap();
        request.extensions_mut().insert(RemoteClient::at(
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            Vec::new(),
        ));
        let response = router(self.api.clone(), Readiness::new())
            .oneshot(request)
            .await
            .unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (
            code,
            serde_json::Deserializer::from_slice(&bytes)
                .into_iter()
                .map(Result::unwrap)
                .collect(),
        )
    }

    async fn list(&self, query: &ListQuery) -> (u16, Vec<(String, String, String)>) {
        let (code, body) = self.get(&query.path("search", "")).await;
        (
            code,
            if code == 200 {
                items(&body[0])
            } else {
                Vec::new()
            },
        )
    }

    /// Reads all pages and checks their `remainingItemCount`.
    async fn pages(&self, query: &ListQuery) -> (u16, Vec<(String, String, String)>) {
        let (mut found, mut token) = (Vec::new(), String::new());
        let mut promised = None;
        loop {
            let (code, body) = self
                .get(&query.path("search", &format!("&limit=2&continue={token}")))
                .await;
            if code != 200 {
                return (code, Vec::new());
            }
            let page = items(&body[0]);
            if let Some(promised) = promised {
                let left = body[0]["metadata"]["remainingItemCount"]
                    .as_u64()
                    .unwrap_or(0)
                    + page.len() as u64;
                assert_eq!(left, promised, "{query:?}");
            }
            found.extend(page);
            promised = body[0]["metadata"]["remainingItemCount"].as_u64();
            match body[0]["metadata"]["continue"].as_str() {
                Some(next) => {
                    token = next
                        .replace('+', "%2B")
                        .replace('/', "%2F")
                        .replace('=', "%3D");
                }
                None => return (code, found),
            }
        }
    }

    async fn counts(&self, query: &ListQuery) -> (u16, u64, BTreeMap<(String, String), u64>) {
        let (code, body) = self
            .get(&query.path("aggregate", "&by=cluster,metadata.namespace"))
            .await;
        if code != 200 {
            return (code, 0, BTreeMap::new());
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let group = |item: &Value| {
            (
                (text(&item["values"][0]), text(&item["values"][1])),
                item["count"].as_u64().unwrap(),
            )
        };
        (
            code,
            body[0]["total"].as_u64().unwrap(),
            body[0]["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(group)
                .collect(),
        )
    }

    async fn explained(&self, query: &ListQuery) -> (u16, u64) {
        let (code, body) = self.get(&query.path("search", "&explain=true")).await;
        (
            code,
            body[0]["estimate"]["objects"].as_u64().unwrap_or_default(),
        )
    }

    /// Returns the initial events of a watch.
    async fn watched(&self, query: &ListQuery) -> (u16, Vec<(String, String, String)>) {
        let (code, events) = self
            .get(&query.path("search", "&watch=true&timeoutSeconds=0"))
            .await;
        if code != 200 {
            return (code, Vec::new());
        }
        let added = events
            .iter()
            .inspect(|event| assert_eq!(event["type"], "ADDED", "{event}"));
        (
            code,
            added.map(|event| object_key(&event["object"])).collect(),
        )
    }
}

async fn check_permissions(seed: u64, store: Arc<dyn Store>) {
    let mut random = StdRng::seed_from_u64(seed);
    let fleet = Fleet::random(&mut random, store).await;
    let rights = Rights::random(&mut random);
    let (_catalog, receiver) = watch::channel(Arc::new(fleet.catalog.clone()));
    let api = api(rights.rules(), receiver);
    let (admin, alice) = (
        UserClient {
            api: &api,
            name: "admin",
        },
        UserClient {
            api: &api,
            name: "alice",
        },
    );
    let everything = Rights {
        clusters: None,
        namespaces: KINDS.iter().map(|kind| (kind.3, None)).collect(),
    };
    for _ in 0..6 {
        let query = ListQuery::random(&mut random);
        let about = format!("seed {seed}: {query:?} with {rights:?}");
        let (code, all) = admin.list(&query).await;
        let selected = |rights: &Rights| -> BTreeSet<(String, String, String)> {
            let found = fleet
                .objects
                .iter()
                .filter(|object| query.selects(&fleet, object, rights));
            found
                .map(|object| {
                    (
                        object.namespace.to_owned(),
                        object.name.to_owned(),
                        object.cluster.to_owned(),
                    )
                })
                .collect()
        };
        if code == 200 {
            assert_eq!(
                all.iter().cloned().collect::<BTreeSet<_>>(),
                selected(&everything),
                "{about}"
            );
        }
        // An owner that the user may not see is ignored, and so are objects that only match by it.
        let reachable = selected(&rights);
        let permitted: Vec<_> = all
            .into_iter()
            .filter(|key| rights.sees(query.kind.3, &key.2, &key.0) && reachable.contains(key))
            .collect();
        let names_hidden = query.clusters.iter().any(|name| !rights.sees_cluster(name));
        let (status, listed) = alice.list(&query).await;
        match status {
            200 => assert_eq!((code, &listed), (200, &permitted), "{about}"),
            403 => assert!(
                names_hidden || permitted.is_empty(),
                "{about}: {permitted:?}"
            ),
            404 => assert!(
                permitted.is_empty() && !names_hidden,
                "{about}: {permitted:?}"
            ),
            other => panic!("{about}: {other}"),
        }
        assert!(!names_hidden || status == 403, "{about}: {status}");
        assert_eq!(
            alice.pages(&query).await,
            (status, listed.clone()),
            "{about}"
        );
        let mut groups: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (namespace, _, of_cluster) in &listed {
            *groups
                .entry((of_cluster.clone(), namespace.clone()))
                .or_default() += 1;
        }
        if query.name.is_none() {
            assert_eq!(
                alice.counts(&query).await,
                (status, listed.len() as u64, groups),
                "{about}"
            );
        }
        assert_eq!(
            alice.explained(&query).await,
            (status, listed.len() as u64),
            "{about}"
        );
        if query.name.is_none() && query.owner.is_none() {
            let (watch_status, mut watched) = alice.watched(&query).await;
            let mut expected = listed.clone();
            watched.sort_unstable();
            expected.sort_unstable();
            assert_eq!((watch_status, watched), (status, expected), "{about}");
        }
    }
}

fn check_seeds(seeds: std::ops::Range<u64>, store: impl AsyncFn(u64) -> Arc<dyn Store>) {
    for seed in seeds {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        fastrand::seed(seed);
        runtime.block_on(async { check_permissions(seed, store(seed).await).await });
    }
}

#[test]
fn a_user_sees_exactly_the_permitted_objects_in_memory() {
    check_seeds(0..60, async |_| Arc::new(Memory::new()) as Arc<dyn Store>);
}

#[test]
fn a_user_sees_exactly_the_permitted_objects_on_opensearch() {
    check_seeds(100..160, async |seed| {
        let engine = OpenSearch::new(seed).engine("fleetdex".parse().unwrap());
        engine.prepare().await.unwrap();
        Arc::new(engine) as Arc<dyn Store>
    });
}

#[test]
fn a_user_sees_exactly_the_permitted_objects_when_responses_are_read_in_parts() {
    // Room for three objects with the metadata of their hits.
    let answers = || ResponseBudget::of_at_most(4 << 10);
    check_seeds(200..230, async |seed| {
        let server = OpenSearch::new(seed);
        let engine = server.engine_reading_into("fleetdex".parse().unwrap(), answers());
        engine.prepare().await.unwrap();
        Arc::new(engine) as Arc<dyn Store>
    });
}
