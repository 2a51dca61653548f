//! Orders and counts: the real OpenSearch, the embedded store and a naive evaluation agree on
//! generated objects.

use std::{
    borrow::Cow,
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
    sync::Arc,
};

use anyhow::{Result, ensure};
use e2e::{
    engine::engine,
    fleet::{Fleet, Options, SharedFleet, unique_prefix},
    test_result::Tested,
};
use fleetdex_core::{
    model::{
        FieldPath, FieldType, Gvk, Object, Projection, Projector, Resource, SelectableField,
        encode_sort_key,
    },
    query::{
        Cursor, Facet, Grant, GroupKey, Groups, Owners, Permitted, Query, RankPosition,
        RankedQuery, Relation, RelativesQuery, Requester, ResourceName, Selectable, Sort, SortKey,
        ValueCounts, ValueField, ValuePrefix, ValuesQuery, Word, WordText,
    },
};
use fleetdex_store::{
    CompleteResources, IndexReader as _, Store, bulk::Write, memory::Memory, opensearch::Engine,
};
use serde_json::{Value, json};

use crate::query_reference::{QueryReference as _, RelativesReference as _, Searchable, aggregate};

const OBJECTS: usize = 3_000;
const CLUSTERS: [&str; 3] = ["a", "b", "c"];
const NAMESPACES: [&str; 4] = ["default", "shop", "shop-b", "web"];
/// 2026-01-01, in milliseconds since 1970.
const START: i64 = 1_767_225_600_000;
const PATHS: [&str; 4] = ["spec.text", "spec.count", "spec.on", "spec.maybe"];

/// The key of an annotation of some objects, and the name of every owner.
const ANNOTATION: &str = "example.com/Checked";
const OWNER_NAME: &str = "the-owner";

/// A generated object, and its searchable properties.
struct Widget {
    number: usize,
    cluster: &'static str,
    namespace: &'static str,
    name: String,
    labels: BTreeMap<&'static str, String>,
    fields: BTreeMap<&'static str, String>,
    owner: Option<String>,
}

impl Widget {
    fn new(number: usize) -> Self {
        let mut state = number;
        let mut pick = |values: &[&str]| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            Some(values[(state >> 33) % values.len()].to_owned()).filter(|value| !value.is_empty())
        };
        let label_values = ["", "web", "api", "db", "web-2"];
        // Names with a common prefix, which sort around it.
        let keys = ["app", "app-x", "application", "tier"].into_iter();
        let labels: BTreeMap<&str, String> = keys
            .filter_map(|key| Some((key, pick(&label_values)?)))
            .collect();
        let values: [&[&str]; 4] = [
            &["", "red", "blue", "10", "9", "=x"],
            &["", "0", "7", "10", "-3", "9000000000"],
            &["", "true", "false"],
            &["", "500m", "2Gi", "10", "9", "small", "1.5"],
        ];
        let fields = PATHS
            .into_iter()
            .zip(values)
            .filter_map(|(path, values)| Some((path, pick(values)?)))
            .collect();
        Self {
            number,
            cluster: CLUSTERS[number % 3],
            namespace: NAMESPACES[number / 3 % 4],
            name: format!("w-{:04}", number * 7919 % OBJECTS),
            labels,
            fields,
            owner: (!number.is_multiple_of(5)).then(|| uid(number / 5)),
        }
    }

    /// Some have none.
    fn time(&self) -> Option<String> {
        (!self.number.is_multiple_of(7))
            .then(|| format!("2026-01-01T00:00:{:02}Z", self.number % 60))
    }

    fn json(&self) -> String {
        let mut spec = json!({});
        for (path, value) in &self.fields {
            spec[path.trim_start_matches("spec.")] = value.as_str().into();
        }
        let mut metadata = json!({
            "name": self.name, "namespace": self.namespace, "uid": uid(self.number), "resourceVersion": "1",
            "labels": self.labels,
        });
        if let Some(time) = self.time() {
            metadata["creationTimestamp"] = time.into();
        }
        if let Some(owner) = &self.owner {
            metadata["ownerReferences"] =
                json!([{ "kind": "Widget", "uid": owner, "name": OWNER_NAME }]);
        }
        if self.number.is_multiple_of(3) {
            metadata["annotations"] = json!({ ANNOTATION: "" });
        }
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec }).to_string()
    }
}

