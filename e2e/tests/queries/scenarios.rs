//! `tests/scenarios/*.yaml`: requests to a real kube-apiserver, to our server over OpenSearch, and
//! to our server over the embedded store, with the expected response of all. A difference is
//! declared in the file, with its reason.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, ensure};
use e2e::{
    fleet::{Fleet, OpenSearchKind, Options, unique_prefix},
    http,
    objects::Objects,
    operator::Operator,
    query_api::store_at,
    scenario::{SECRETS, prepare, start_operator, until},
    test_result::Tested,
};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

const REGISTRIES: &str = "apis/search.karmada.io/v1alpha1/resourceregistries";
const OURS: &str = "apis/search.fleetdex.io/v1alpha1";
/// Fields that the store in OpenSearch makes selectable besides those that Kubernetes has.
const FIELD_PATHS: [&str; 1] = ["metadata.annotations['shop.example.com/team']"];
/// Minimal number of requests of all files, so that a mistake in a file cannot drop some.
const LEAST_REQUESTS: usize = 150;

/// A file of scenarios: objects, and requests about them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    about: String,
    /// The resource of requests that name no other.
    path: String,
    /// Namespaces to create.
    #[serde(default)]
    namespaces: Vec<String>,
    /// Custom resource definitions to create first.
    #[serde(default)]
    definitions: Vec<Value>,
    /// Defaults of every object of this file.
    #[serde(default)]
    template: Value,
    /// Objects by the collection that they are created in.
    #[serde(default)]
    objects: BTreeMap<String, Vec<Value>>,
    /// Objects owned by those objects, created in this order.
    #[serde(default)]
    children: Vec<Children>,
    requests: Vec<Request>,
}

/// Objects that one object owns.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Children {
    /// The collection that they are created in.
    r#in: String,
    /// The path of their owner.
    owner: String,
    objects: Vec<Value>,
}

/// A request, and one expectation.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Request {
    /// Another path than the file's.
    path: Option<String>,
    /// Label selector.
    l: Option<String>,
    /// Field selector.
    f: Option<String>,
    /// Other parameters.
    #[serde(default)]
    with: BTreeMap<String, String>,
    /// Follow `continue` to the end: the expected number of pages, whose names are concatenated.
    pages: Option<usize>,
    /// The status code, unless it is 200.
    status: Option<u16>,
    /// The names of the items, in order.
    names: Option<Vec<String>>,
    /// The names of the objects that a watch reports as added before it ends, in any order.
    added: Option<Vec<String>>,
    /// How many objects come after this page.
    remaining: Option<u64>,
    /// Groups of counts, as `value/value: count`.
    groups: Option<BTreeMap<String, u64>>,
    /// A part of an error message.
    says: Option<String>,
    /// The kind of the response.
    kind: Option<String>,
    /// The different response of a Kubernetes API server, with the reason.
    kubernetes: Option<Difference>,
    /// The different response of the embedded store, with the reason.
    embedded: Option<Difference>,
    /// The different response of the stores in which any path is selectable, with the reason.
    any_path: Option<Difference>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    because: String,
    /// The engine lacks the feature, and the request is skipped.
    #[serde(default)]
    absent: bool,
    status: Option<u16>,
    names: Option<Vec<String>>,
}

/// The engine that a request is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Kubernetes,
    OpenSearch,
    /// OpenSearch with `indexing: Full`.
    Full,
    Embedded,
}

/// The engines that must store the objects of the files.
const STORES: [Engine; 3] = [Engine::OpenSearch, Engine::Full, Engine::Embedded];

fn files() -> Result<Vec<File>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/scenarios");
    let mut paths: Vec<_> = fs::read_dir(&folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = fs::read_to_string(path)?;
        serde_saphyr::from_str(&text).with_context(|| format!("reading {}", path.display()))
    };
    paths
        .iter()
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "yaml")
        })
        .map(read)
        .collect()
}

/// Merges two objects; the fields of the second take precedence.
fn merged(base: &Value, over: &Value) -> Value {
    let (Value::Object(base), Value::Object(over)) = (base, over) else {
        return over.clone();
    };
    let mut both = base.clone();
    for (key, value) in over {
        let old = both.get(key).cloned().unwrap_or_default();
        both.insert(key.clone(), merged(&old, value));
    }
    both.into()
}

/// The servers under test.
struct Servers {
    member: Objects,
    operator: Operator,
    client: reqwest::Client,
    /// The names of the stores in OpenSearch: one with the selectable fields, one with everything.
    stores: [String; 2],
    /// Keeps the servers running.
    _fleet: Fleet,
}

