//! Orders and counts: the real OpenSearch, the embedded store and the naive reading of a query agree on generated objects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use e2e::fleet::{Fleet, Options, unique};
use e2e::http;
use fleetdex::bulk::Write;
use fleetdex::model::{FieldPath, FieldType, Gvk, Object, Projection, Projector, Resource, SelectableField};
use fleetdex::query::{GroupKey, Groups, Query, ResourceName, Searchable, Selectable, aggregate};
use fleetdex::store::Store;
use fleetdex::store::memory::Memory;
use fleetdex::store::opensearch::{Engine, EngineOptions, IndexSettings, Settings, connect};
use serde_json::json;

const OBJECTS: usize = 3_000;
const CLUSTERS: [&str; 3] = ["a", "b", "c"];
const NAMESPACES: [&str; 4] = ["default", "shop", "shop-b", "web"];
const PATHS: [&str; 4] = ["spec.text", "spec.count", "spec.on", "spec.maybe"];

/// An object, and what a query sees of it.
struct Widget {
    number: usize,
    cluster: &'static str,
    namespace: &'static str,
    name: String,
    labels: BTreeMap<&'static str, String>,
    fields: BTreeMap<&'static str, String>,
}

impl Widget {
    fn new(number: usize) -> Self {
        let mut state = number;
        let mut pick = |values: &[&str]| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some(values[(state >> 33) % values.len()].to_owned()).filter(|value| !value.is_empty())
        };
        let label_values = ["", "web", "api", "db", "web-2"];
        // What begins alike sorts around it.
        let keys = ["app", "app-x", "application", "tier"].into_iter();
        let labels: BTreeMap<&str, String> = keys.filter_map(|key| Some((key, pick(&label_values)?))).collect();
        let values: [&[&str]; 4] = [
            &["", "red", "blue", "10", "9", "=x"],
            &["", "0", "7", "10", "-3", "9000000000"],
            &["", "true", "false"],
            &["", "500m", "2Gi", "10", "9", "small", "1.5"],
        ];
        let fields = PATHS.into_iter().zip(values).filter_map(|(path, values)| Some((path, pick(values)?))).collect();
        Self {
            number,
            cluster: CLUSTERS[number % 3],
            namespace: NAMESPACES[number / 3 % 4],
            name: format!("w-{:04}", number * 7919 % OBJECTS),
            labels,
            fields,
        }
    }

    fn json(&self) -> String {
        let mut spec = json!({});
        for (path, value) in &self.fields {
            spec[path.trim_start_matches("spec.")] = value.as_str().into();
        }
        let metadata = json!({
            "name": self.name, "namespace": self.namespace, "uid": format!("u{:05}", self.number), "resourceVersion": "1",
            "labels": self.labels,
        });
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec }).to_string()
    }
}

impl Searchable for Widget {
    fn cluster(&self) -> &str {
        self.cluster
    }

    fn resource(&self) -> &ResourceName {
        static NAME: std::sync::LazyLock<ResourceName> = std::sync::LazyLock::new(|| ResourceName::new("example.com", "widgets"));
        &NAME
    }

    fn namespace(&self) -> &str {
        self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn field(&self, path: &str) -> Option<Cow<'_, str>> {
        self.fields.get(path).map(Cow::from)
    }
}

fn fields() -> Vec<SelectableField> {
    let kinds = [FieldType::Text, FieldType::Number, FieldType::Flag, FieldType::Optional];
    let field = |(path, kind)| SelectableField { path: FieldPath::new(path), sources: vec![FieldPath::new(path)], kind };
    PATHS.into_iter().zip(kinds).map(field).collect()
}

fn query(labels: &str, selector: &str) -> Result<Query> {
    let selectable = Selectable::of(&Gvk::new("example.com", "v1", "Widget"), &fields());
    let all = Query::all_of(ResourceName::new("example.com", "widgets"), selectable, 100);
    Ok(Query { labels: labels.parse()?, fields: selector.parse()?, ..all })
}

/// The same objects in both stores.
struct Stores {
    widgets: Vec<Widget>,
    opensearch: Engine,
    memory: Memory,
}