fn uid(number: usize) -> String {
    format!("u{number:05}")
}

impl Searchable for Widget {
    fn cluster(&self) -> &str {
        self.cluster
    }

    fn resource(&self) -> &ResourceName {
        static NAME: std::sync::LazyLock<ResourceName> =
            std::sync::LazyLock::new(|| ResourceName::new("example.com", "widgets"));
        &NAME
    }

    fn namespace(&self) -> &str {
        self.namespace
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn created(&self) -> Option<i64> {
        let second = i64::try_from(self.number % 60).unwrap_or_default();
        self.time().map(|_| START + second * 1_000)
    }

    fn uid(&self) -> Cow<'_, str> {
        uid(self.number).into()
    }

    fn owners(&self) -> Vec<Cow<'_, str>> {
        self.owner.iter().map(Cow::from).collect()
    }

    fn dependencies(&self) -> Vec<Cow<'_, str>> {
        Vec::new()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn field(&self, path: &str) -> Option<Cow<'_, str>> {
        self.fields.get(path).map(Cow::from)
    }

    fn texts(&self) -> Vec<WordText<'_>> {
        let labels = self.labels.iter();
        let labels = labels.map(|(key, value)| WordText::Label(key, value));
        let annotation = self.number.is_multiple_of(3).then_some(ANNOTATION);
        let owner = self.owner.is_some().then_some(OWNER_NAME);
        let whole = ["Widget", self.cluster, self.namespace, &self.name];
        let whole = whole.into_iter().chain(annotation).chain(owner);
        labels.chain(whole.map(WordText::Whole)).collect()
    }
}

fn fields() -> Vec<SelectableField> {
    let kinds = [
        FieldType::Text,
        FieldType::Number,
        FieldType::Flag,
        FieldType::Optional,
    ];
    let field = |(path, kind)| SelectableField {
        path: FieldPath::new(path),
        sources: vec![FieldPath::new(path)],
        kind,
    };
    PATHS.into_iter().zip(kinds).map(field).collect()
}

fn query(labels: &str, selector: &str) -> Result<Query> {
    let selectable = Selectable::of(&Gvk::new("example.com", "v1", "Widget"), &fields());
    let all = Query::all_of(ResourceName::new("example.com", "widgets"), selectable, 100);
    Ok(Query {
        labels: labels.parse()?,
        fields: selector.parse()?,
        ..all
    })
}

/// The same objects in both stores.
struct Stores {
    widgets: Vec<Widget>,
    opensearch: Engine,
    memory: Memory,
    /// Keeps the server running.
    _fleet: Arc<SharedFleet>,
}

impl Stores {
    async fn filled() -> Result<Self> {
        let fleet = Fleet::shared(Options::default()).await?;
        let server = fleet.opensearch()?;
        let prefix = unique_prefix("orders");
        let opensearch = engine(server, &prefix, 2)?;
        opensearch.prepare().await?;
        let stores = Self {
            _fleet: Arc::clone(&fleet),
            widgets: (0..OBJECTS).map(Widget::new).collect(),
            opensearch,
            memory: Memory::new(),
        };
        stores.fill(&stores.opensearch).await?;
        stores.fill(&stores.memory).await?;
        server.client()?.refresh(&prefix).await?;
        Ok(stores)
    }