impl Servers {
    async fn start(kind: OpenSearchKind) -> Result<Self> {
        let fleet = Fleet::start(Options::of(1, kind)).await?;
        prepare(&fleet).await?;
        let hub = Objects::of(fleet.control_plane())?;
        let stores = register(&hub, &fleet).await?;
        let operator = start_operator(&fleet, &[]).await?;
        Ok(Self {
            member: Objects::of(fleet.member(1))?,
            operator,
            client: http::client(None)?,
            stores,
            _fleet: fleet,
        })
    }

    async fn send(
        &self,
        engine: Engine,
        path: &str,
        parameters: &[(String, String)],
    ) -> Result<(u16, Value)> {
        if engine == Engine::Kubernetes {
            let query = reqwest::Url::parse_with_params("http://localhost/", parameters)?;
            let path = format!("{path}?{}", query.query().unwrap_or_default());
            let (status, answer) = self
                .member
                .send(Method::GET, &path, "application/json", None)
                .await?;
            return Ok((status.as_u16(), answer));
        }
        let (store, rest) = path
            .split_once(':')
            .map_or(("search", path), |(store, rest)| (store, rest));
        let category = match (store, engine) {
            ("search", Engine::OpenSearch | Engine::Full) => "search/opensearch",
            ("search", _) => "search/cache",
            (other, _) => other,
        };
        let url = format!(
            "http://{}/{OURS}/{category}/{rest}",
            self.operator.api_address()
        );
        let mut request = self
            .client
            .get(url)
            .bearer_auth(self.operator.token()?)
            .query(parameters);
        let [selectable, full] = &self.stores;
        let named = match engine {
            Engine::Full => full,
            Engine::Embedded => "embedded",
            Engine::OpenSearch | Engine::Kubernetes => selectable,
        };
        request = request.query(&[("store", named)]);
        let response = request.send().await?;
        let status = response.status().as_u16();
        let text = response.text().await?;
        Ok((
            status,
            serde_json::from_str(&text).unwrap_or(Value::String(text)),
        ))
    }

