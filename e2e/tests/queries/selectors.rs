//! The central guarantee, on real servers: for any selector, an API server, OpenSearch and our own
//! matching return the same objects.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use e2e::{
    engine::engine,
    fleet::{ApiServer, Fleet, OpenSearchKind, OpenSearchServer, Options},
    generate::{
        Family, GeneratedSelectors, Generator, Planned, SEED_VARIABLE, families, seed,
        widget_definition,
    },
    http,
    poll::eventually,
};
use fleetdex_core::{
    model::{ClusterName, FieldValues, Object, Projection, Projector, Scope},
    query::{CheckedQuery, Query, ResourceName, Selectable, WordText},
};
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, RevisionStore as _,
    bulk::{Verdict, Write},
    opensearch::dsl::{self, Paging},
};
use futures::{StreamExt, TryStreamExt, stream};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json, value::RawValue};

use crate::query_reference::{QueryReference as _, Searchable};

/// How many selectors are tried.
const SELECTORS: usize = 2_800;
const CONCURRENCY: usize = 16;
const SEARCHES_PER_REQUEST: usize = 60;
const CLUSTER: &str = "member1";
const PREFIX: &str = "laws";

#[tokio::test(flavor = "multi_thread")]
async fn any_selector_selects_the_same_in_an_api_server_opensearch_and_memory() {
    let seed = seed().unwrap();
    eprintln!("seed {seed} (set {SEED_VARIABLE}={seed} to see the same again)");
    let outcome = check_engines_agree(seed).await;
    outcome
        .with_context(|| format!("with {SEED_VARIABLE}={seed}"))
        .unwrap();
}

async fn check_engines_agree(seed: u64) -> Result<()> {
    let fleet = Fleet::start(Options::of(1, OpenSearchKind::Plain)).await?;
    let member = Member::of(fleet.member(1))?;
    let mut generator = Generator::new(seed);
    let names = member.create(generator.objects()).await?;
    let mut lists = Vec::new();
    for family in families()? {
        lists.push(List {
            items: member.list(&family, &names).await?,
            family,
        });
    }
    let kinds: Vec<Kind<'_>> = lists.iter().map(Kind::of).collect::<Result<_>>()?;
    let created: usize = kinds.iter().map(|kind| kind.items.len()).sum();
    ensure!(created >= 300, "only {created} objects were found again");
    index(fleet.opensearch()?, &kinds).await?;

    let selector_queries: Vec<SelectorQuery<'_, '_>> = (0..SELECTORS)
        .map(|_| selector_query(&mut generator, &kinds))
        .collect();
    let started = Instant::now();
    let from_memory: Vec<QueryResult> = selector_queries
        .iter()
        .map(SelectorQuery::select_in_memory)
        .collect();
    let in_memory = started.elapsed();
    let opensearch_started = Instant::now();
    let from_opensearch = select_in_opensearch(fleet.opensearch()?, &selector_queries).await?;
    let by_opensearch = opensearch_started.elapsed();
    let member_started = Instant::now();
    let requests = selector_queries
        .iter()
        .map(|selector_query| member.select(selector_query));
    let from_member: Vec<Option<QueryResult>> = stream::iter(requests)
        .buffered(CONCURRENCY)
        .try_collect()
        .await?;
    eprintln!(
        "{created} objects, {SELECTORS} selectors: {:.1} s in memory, {:.1} s by OpenSearch, {:.1} s by the API server",
        in_memory.as_secs_f64(),
        by_opensearch.as_secs_f64(),
        member_started.elapsed().as_secs_f64(),
    );

    let answers = selector_queries
        .iter()
        .zip(&from_memory)
        .zip(&from_opensearch)
        .zip(&from_member);
    let mut wrong: Vec<String> = Vec::new();
    for (((selector_query, memory), opensearch), member) in answers {
        let agreed = memory == opensearch && member.as_ref().is_none_or(|member| member == memory);
        if !agreed {
            wrong.push(selector_query.disagreement(memory, opensearch, member.as_ref()));
        }
    }
    // Short selectors are easiest to debug.
    wrong.sort_by_key(String::len);
    wrong.dedup();
    let shown = wrong
        .iter()
        .take(8)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("\n");
    ensure!(
        wrong.is_empty(),
        "{} of {SELECTORS} selectors select different objects:\n{shown}",
        wrong.len()
    );
    check_quality(&selector_queries, &from_memory, &from_member)
}