    async fn fill(&self, store: &dyn Store) -> Result<()> {
        let resource = Resource {
            gvk: Gvk::new("example.com", "v1", "Widget"),
            plural: "widgets".into(),
            namespaced: true,
        };
        for cluster in CLUSTERS {
            let name = cluster.parse()?;
            let revision = store.open(&name, None, 0).await?;
            store.activate(&revision, &CompleteResources::All).await?;
            let projector = Projector::new(&name, &resource, &Projection::default(), &fields());
            let mut writes = Vec::new();
            for widget in self
                .widgets
                .iter()
                .filter(|widget| widget.cluster == cluster)
            {
                let json = widget.json();
                let document =
                    projector.document(&Object::parse(&json)?, "2026-01-01T00:00:00Z")?;
                writes.push(Write {
                    index: revision.target.clone(),
                    document,
                });
            }
            let verdicts = store.write(&writes).await?;
            ensure!(
                verdicts
                    .iter()
                    .all(|verdict| *verdict == fleetdex_store::bulk::Verdict::Indexed),
                "{verdicts:?}"
            );
        }
        Ok(())
    }

    fn engines(&self) -> [(&str, &dyn Store); 2] {
        [
            ("the embedded store", &self.memory),
            ("OpenSearch", &self.opensearch),
        ]
    }

    /// All pages of a query, from both stores, in the requested order.
    async fn pages(&self, query: &Query) -> Result<usize> {
        let mut expected: Vec<&Widget> = self
            .widgets
            .iter()
            .filter(|widget| query.matches(*widget))
            .collect();
        expected.sort_by(|left, right| compare(left, right, query));
        let expected: Vec<String> = expected
            .into_iter()
            .map(|widget| uid(widget.number))
            .collect();
        for (name, store) in self.engines() {
            let found = all_pages(store, query, expected.len()).await?;
            let first = found
                .iter()
                .zip(&expected)
                .position(|(found, expected)| found != expected);
            let asked = (&query.sort, query.since, query.before);
            ensure!(
                found == expected,
                "{name} differs from item {first:?} on ({} of {}): {asked:?}",
                found.len(),
                expected.len()
            );
        }
        Ok(expected.len())
    }

    /// All pages of a search, best matches first, from both stores; how many objects it finds.
    async fn ranked(&self, query: &Query) -> Result<usize> {
        let matching = self.widgets.iter().filter(|widget| query.matches(*widget));
        let mut expected: Vec<RankPosition> = matching
            .filter_map(|widget| {
                Some(RankPosition {
                    score: Reverse(query.score(widget)?),
                    created: Reverse(widget.created()),
                    cluster: widget.cluster.to_owned(),
                    uid: uid(widget.number),
                    api_version: "example.com/v1".to_owned(),
                    kind: "Widget".to_owned(),
                })
            })
            .collect();
        expected.sort();
        for (name, store) in self.engines() {
            let found = ranked_pages(store, query).await?;
            ensure!(
                found == expected,
                "{name} finds {} of {} by {:?}",
                found.len(),
                expected.len(),
                query.words
            );
        }
        Ok(expected.len())
    }

    /// The values of a search's objects that begin so, from both stores; how many there are.
    async fn values(&self, query: &Query, prefix: &ValuePrefix) -> Result<usize> {
        let mut expected = ValueCounts::default();
        for widget in self.widgets.iter().filter(|widget| query.matches(*widget)) {
            let values: Vec<&str> = match &prefix.field {
                ValueField::LabelKey => widget.labels.keys().copied().collect(),
                ValueField::Label(key) => widget.label(key).into_iter().collect(),
                _ => vec![widget.namespace],
            };
            for value in values.into_iter().filter(|value| prefix.matches(value)) {
                expected.add(value, 1);
            }
        }
        let other = Query {
            resource: ResourceName::new("example.com", "gadgets"),
            ..query.clone()
        };
        let asked = ValuesQuery {
            queries: vec![query.clone(), other],
            requester: Requester::Operator,
            prefixes: vec![prefix.clone()],
        };
        for (name, store) in self.engines() {
            let found = store.frequent_values(&asked).await?;
            ensure!(
                found == [expected.clone()],
                "{name} finds {found:?} of {prefix:?}, not {expected:?}"
            );
        }
        Ok(expected.most_frequent(usize::MAX).len())
    }