    /// Creates the objects of a file, and waits until both stores have their latest versions.
    async fn fill(&self, file: &File) -> Result<()> {
        for definition in &file.definitions {
            let name = definition["metadata"]["name"]
                .as_str()
                .context("a definition without a name")?;
            let path = format!("apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
            self.member.apply(&path, definition).await?;
        }
        for namespace in &file.namespaces {
            self.member.create_namespace(namespace).await?;
        }
        for (collection, objects) in &file.objects {
            let objects: Vec<Value> = objects
                .iter()
                .map(|object| merged(&file.template, object))
                .collect();
            self.make_all(collection, &objects).await?;
        }
        for children in &file.children {
            let owner = self.member.get(&children.owner).await?;
            let reference = json!({
                "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            });
            let owned = json!({ "metadata": { "ownerReferences": [reference] } });
            let objects: Vec<Value> = children
                .objects
                .iter()
                .map(|object| merged(object, &owned))
                .collect();
            self.make_all(&children.r#in, &objects).await?;
        }
        for definition in &file.definitions {
            self.wait_for_fields(file, definition).await?;
        }
        Ok(())
    }

    /// The fields of a definition are selectable once all objects have been written with them.
    async fn wait_for_fields(&self, file: &File, definition: &Value) -> Result<()> {
        let versions = definition["spec"]["versions"]
            .as_array()
            .into_iter()
            .flatten();
        for field in versions
            .flat_map(|version| version["selectableFields"].as_array().into_iter().flatten())
        {
            let path = field["jsonPath"]
                .as_str()
                .unwrap_or_default()
                .trim_start_matches('.');
            for engine in STORES {
                until(&format!("{engine:?} knows {path}"), || async {
                    let (status, answer) = self
                        .send(
                            engine,
                            &file.path,
                            &[("orderBy".to_owned(), path.to_owned())],
                        )
                        .await?;
                    compare_status(None, status, &answer)
                })
                .await?;
            }
        }
        Ok(())
    }

    async fn make_all(&self, collection: &str, objects: &[Value]) -> Result<()> {
        let mut versions = BTreeMap::new();
        for object in objects {
            let (name, version) = self.make(collection, object).await?;
            versions.insert(name, version);
        }
        for engine in STORES {
            let what = format!("{engine:?} has {collection}");
            until(&what, || async {
                let (status, list) = self.send(engine, collection, &[]).await?;
                ensure!(status == 200, "{list}");
                for (name, version) in &versions {
                    let stored =
                        items(&list).find(|item| item["metadata"]["name"] == name.as_str());
                    let stored = stored.with_context(|| format!("{name} is not there"))?;
                    ensure!(
                        stored["metadata"]["resourceVersion"] == version.as_str(),
                        "{name} is not the newest"
                    );
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    /// Creates an object with its status; returns its name and version.
    async fn make(&self, collection: &str, object: &Value) -> Result<(String, String)> {
        let name = object["metadata"]["name"]
            .as_str()
            .context("an object without a name")?;
        let path = format!("{collection}/{name}");
        let mut object = object.clone();
        let status = object
            .as_object_mut()
            .and_then(|members| members.remove("status"));
        let made = until(&format!("{path} is made"), || {
            self.member.apply(&path, &object)
        })
        .await?;
        let made = match status {
            Some(status) => {
                self.member
                    .merge(&format!("{path}/status"), &json!({ "status": status }))
                    .await?
            }
            None => made,
        };
        Ok((
            name.to_owned(),
            made["metadata"]["resourceVersion"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        ))
    }

    async fn check(&self, file: &File, request: &Request, engine: Engine) -> Result<()> {
        let path = request.path.as_deref().unwrap_or(&file.path);
        let difference = match engine {
            Engine::Kubernetes => request.kubernetes.as_ref(),
            Engine::Embedded => request.embedded.as_ref().or(request.any_path.as_ref()),
            Engine::Full => request.any_path.as_ref(),
            Engine::OpenSearch => None,
        };
        if difference.is_some_and(|difference| difference.absent) {
            return Ok(());
        }
        let selectors = [("labelSelector", &request.l), ("fieldSelector", &request.f)];
        let mut parameters: Vec<(String, String)> = selectors
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)))
            .collect();
        parameters.extend(request.with.clone());
        let (status, mut answer) = self.send(engine, path, &parameters).await?;
        if let Some(pages) = request.pages.filter(|_| status == 200) {
            self.read_further_pages(engine, path, &parameters, pages, &mut answer)
                .await
                .with_context(|| format!("{path} {parameters:?}"))?;
        }
        let found = match difference {
            Some(Difference {
                status: expected,
                names,
                ..
            }) => compare_status(*expected, status, &answer)
                .and_then(|()| compare_names(names.as_ref(), &answer)),
            None => compare(request, engine, status, &answer),
        };
        found.with_context(|| format!("{}: {engine:?} on {path} with {parameters:?}", file.about))
    }
}

impl Servers {
    /// Adds the items of all further pages.
    async fn read_further_pages(
        &self,
        engine: Engine,
        path: &str,
        parameters: &[(String, String)],
        pages: usize,
        answer: &mut Value,
    ) -> Result<()> {
        let mut found = 1;
        let mut token = answer["metadata"]["continue"].as_str().map(str::to_owned);
        while let Some(text) = token.filter(|text| !text.is_empty()) {
            let next = [parameters, &[("continue".to_owned(), text)]].concat();
            let (status, page) = self.send(engine, path, &next).await?;
            ensure!(status == 200, "{engine:?}: page {found}: {page}");
            if let Some(all) = answer["items"].as_array_mut() {
                all.extend(items(&page).cloned());
            }
            token = page["metadata"]["continue"].as_str().map(str::to_owned);
            found += 1;
        }
        ensure!(found == pages, "{engine:?} has {found} pages, not {pages}");
        Ok(())
    }
}

/// Registers everything that the files create for all stores. Returns the names of those in
/// OpenSearch.
async fn register(hub: &Objects, fleet: &Fleet) -> Result<[String; 2]> {
    let kind = |api_version: &str, kind: &str| json!({ "apiVersion": api_version, "kind": kind });
    let mut selectors: Vec<Value> = [
        "Pod",
        "Service",
        "ConfigMap",
        "Secret",
        "Node",
        "Event",
        "Namespace",
    ]
    .map(|name| kind("v1", name))
    .into();
    selectors.extend([
        kind("apps/v1", "Deployment"),
        kind("apps/v1", "ReplicaSet"),
        kind("batch/v1", "Job"),
        kind("shop.example.com/v1", "Widget"),
    ]);
    let server = fleet.opensearch()?;
    let prefix = unique_prefix("scenarios");
    let mut store = json!({ "addresses": [server.url()], "indexPrefix": prefix, "numberOfReplicas": 0, "fieldPaths": FIELD_PATHS });
    if let (Some(ca), Some(username), Some(password)) =
        (server.ca_pem(), server.username(), server.password())
    {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "scenarios", "annotations": { "fleetdex.io/allowed-hosts": "127.0.0.1" } },
            "stringData": { "username": username, "password": password },
        });
        let path = format!("api/v1/namespaces/{SECRETS}/secrets/scenarios");
        hub.apply(&path, &secret).await?;
        store["caBundle"] = ca.into();
        store["secretRef"] = json!({ "namespace": SECRETS, "name": "scenarios" });
    }
    let full_prefix = unique_prefix("everything");
    let mut full = store.clone();
    full["indexPrefix"] = full_prefix.as_str().into();
    full["indexing"] = "Full".into();
    let backends = [
        ("indexed", json!({ "openSearch": store })),
        ("everything", json!({ "openSearch": full })),
        ("embedded", Value::Null),
    ];
    for (name, backend) in backends {
        let mut spec = json!({ "resourceSelectors": selectors });
        if !backend.is_null() {
            spec["backendStore"] = backend;
        }
        let registry = json!({
            "apiVersion": "search.karmada.io/v1alpha1", "kind": "ResourceRegistry", "metadata": { "name": name }, "spec": spec,
        });
        hub.apply(&format!("{REGISTRIES}/{name}"), &registry)
            .await?;
    }
    Ok([
        store_at(server.url(), &prefix)?,
        store_at(server.url(), &full_prefix)?,
    ])
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}

fn compare_status(expected: Option<u16>, found: u16, answer: &Value) -> Result<()> {
    ensure!(found == expected.unwrap_or(200), "status {found}: {answer}");
    Ok(())
}

fn compare_names(expected: Option<&Vec<String>>, answer: &Value) -> Result<()> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let of_items: Vec<&str> = items(answer)
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    // Kubernetes returns a single object by name; here it is a list of one.
    let single: Vec<&str> = answer["metadata"]["name"].as_str().into_iter().collect();
    let found = if answer["items"].is_array() {
        of_items
    } else {
        single
    };
    ensure!(found == *expected, "found {found:?}, not {expected:?}");
    Ok(())
}

fn compare(expected: &Request, engine: Engine, status: u16, answer: &Value) -> Result<()> {
    compare_status(expected.status, status, answer)?;
    compare_names(expected.names.as_ref(), answer)?;
    if let Some(added) = &expected.added {
        let text = answer
            .as_str()
            .map_or_else(|| answer.to_string(), str::to_owned);
        let events: Vec<Value> = text
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        let names = events
            .iter()
            .filter(|event| event["type"] == "ADDED")
            .filter_map(|event| event["object"]["metadata"]["name"].as_str());
        let (found, wanted): (BTreeSet<&str>, BTreeSet<&str>) =
            (names.collect(), added.iter().map(String::as_str).collect());
        ensure!(found == wanted, "added {found:?}, not {wanted:?}");
    }
    if let Some(groups) = &expected.groups {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let values = |item: &Value| {
            item["values"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect::<Vec<_>>()
                .join("/")
        };
        let count = |item: &Value| item["count"].as_u64().unwrap_or_default();
        let found: BTreeMap<String, u64> = items(answer)
            .map(|item| (values(item), count(item)))
            .collect();
        ensure!(found == *groups, "counted {found:?}, not {groups:?}");
    }
    if let Some(kind) = &expected.kind {
        ensure!(
            answer["kind"] == kind.as_str(),
            "the answer is a {}",
            answer["kind"]
        );
    }
    // Error messages differ between servers, and Kubernetes reports a remaining count only without
    // selectors.
    if engine == Engine::Kubernetes {
        return Ok(());
    }
    if let Some(remaining) = expected.remaining {
        let found = &answer["metadata"]["remainingItemCount"];
        ensure!(*found == remaining, "{found} remain, not {remaining}");
    }
    if let Some(part) = &expected.says {
        let message = answer["message"].as_str().unwrap_or_default();
        ensure!(message.contains(part), "it says {message:?}, not {part:?}");
    }
    Ok(())
}

async fn run(kind: OpenSearchKind) -> Result<()> {
    let files = files()?;
    let count: usize = files.iter().map(|file| file.requests.len()).sum();
    ensure!(count >= LEAST_REQUESTS, "only {count} requests");
    let servers = Servers::start(kind).await?;
    let mut wrong = Vec::new();
    let mut differences = 0;
    for file in &files {
        servers
            .fill(file)
            .await
            .with_context(|| file.about.clone())?;
        for request in &file.requests {
            differences += usize::from(
                request
                    .kubernetes
                    .as_ref()
                    .is_some_and(|difference| !difference.because.is_empty()),
            );
            for engine in [Engine::Kubernetes].into_iter().chain(STORES) {
                wrong.extend(
                    servers
                        .check(file, request, engine)
                        .await
                        .err()
                        .map(|error| format!("{error:#}")),
                );
            }
        }
    }
    eprintln!("{count} requests, {differences} of them declared different from Kubernetes");
    ensure!(
        wrong.is_empty(),
        "{} answers are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    Ok(())
}

#[tokio::test]
async fn requests_have_equal_responses_from_kubernetes_opensearch_and_the_embedded_store() -> Tested
{
    run(OpenSearchKind::Plain).await?;
    Ok(())
}

#[tokio::test]
async fn requests_have_equal_responses_over_opensearch_2() -> Tested {
    run(OpenSearchKind::Secure).await?;
    Ok(())
}