/// Fails if too few selectors select some but not all objects: such a run proves nothing.
fn check_quality(
    selector_queries: &[SelectorQuery<'_, '_>],
    from_memory: &[QueryResult],
    from_member: &[Option<QueryResult>],
) -> Result<()> {
    let is_discriminating =
        |(selector_query, answer): &(&SelectorQuery<'_, '_>, &QueryResult)| match answer {
            QueryResult::Objects(names) => {
                !names.is_empty() && names.len() < selector_query.kind.items.len()
            }
            QueryResult::Refused => false,
        };
    let discriminating = selector_queries
        .iter()
        .zip(from_memory)
        .filter(is_discriminating)
        .count();
    let refused = from_memory
        .iter()
        .filter(|answer| **answer == QueryResult::Refused)
        .count();
    let by_member = from_member.iter().flatten().count();
    eprintln!(
        "{discriminating} select some but not all, {refused} are refused, {by_member} were put to the API server"
    );
    ensure!(
        discriminating * 10 >= SELECTORS * 3,
        "only {discriminating} of {SELECTORS} selectors select some but not all objects"
    );
    ensure!(
        refused >= 20,
        "only {refused} of {SELECTORS} selectors are refused"
    );
    ensure!(
        by_member >= 2_000,
        "only {by_member} of {SELECTORS} selectors were put to the API server"
    );
    Ok(())
}

/// The result of an engine: the objects as `namespace/name`, or a refused selector.
#[derive(Clone, Debug, PartialEq, Eq)]
enum QueryResult {
    Objects(BTreeSet<String>),
    Refused,
}

/// The objects of one kind, as a member returns them.
struct List {
    family: Family,
    items: Vec<Box<RawValue>>,
}

/// One kind, and its objects as our own code reads them.
struct Kind<'l> {
    family: &'l Family,
    projector: Projector,
    selectable: Selectable,
    items: Vec<Item<'l>>,
    /// Values of selectable fields, read without the code under test.
    values: BTreeMap<String, Vec<String>>,
}

struct Item<'l> {
    object: Object<'l>,
    values: FieldValues<'l>,
}

impl<'l> Kind<'l> {
    fn of(list: &'l List) -> Result<Self> {
        let family = &list.family;
        let projector = Projector::new(
            &CLUSTER.parse()?,
            &family.resource,
            &Projection::default(),
            &family.fields,
        );
        let mut items = Vec::new();
        for item in &list.items {
            let object = Object::parse(item.get())?;
            let values = projector.field_values(&object);
            items.push(Item { object, values });
        }
        let selectable = Selectable::of(&family.resource.gvk, &family.fields);
        Ok(Self {
            family,
            projector,
            selectable,
            items,
            values: values_by_label(list)?,
        })
    }
}

/// The values of a kind's field labels in its objects.
fn values_by_label(list: &List) -> Result<BTreeMap<String, Vec<String>>> {
    let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for item in &list.items {
        let object: Value = serde_json::from_str(item.get())?;
        for label in &list.family.labels {
            let pointer = match label.as_str() {
                "source" => "/source/component".to_owned(),
                "status.successful" => "/status/succeeded".to_owned(),
                path => format!("/{}", path.replace('.', "/")),
            };
            let value = match object.pointer(&pointer) {
                Some(Value::String(text)) => text.clone(),
                Some(other) if !other.is_object() && !other.is_array() => other.to_string(),
                _ => String::new(),
            };
            values.entry(label.clone()).or_default().push(value);
        }
    }
    Ok(values)
}

/// An item with its kind, as a searchable object.
struct SearchableItem<'k, 'l> {
    kind: &'k Kind<'l>,
    item: &'k Item<'l>,
    resource: ResourceName,
}

impl Searchable for SearchableItem<'_, '_> {
    fn cluster(&self) -> &str {
        CLUSTER
    }

    fn resource(&self) -> &ResourceName {
        &self.resource
    }

    fn namespace(&self) -> &str {
        self.item.object.namespace().unwrap_or_default()
    }

    fn name(&self) -> &str {
        self.item.object.name()
    }

    fn created(&self) -> Option<i64> {
        None
    }

    fn uid(&self) -> Cow<'_, str> {
        self.item.object.uid().into()
    }

    fn owners(&self) -> Vec<Cow<'_, str>> {
        Vec::new()
    }

    fn dependencies(&self) -> Vec<Cow<'_, str>> {
        Vec::new()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.item.object.label(key)
    }

    fn field(&self, path: &str) -> Option<Cow<'_, str>> {
        let position = self
            .kind
            .projector
            .fields()
            .iter()
            .position(|field| field.path.as_str() == path)?;
        self.item.values.get(position).map(Cow::from)
    }

    fn texts(&self) -> Vec<WordText<'_>> {
        Vec::new()
    }
}