    async fn relatives(&self, asked: &RelativesQuery) -> Result<usize> {
        let expected = asked.among(&self.widgets);
        for (name, store) in self.engines() {
            let found = store.relatives(asked).await?;
            ensure!(
                found == expected,
                "{asked:?}: {name} finds {found:?}, not {expected:?}"
            );
        }
        Ok(expected.len())
    }

    async fn counts(&self, query: &Query, by: &[GroupKey], top: usize) -> Result<Groups> {
        let expected = aggregate(&self.widgets, query, by, top)?;
        for (name, store) in self.engines() {
            let counts = store.aggregate(query, by, top).await?;
            ensure!(
                counts == expected,
                "{by:?}: {name} counts {counts:?}, not {expected:?}"
            );
        }
        Ok(expected)
    }
}

/// The uids of all pages; checks the remaining count of each page.
async fn all_pages(store: &dyn Store, query: &Query, count: usize) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let page = store.search(query, cursor.as_ref()).await?;
        for hit in &page.items {
            let object: Value = serde_json::from_str(hit.object.get())?;
            found.push(
                object["metadata"]["uid"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
        let Some(next) = page.next else {
            return Ok(found);
        };
        ensure!(
            page.remaining == Some((count - found.len()) as u64),
            "{:?} remain after {}",
            page.remaining,
            found.len()
        );
        cursor = Some(next);
    }
}

/// The places of all pages of a search; checks its counts.
async fn ranked_pages(store: &dyn Store, query: &Query) -> Result<Vec<RankPosition>> {
    let other = Query {
        resource: ResourceName::new("example.com", "gadgets"),
        ..query.clone()
    };
    let mut ranked = RankedQuery {
        queries: vec![query.clone(), other],
        requester: Requester::Operator,
        limit: query.limit,
        after: None,
        facets: vec![Facet::Kind, Facet::Cluster, Facet::Namespace],
    };
    let mut found: Vec<RankPosition> = Vec::new();
    loop {
        let page = store.ranked_page(&ranked).await?;
        found.extend(page.items.iter().map(|item| item.position.clone()));
        for (facet, counts) in &page.facets {
            let counted: u64 = counts.values().sum();
            ensure!(
                counted == page.total,
                "{} of {} objects are counted by {}",
                counted,
                page.total,
                facet.name()
            );
        }
        if !page.more {
            ensure!(page.total == found.len() as u64, "{} in all", page.total);
            return Ok(found);
        }
        ranked.after = found.last().cloned();
    }
}

/// The defined order: a missing value is the least.
fn compare(left: &Widget, right: &Widget, query: &Query) -> Ordering {
    let text = |widget: &Widget, path: &FieldPath, kind: FieldType| {
        let absent = (kind != FieldType::Optional).then(|| Cow::from(kind.absent()));
        widget
            .field(path.as_str())
            .or(absent)
            .map(|value| encode_sort_key(kind, &value))
    };
    let mut order = Ordering::Equal;
    for sort in &query.sort {
        let ascending = match &sort.key {
            SortKey::Namespace => left.namespace.cmp(right.namespace),
            SortKey::Name => left.name.cmp(&right.name),
            SortKey::Cluster => left.cluster.cmp(right.cluster),
            SortKey::CreationTimestamp => left.created().cmp(&right.created()),
            SortKey::Field(path, kind) => text(left, path, *kind).cmp(&text(right, path, *kind)),
        };
        order = order.then(if sort.descending {
            ascending.reverse()
        } else {
            ascending
        });
    }
    order
        .then_with(|| left.cluster.cmp(right.cluster))
        .then_with(|| left.uid().cmp(&right.uid()))
}

#[tokio::test]
async fn orders_owners_and_counts_agree_in_every_engine() -> Tested {
    let stores = Stores::filled().await?;
    check_orders(&stores).await?;
    check_owners(&stores).await?;
    check_counts(&stores).await?;
    check_words(&stores).await?;
    check_values(&stores).await?;
    Ok(())
}

async fn check_orders(stores: &Stores) -> Result<()> {
    let by = |path: &str, descending| {
        let kind = fields()
            .into_iter()
            .find(|field| field.path.as_str() == path)
            .map_or(FieldType::Text, |field| field.kind);
        Sort {
            key: SortKey::Field(FieldPath::new(path), kind),
            descending,
        }
    };
    let time = |descending| Sort {
        key: SortKey::CreationTimestamp,
        descending,
    };
    let orders = [
        vec![by("spec.text", false)],
        vec![by("spec.count", true)],
        vec![by("spec.on", false), by("spec.count", false)],
        vec![by("spec.maybe", true), time(false), by("spec.text", true)],
        vec![by("spec.maybe", false)],
        // No object has it, so that no index knows it.
        vec![by("spec.absent", true), time(true)],
    ];
    let mut seen = 0;
    for sort in orders {
        let all = Query {
            sort,
            limit: 333,
            ..query("", "")?
        };
        let some = Query {
            since: Some(START + 10_000),
            before: Some(START + 20_001),
            ..query("app", "")?
        };
        seen += stores.pages(&all).await?;
        for selector in [
            "spec.maybe>9",
            "spec.maybe>=1.5,spec.maybe<2Gi",
            "spec.count<0",
            "spec.count<=7",
            "spec.maybe<1",
        ] {
            let compared = query("", selector)?;
            ensure!(
                stores
                    .pages(&Query {
                        sort: all.sort.clone(),
                        ..compared
                    })
                    .await?
                    > 0,
                "{selector} selects nothing"
            );
        }
        seen += stores
            .pages(&Query {
                sort: all.sort,
                limit: 7,
                ..some
            })
            .await?;
    }
    ensure!(seen > 6 * OBJECTS, "only {seen} objects were seen");
    Ok(())
}

async fn check_owners(stores: &Stores) -> Result<()> {
    let mut owners = Owners::default();
    (0..200).for_each(|number| owners.insert(None, &uid(number)));
    owners.insert(Some("b".parse()?), &uid(301));
    let named = |resource: Option<&str>| Relation::Named {
        resource: resource.map(|plural| ResourceName::new("example.com", plural)),
        names: vec![
            "w-0000".to_owned(),
            "w-0007".to_owned(),
            "nothing".to_owned(),
        ],
    };
    let asked = |relation| RelativesQuery {
        clusters: vec![],
        namespaces: vec![],
        permitted: Permitted::Everything,
        requester: Requester::Operator,
        relation,
    };
    let relations = [
        Relation::OwnedBy(owners.clone()),
        Relation::OwnedBy(Owners::default()),
        named(None),
        named(Some("widgets")),
    ];
    let mut seen = 0;
    for relation in relations {
        for (clusters, namespaces) in [
            (vec![], vec![]),
            (vec!["a".parse()?, "b".parse()?], vec!["shop".parse()?]),
        ] {
            let asked = RelativesQuery {
                clusters,
                namespaces,
                ..asked(relation.clone())
            };
            seen += stores.relatives(&asked).await?;
        }
    }
    let not_mine = asked(named(Some("gadgets")));
    ensure!(
        stores.relatives(&not_mine).await? == 0,
        "gadgets were found among widgets"
    );
    let owned = Query {
        owners: Some(owners),
        limit: 100,
        ..query("", "")?
    };
    seen += stores.pages(&owned).await?;
    ensure!(
        stores
            .pages(&Query {
                owners: Some(Owners::default()),
                ..owned
            })
            .await?
            == 0,
        "no object has an owner"
    );
    ensure!(seen > 1_000, "only {seen} objects were seen");
    Ok(())
}

async fn check_counts(stores: &Stores) -> Result<()> {
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
    let selectors = [
        ("", ""),
        ("app in (web,api)", ""),
        ("!tier", "spec.maybe!=10"),
        ("app=nothing", ""),
    ];
    let mut seen = 0;
    for by in &keys {
        for (labels, fields) in selectors {
            seen += stores
                .counts(&query(labels, fields)?, by, 7)
                .await?
                .groups
                .len();
        }
    }
    ensure!(seen > 100, "only {seen} groups were seen");
    let all = stores
        .counts(
            &query("", "")?,
            &[
                GroupKey::Cluster,
                GroupKey::Namespace,
                field("metadata.name"),
            ],
            5_000,
        )
        .await?;
    ensure!(
        all.groups.len() == OBJECTS && all.others == 0,
        "{} groups",
        all.groups.len()
    );
    Ok(())
}

async fn check_words(stores: &Stores) -> Result<()> {
    let shop = Permitted::Only(vec![
        Grant {
            clusters: Some(vec!["a".parse()?]),
            namespaces: None,
        },
        Grant {
            clusters: None,
            namespaces: Some(vec!["shop".parse()?]),
        },
    ]);
    let words: [(&[&str], bool); 14] = [
        (&[], true),
        (&["web"], true),
        (&["WEB-2"], true),
        (&["web", "-app=web"], true),
        (&["app=w", "shop"], true),
        (&["W-00"], true),
        (&["w-0007"], true),
        (&["=db", "-shop-b"], true),
        (&["checked", "owner"], true),
        (&["example.com/checked", "-the-owner"], true),
        (&["widg", "a"], true),
        (&["-widget"], false),
        (&["w*"], false),
        (&["nothing like this"], false),
    ];
    for (texts, is_found) in words {
        let words = texts.iter().map(|text| match text.strip_prefix('-') {
            Some(text) => Word::new(text, true),
            None => Word::new(text, false),
        });
        let words = Query {
            words: words.collect(),
            limit: 700,
            ..query("", "")?
        };
        let found = stores.ranked(&words).await?;
        ensure!((found > 0) == is_found, "{found} objects by {texts:?}");
        let seen = Query {
            permitted: shop.clone(),
            ..words
        };
        stores.ranked(&seen).await?;
    }
    Ok(())
}

async fn check_values(stores: &Stores) -> Result<()> {
    let shop = Permitted::Only(vec![Grant {
        clusters: None,
        namespaces: Some(vec!["shop".parse()?]),
    }]);
    let label = |key: &str| ValueField::Label(key.to_owned());
    let of_web = Query {
        words: [Word::new("web", false)].into_iter().collect(),
        ..query("app=web", "spec.text!=red")?
    };
    for (field, text, found) in [
        (ValueField::Namespace, "", 4),
        (ValueField::Namespace, "SHOP", 2),
        (ValueField::LabelKey, "app", 3),
        (ValueField::LabelKey, "app-", 1),
        (ValueField::LabelKey, ".*", 0),
        (label("app"), "", 4),
        (label("app"), "WEB-", 1),
        (label("app"), "web|api", 0),
        (label("App"), "", 0),
    ] {
        let prefix = ValuePrefix::new(field, text).ok_or_else(|| anyhow::anyhow!("{text:?}"))?;
        let all = stores.values(&query("", "")?, &prefix).await?;
        ensure!(all == found, "{all} values of {prefix:?}");
        stores.values(&of_web, &prefix).await?;
        let permitted = Query {
            permitted: shop.clone(),
            ..query("", "")?
        };
        stores.values(&permitted, &prefix).await?;
    }
    let image = ValuePrefix::new(ValueField::Image, "n").ok_or_else(|| anyhow::anyhow!("n"))?;
    let asked = ValuesQuery {
        queries: vec![query("", "")?],
        requester: Requester::Operator,
        prefixes: vec![image.or_behind(&["docker.io/library/", "docker.io/"])],
    };
    let found = stores.opensearch.frequent_values(&asked).await?;
    ensure!(found == [ValueCounts::default()], "{found:?}");
    Ok(())
}