impl Stores {
    async fn filled() -> Result<Self> {
        http::install_tls_provider();
        let server = Fleet::shared(Options::default()).await?.opensearch()?;
        let prefix = unique("orders");
        let settings = Settings {
            addresses: vec![server.url().to_owned()],
            basic_auth: None,
            client_certificate: None,
            ca_bundle: None,
            insecure: false,
        };
        let options = EngineOptions {
            prefix: prefix.parse()?,
            settings: IndexSettings { shards: 2, replicas: 0, ..IndexSettings::default() },
            fields: Vec::new(),
            projection: String::new(),
            owner: prefix.clone(),
            address: server.url().to_owned(),
        };
        let opensearch = Engine::new(connect(&settings)?, options);
        opensearch.prepare().await?;
        let stores = Self { widgets: (0..OBJECTS).map(Widget::new).collect(), opensearch, memory: Memory::new() };
        stores.fill(&stores.opensearch).await?;
        stores.fill(&stores.memory).await?;
        server.client()?.refresh(&prefix).await?;
        Ok(stores)
    }

    async fn fill(&self, store: &dyn Store) -> Result<()> {
        let resource = Resource { gvk: Gvk::new("example.com", "v1", "Widget"), plural: "widgets".into(), namespaced: true };
        for cluster in CLUSTERS {
            let name = cluster.parse()?;
            let generation = store.open(&name, None, 0).await?;
            store.activate(&generation).await?;
            let projector = Projector::new(&name, &resource, &Projection::default(), &fields());
            let mut writes = Vec::new();
            for widget in self.widgets.iter().filter(|widget| widget.cluster == cluster) {
                let json = widget.json();
                let document = projector.document(&Object::parse(&json)?, &json, "2026-01-01T00:00:00Z")?;
                let body = Some(document.body);
                writes.push(Write { index: generation.target.clone(), id: document.id, version: document.version, body });
            }
            let verdicts = store.write(&writes).await?;
            ensure!(verdicts.iter().all(|verdict| *verdict == fleetdex::bulk::Verdict::Indexed), "{verdicts:?}");
        }
        Ok(())
    }

    async fn counts(&self, query: &Query, by: &[GroupKey], top: usize) -> Result<Groups> {
        let expected = aggregate::aggregate(&self.widgets, query, by, top)?;
        let (memory, opensearch) =
            (self.memory.aggregate(query, by, top).await?, self.opensearch.aggregate(query, by, top).await?);
        ensure!(memory == expected, "{by:?}: the embedded store counts {memory:?}, not {expected:?}");
        ensure!(opensearch == expected, "{by:?}: OpenSearch counts {opensearch:?}, not {expected:?}");
        Ok(expected)
    }
}

#[tokio::test]
async fn counts_are_the_same_everywhere() {
    check_counts().await.unwrap();
}

async fn check_counts() -> Result<()> {
    let stores = Stores::filled().await?;
    let label = |key: &str| GroupKey::Label(key.to_owned());
    let field = |path: &str| GroupKey::Field(FieldPath::new(path));
    let keys = [
        vec![],
        vec![GroupKey::Cluster],
        vec![GroupKey::Namespace, GroupKey::Cluster],
        vec![label("app")],
        vec![GroupKey::Namespace, label("application"), label("app")],
        vec![label("none"), GroupKey::Cluster],
        vec![field("spec.text")],
        vec![field("spec.maybe"), field("spec.on")],
        vec![field("spec.count"), label("tier")],
        vec![field("metadata.name"), field("spec.text")],
    ];
    let selectors = [("", ""), ("app in (web,api)", ""), ("!tier", "spec.maybe!=10"), ("app=nothing", "")];
    let mut seen = 0;
    for by in &keys {
        for (labels, fields) in selectors {
            seen += stores.counts(&query(labels, fields)?, by, 7).await?.groups.len();
        }
    }
    ensure!(seen > 100, "only {seen} groups were seen");
    let all = stores.counts(&query("", "")?, &[GroupKey::Cluster, GroupKey::Namespace, field("metadata.name")], 5_000).await?;
    ensure!(all.groups.len() == OBJECTS && all.others == 0, "{} groups", all.groups.len());
    Ok(())
}