/// Generated selectors for one kind.
struct SelectorQuery<'k, 'l> {
    kind: &'k Kind<'l>,
    generated: GeneratedSelectors,
    /// Absent where our parsers refuse the selectors.
    query: Option<Query>,
}

fn selector_query<'k, 'l>(
    generator: &mut Generator,
    kinds: &'k [Kind<'l>],
) -> SelectorQuery<'k, 'l> {
    // Kinds with many fields are chosen more often, and pods, the most numerous, most often.
    let pods = kinds
        .iter()
        .filter(|kind| &*kind.family.resource.plural == "pods");
    let by_fields = kinds
        .iter()
        .flat_map(|kind| std::iter::repeat_n(kind, kind.family.labels.len()));
    let candidates: Vec<&Kind<'_>> = pods.cycle().take(20).chain(by_fields).collect();
    let kind = candidates[generator.below(candidates.len())];
    let generated = generator.selectors(kind.family, &kind.values);
    let query = parsed(kind, &generated);
    SelectorQuery {
        kind,
        generated,
        query,
    }
}

fn parsed(kind: &Kind<'_>, generated: &GeneratedSelectors) -> Option<Query> {
    let resource = ResourceName::from(&kind.family.resource);
    let query = Query {
        namespaces: generated
            .namespace
            .iter()
            .filter_map(|namespace| namespace.parse().ok())
            .collect(),
        labels: generated.labels.parse().ok()?,
        fields: generated.fields.parse().ok()?,
        ..Query::all_of(resource, kind.selectable.clone(), 1_000)
    };
    query.check().is_ok().then_some(query)
}

impl SelectorQuery<'_, '_> {
    fn select_in_memory(&self) -> QueryResult {
        let Some(query) = &self.query else {
            return QueryResult::Refused;
        };
        let resource = ResourceName::from(&self.kind.family.resource);
        let seen = self.kind.items.iter().map(|item| SearchableItem {
            kind: self.kind,
            item,
            resource: resource.clone(),
        });
        let matching = seen.filter(|seen| query.matches(seen));
        QueryResult::Objects(
            matching
                .map(|seen| full_name(seen.item.object.namespace(), seen.item.object.name()))
                .collect(),
        )
    }

    fn disagreement(
        &self,
        memory: &QueryResult,
        opensearch: &QueryResult,
        member: Option<&QueryResult>,
    ) -> String {
        let GeneratedSelectors {
            namespace,
            labels,
            fields,
            ..
        } = &self.generated;
        let mut text = format!(
            "{} -l {labels:?} --field-selector {fields:?} -n {namespace:?}\n",
            self.kind.family.resource.gvk
        );
        let mut difference = |left: &str, a: &QueryResult, right: &str, b: &QueryResult| {
            let _ = match (a, b) {
                (QueryResult::Objects(a), QueryResult::Objects(b)) => {
                    let only: Vec<&String> = a.difference(b).take(6).collect();
                    if only.is_empty() {
                        Ok(())
                    } else {
                        writeln!(text, "    {left}, but not {right}: {only:?}")
                    }
                }
                (QueryResult::Refused, QueryResult::Objects(names)) => {
                    writeln!(
                        text,
                        "    {left} refuses it, {right} gives {} objects",
                        names.len()
                    )
                }
                _ => Ok(()),
            };
        };
        difference("memory", memory, "OpenSearch", opensearch);
        difference("OpenSearch", opensearch, "memory", memory);
        if let Some(member) = member {
            difference("memory", memory, "the API server", member);
            difference("the API server", member, "memory", memory);
        }
        if let Some(query) = &self.query {
            let clause = CheckedQuery::new(query).map_or_else(
                |error| error.to_string(),
                |checked| dsl::query_clause(&checked).to_string(),
            );
            let _ = writeln!(text, "    {clause}");
        }
        text
    }
}

fn full_name(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

fn full_name_of(object: &Value) -> String {
    let metadata = &object["metadata"];
    full_name(
        metadata["namespace"].as_str(),
        metadata["name"].as_str().unwrap_or_default(),
    )
}

/// Writes the documents with the product's projector, encoding and index template.
async fn index(server: &OpenSearchServer, kinds: &[Kind<'_>]) -> Result<()> {
    let cluster: ClusterName = CLUSTER.parse()?;
    let engine = engine(server, PREFIX, 1)?;
    engine.prepare().await?;
    let revision = engine.open(&cluster, None, 0).await?;
    engine.activate(&revision, &CompleteResources::All).await?;
    let mut writes = Vec::new();
    for kind in kinds {
        for item in &kind.items {
            let document = kind
                .projector
                .document(&item.object, "2026-01-01T00:00:00Z")?;
            writes.push(Write {
                index: revision.target.clone(),
                document,
            });
        }
    }
    let verdicts = engine.write(&writes).await?;
    ensure!(
        verdicts
            .iter()
            .all(|verdict| matches!(verdict, Verdict::Indexed)),
        "some documents were not stored: {verdicts:?}"
    );
    server.client()?.refresh(PREFIX).await
}

async fn select_in_opensearch(
    server: &OpenSearchServer,
    selector_queries: &[SelectorQuery<'_, '_>],
) -> Result<Vec<QueryResult>> {
    let client = http::client(None)?;
    let mut answers = Vec::new();
    for chunk in selector_queries.chunks(SEARCHES_PER_REQUEST) {
        let queries: Vec<&Query> = chunk
            .iter()
            .filter_map(|selector_query| selector_query.query.as_ref())
            .collect();
        let mut responses = search_together(&client, server, &queries)
            .await?
            .into_iter();
        for selector_query in chunk {
            let answer = match selector_query.query {
                Some(_) => QueryResult::Objects(responses.next().context("too few responses")?),
                None => QueryResult::Refused,
            };
            answers.push(answer);
        }
    }
    Ok(answers)
}

/// The names of the objects that each query finds, from one request.
async fn search_together(
    client: &reqwest::Client,
    server: &OpenSearchServer,
    queries: &[&Query],
) -> Result<Vec<BTreeSet<String>>> {
    const RESPONSE_FIELDS: &str =
        "responses.error,responses.timed_out,responses._shards.failed,responses.hits.hits.sort";
    if queries.is_empty() {
        return Ok(Vec::new());
    }
    let mut body = String::new();
    for query in queries {
        let mut search = dsl::request_body(&CheckedQuery::new(query)?, &Paging::default());
        search["_source"] = false.into();
        let _ = writeln!(body, "{}\n{search}", json!({ "index": PREFIX }));
    }
    let url = format!("{}/_msearch?filter_path={RESPONSE_FIELDS}", server.url());
    let request = client
        .post(url)
        .header("Content-Type", "application/x-ndjson")
        .body(body);
    let answer: Value = request.send().await?.error_for_status()?.json().await?;
    let responses = answer["responses"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    ensure!(
        responses.len() == queries.len(),
        "{} responses to {} queries",
        responses.len(),
        queries.len()
    );
    let mut found = Vec::new();
    for (query, response) in queries.iter().zip(responses) {
        let complete = response["timed_out"] == false && response["_shards"]["failed"] == 0;
        ensure!(
            complete,
            "{response} to {}",
            dsl::query_clause(&CheckedQuery::new(query)?)
        );
        let hits = response["hits"]["hits"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        // The standard order is by namespace, then by name.
        found.push(
            hits.iter()
                .map(|hit| {
                    full_name(
                        hit["sort"][0].as_str(),
                        hit["sort"][1].as_str().unwrap_or_default(),
                    )
                })
                .collect(),
        );
    }
    Ok(found)
}

/// The API server, and the names of our objects, as it has objects of its own.
struct Member<'f> {
    server: &'f ApiServer,
    client: reqwest::Client,
}

impl<'f> Member<'f> {
    fn of(server: &'f ApiServer) -> Result<Self> {
        Ok(Self {
            server,
            client: http::client(Some(server.ca_pem()))?,
        })
    }

    /// Creates the objects and returns their full names by group and plural.
    async fn create(&self, planned: Vec<Planned>) -> Result<BTreeSet<(String, String)>> {
        self.server
            .kubectl()?
            .create(&widget_definition().to_string())
            .await?;
        let served = eventually("widgets are served", Duration::from_mins(2), || {
            self.get("/apis/example.com/v1/widgets")
        });
        served.await?;
        let names = planned
            .iter()
            .map(|planned| (planned.resource.1.to_owned(), full_name_of(&planned.object)))
            .collect();
        let (namespaces, others): (Vec<Planned>, Vec<Planned>) = planned
            .into_iter()
            .partition(|planned| planned.resource.1 == "namespaces");
        for group in [namespaces, others] {
            let created = stream::iter(group)
                .map(|planned| self.create_one(planned))
                .buffer_unordered(CONCURRENCY);
            created.try_collect::<Vec<()>>().await?;
        }
        Ok(names)
    }

    async fn create_one(&self, planned: Planned) -> Result<()> {
        let Planned {
            resource: (group, plural),
            object,
            status,
            delete,
        } = planned;
        let api_version = object["apiVersion"]
            .as_str()
            .context("an object without apiVersion")?;
        let root = if group.is_empty() { "api" } else { "apis" };
        let collection = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => format!("/{root}/{api_version}/namespaces/{namespace}/{plural}"),
            None => format!("/{root}/{api_version}/{plural}"),
        };
        self.send(Method::POST, &collection, "application/json", &object)
            .await?;
        let path = format!(
            "{collection}/{}",
            object["metadata"]["name"].as_str().unwrap_or_default()
        );
        if let Some(status) = status {
            let change = json!({ "status": status });
            let target = format!("{path}/status");
            self.send(
                Method::PATCH,
                &target,
                "application/merge-patch+json",
                &change,
            )
            .await?;
        }
        if delete {
            self.send(Method::DELETE, &path, "application/json", &json!({}))
                .await?;
        }
        Ok(())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<()> {
        let url = format!("{}{path}", self.server.url());
        let request = self
            .client
            .request(method.clone(), url)
            .bearer_auth(self.server.token());
        let response = request
            .header("Content-Type", content_type)
            .body(body.to_string())
            .send()
            .await?;
        let status = response.status();
        let text = response.text().await?;
        ensure!(
            status.is_success(),
            "{method} {path}: {status}: {text}\n{body}"
        );
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<String> {
        let (status, text) = self.query(path, &[], "application/json").await?;
        ensure!(status.is_success(), "GET {path}: {status}: {text}");
        Ok(text)
    }

    async fn query(
        &self,
        path: &str,
        query: &[(&str, &str)],
        accept: &str,
    ) -> Result<(StatusCode, String)> {
        let url = format!("{}{path}", self.server.url());
        let request = self
            .client
            .get(url)
            .bearer_auth(self.server.token())
            .query(query);
        let response = request
            .header("Accept", accept)
            .send()
            .await
            .with_context(|| format!("GET {path} {query:?}"))?;
        Ok((response.status(), response.text().await?))
    }

    /// All objects of a kind that are ours.
    async fn list(
        &self,
        family: &Family,
        ours: &BTreeSet<(String, String)>,
    ) -> Result<Vec<Box<RawValue>>> {
        #[derive(serde::Deserialize)]
        struct Items {
            items: Vec<Box<RawValue>>,
        }
        let text = self.get(&family.resource.path(&Scope::All)).await?;
        let mut kept = Vec::new();
        for item in serde_json::from_str::<Items>(&text)?.items {
            let name = full_name_of(&serde_json::from_str(item.get())?);
            if ours.contains(&(family.resource.plural.to_string(), name)) {
                kept.push(item);
            }
        }
        Ok(kept)
    }

    /// `None` for selectors that only Fleetdex understands.
    async fn select(&self, selector_query: &SelectorQuery<'_, '_>) -> Result<Option<QueryResult>> {
        const METADATA_ONLY: &str =
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let GeneratedSelectors {
            namespace,
            labels,
            fields,
            is_plain_kubernetes,
        } = &selector_query.generated;
        if !is_plain_kubernetes {
            return Ok(None);
        }
        let scope = match namespace {
            Some(namespace) => Scope::Namespace(namespace.parse()?),
            None => Scope::All,
        };
        let path = selector_query.kind.family.resource.path(&scope);
        let query = [
            ("labelSelector", labels.as_str()),
            ("fieldSelector", fields.as_str()),
        ];
        let (status, text) = self.query(&path, &query, METADATA_ONLY).await?;
        if status == StatusCode::BAD_REQUEST {
            return Ok(Some(QueryResult::Refused));
        }
        ensure!(
            status.is_success(),
            "GET {path} {query:?}: {status}: {text}"
        );
        let list: Value = serde_json::from_str(&text)?;
        let found = list["items"].as_array().cloned().unwrap_or_default();
        let known: BTreeSet<String> = selector_query
            .kind
            .items
            .iter()
            .map(|item| full_name(item.object.namespace(), item.object.name()))
            .collect();
        Ok(Some(QueryResult::Objects(
            found
                .iter()
                .map(full_name_of)
                .filter(|name| known.contains(name))
                .collect(),
        )))
    }
}
