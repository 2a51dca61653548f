//! The laws of the embedded store: after any sequence of writes its results equal a naive model and
//! `QueryReference::matches`, pages show one snapshot, and a watch leads from one result to the
//! next.

#![allow(
    clippy::unwrap_used,
    reason = "a failing helper of a test fails the test"
)]

use std::{
    borrow::Cow,
    cmp::{Ordering, Reverse},
    collections::{BTreeMap, BTreeSet},
};

use fleetdex_core::{
    model::{
        ClusterName, FieldPath, FieldType, Gvk, Object, Projection, Projector, Resource,
        SelectableField, encode_sort_key,
    },
    query::{
        CountsByFacet, Facet, Grant, GroupKey, Groups, Owners, Page, Permitted, Query,
        RankPosition, RankedPage, RankedQuery, Relation, Relative, RelativesQuery, Requester,
        ResourceName, Selectable, Sort, SortKey, ValueCounts, ValueField, ValuePrefix, ValuesQuery,
        Word, WordSelector, WordText,
    },
};
use fleetdex_store::{
    CompleteResources, DocumentWriter as _, IndexReader as _, IndexRevision, RevisionStore as _,
    bulk::{Verdict, Write},
    memory::{Event, EventKind, Memory, Watch},
};
use proptest::{collection, prelude::*, sample::select, strategy::ValueTree as _};
use serde_json::json;

use crate::query_reference::{QueryReference as _, RelativesReference as _, Searchable, aggregate};

const CLUSTERS: [&str; 2] = ["a", "b"];

/// The name of every owner.
const OWNER_NAME: &str = "the-owner";

/// One version of one object. Its name follows from `number`, as an object with the same UID keeps
/// its name.
#[derive(Clone, Debug)]
struct Widget {
    cluster: usize,
    number: u8,
    labels: BTreeMap<String, String>,
    fields: BTreeMap<String, String>,
}

#[derive(Clone, Debug)]
struct Step {
    widget: Widget,
    version: u64,
    is_deleted: bool,
}

impl Widget {
    fn plural(&self) -> &'static str {
        if self.number.is_multiple_of(5) {
            "gadgets"
        } else {
            "widgets"
        }
    }

    fn kind(&self) -> &'static str {
        match self.plural() {
            "gadgets" => "Gadget",
            _ => "Widget",
        }
    }

    fn annotation(&self) -> &'static str {
        ["example.com/a", "Example.com/B"][usize::from(self.number % 2)]
    }

    /// Some have no creation time.
    fn day(&self) -> Option<u8> {
        (!self.number.is_multiple_of(11)).then_some(1 + self.number % 3)
    }

    fn uid_of(number: u8) -> String {
        if number.is_multiple_of(2) {
            format!("u{number}")
        } else {
            format!("00000000-0000-4000-a000-0000000000{number:02x}")
        }
    }

    /// One or two owners, of any kind.
    fn owner_uids(&self) -> Vec<String> {
        let numbers = [self.number / 2, self.number / 3];
        numbers[..usize::from(self.number % 3)]
            .iter()
            .map(|number| Self::uid_of(*number))
            .collect()
    }
}

impl Searchable for Widget {
    fn cluster(&self) -> &str {
        CLUSTERS[self.cluster]
    }

    fn resource(&self) -> &ResourceName {
        static NAMES: std::sync::LazyLock<[ResourceName; 2]> = std::sync::LazyLock::new(|| {
            ["widgets", "gadgets"].map(|plural| ResourceName::new("example.com", plural))
        });
        &NAMES[usize::from(self.plural() == "gadgets")]
    }

    fn namespace(&self) -> &str {
        ["", "a", "a-b", "b"][usize::from(self.number % 4)]
    }

    fn name(&self) -> &str {
        ["a", "b", "ab"][usize::from(self.number % 3)]
    }

    fn created(&self) -> Option<i64> {
        // The first of January 2026 is day 20454.
        self.day().map(|day| (20_453 + i64::from(day)) * 86_400_000)
    }

    fn uid(&self) -> Cow<'_, str> {
        Self::uid_of(self.number).into()
    }

    fn owners(&self) -> Vec<Cow<'_, str>> {
        self.owner_uids().into_iter().map(Cow::from).collect()
    }

    fn dependencies(&self) -> Vec<Cow<'_, str>> {
        Vec::new()
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    fn field(&self, path: &str) -> Option<Cow<'_, str>> {
        self.fields
            .get(path)
            .filter(|value| !value.is_empty())
            .map(Cow::from)
    }

    fn texts(&self) -> Vec<WordText<'_>> {
        let labels = self.labels.iter();
        let labels = labels.map(|(key, value)| WordText::Label(key, value));
        let whole = [self.kind(), self.cluster(), self.name(), self.annotation()];
        let names = (!self.number.is_multiple_of(3)).then_some(OWNER_NAME);
        let namespace = Some(self.namespace()).filter(|namespace| !namespace.is_empty());
        let whole = whole.into_iter().chain(names).chain(namespace);
        labels.chain(whole.map(WordText::Whole)).collect()
    }
}

fn fields() -> Vec<SelectableField> {
    let field = |path: &str, kind| SelectableField {
        path: FieldPath::new(path),
        sources: vec![FieldPath::new(path)],
        kind,
    };
    vec![
        field("spec.text", FieldType::Text),
        field("spec.count", FieldType::Number),
        field("spec.on", FieldType::Flag),
        field("spec.maybe", FieldType::Optional),
    ]
}

fn projector(cluster: usize, plural: &str) -> Projector {
    let kind = if plural == "widgets" {
        "Widget"
    } else {
        "Gadget"
    };
    let resource = Resource {
        gvk: Gvk::new("example.com", "v1", kind),
        plural: plural.into(),
        namespaced: true,
    };
    Projector::new(
        &CLUSTERS[cluster].parse().unwrap(),
        &resource,
        &Projection::default(),
        &fields(),
    )
}

/// The write of a step, with the product's projector.
fn write(step: &Step, revision: &IndexRevision) -> Write {
    let widget = &step.widget;
    let mut metadata = json!({
        "name": widget.name(), "uid": widget.uid(), "resourceVersion": step.version.to_string(),
        "labels": widget.labels, "annotations": { widget.annotation(): "" },
    });
    if let Some(day) = widget.day() {
        metadata["creationTimestamp"] = format!("2026-01-0{day}T00:00:00Z").into();
    }
    let owners: Vec<_> = widget
        .owners()
        .iter()
        .map(|uid| json!({ "kind": "Widget", "uid": uid, "name": OWNER_NAME }))
        .collect();
    if !owners.is_empty() {
        metadata["ownerReferences"] = owners.into();
    }
    if !widget.namespace().is_empty() {
        metadata["namespace"] = widget.namespace().into();
    }
    let mut spec = json!({});
    for (path, value) in &widget.fields {
        spec[path.trim_start_matches("spec.")] = value.as_str().into();
    }
    let object = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec }).to_string();
    let projector = projector(widget.cluster, widget.plural());
    let mut document = projector
        .document(&Object::parse(&object).unwrap(), "2026-01-01T00:00:00Z")
        .unwrap();
    document.body = document.body.filter(|_| !step.is_deleted);
    Write {
        index: revision.target.clone(),
        document,
    }
}

/// The expected contents: the newest version of each object, including deletions.
#[derive(Clone, Default)]
struct Model(BTreeMap<(usize, u8), (u64, Option<Widget>)>);

impl Model {
    fn apply(&mut self, step: &Step) -> bool {
        let key = (step.widget.cluster, step.widget.number);
        let is_older = self
            .0
            .get(&key)
            .is_some_and(|(version, _)| *version > step.version);
        if !is_older {
            self.0.insert(
                key,
                (
                    step.version,
                    (!step.is_deleted).then(|| step.widget.clone()),
                ),
            );
        }
        !is_older
    }

    fn counts(&self, query: &Query, by: &[GroupKey], top: usize) -> Groups {
        aggregate(
            self.0.values().filter_map(|(_, widget)| widget.as_ref()),
            query,
            by,
            top,
        )
        .unwrap()
    }

    fn relatives(&self, asked: &RelativesQuery) -> BTreeSet<Relative> {
        asked.among(self.0.values().filter_map(|(_, widget)| widget.as_ref()))
    }

    fn answer(&self, query: &Query) -> Vec<String> {
        let mut found: Vec<&Widget> = self
            .0
            .values()
            .filter_map(|(_, widget)| widget.as_ref())
            .filter(|widget| query.matches(*widget))
            .collect();
        found.sort_by(|left, right| compare(left, right, &query.sort));
        found
            .into_iter()
            .map(|widget| format!("{}/{}", widget.cluster(), widget.uid()))
            .collect()
    }
}

impl Model {
    /// The places of the objects that one of some queries matches, in order, and their counts.
    fn ranked(&self, queries: &[Query]) -> (Vec<RankPosition>, CountsByFacet) {
        let mut positions = Vec::new();
        let mut counts = CountsByFacet::new();
        for widget in self.0.values().filter_map(|(_, widget)| widget.as_ref()) {
            let mut matching = queries.iter().filter(|query| query.matches(widget));
            let Some(score) = matching.next().and_then(|query| query.score(widget)) else {
                continue;
            };
            positions.push(RankPosition {
                score: Reverse(score),
                created: Reverse(widget.created()),
                cluster: widget.cluster().to_owned(),
                uid: widget.uid().into_owned(),
                api_version: "example.com/v1".to_owned(),
                kind: widget.kind().to_owned(),
            });
            for (facet, value) in [
                (Facet::Kind, widget.kind()),
                (Facet::Cluster, widget.cluster()),
                (Facet::Namespace, widget.namespace()),
            ] {
                if !value.is_empty() {
                    let of_facet = counts.entry(facet).or_default();
                    *of_facet.entry(value.to_owned()).or_default() += 1;
                }
            }
        }
        positions.sort();
        (positions, counts)
    }
}

impl Model {
    /// How many objects that one of some queries matches have each value that begins so.
    fn values(&self, queries: &[Query], prefix: &ValuePrefix) -> ValueCounts {
        let mut counts = ValueCounts::default();
        for widget in self.0.values().filter_map(|(_, widget)| widget.as_ref()) {
            if !queries.iter().any(|query| query.matches(widget)) {
                continue;
            }
            let values: Vec<&str> = match &prefix.field {
                ValueField::LabelKey => widget.labels.keys().map(|key| &**key).collect(),
                ValueField::Label(key) => widget.label(key).into_iter().collect(),
                ValueField::Namespace => vec![widget.namespace()],
                ValueField::Reason | ValueField::Image => Vec::new(),
            };
            let is_namespaced =
                |value: &&str| !value.is_empty() || prefix.field != ValueField::Namespace;
            let values = values.into_iter().filter(is_namespaced);
            for value in values.filter(|value| prefix.matches(value)) {
                counts.add(value, 1);
            }
        }
        counts
    }
}

/// The defined order of a query: missing values, then numbers, then texts.
fn sort_text(widget: &Widget, path: &FieldPath, kind: FieldType) -> Option<String> {
    let absent = (kind != FieldType::Optional).then(|| Cow::from(kind.absent()));
    widget
        .field(path.as_str())
        .or(absent)
        .map(|value| encode_sort_key(kind, &value))
}

fn compare(left: &Widget, right: &Widget, sorts: &[Sort]) -> Ordering {
    let key = |sort: &Sort| {
        let order = match &sort.key {
            SortKey::Namespace => left.namespace().cmp(right.namespace()),
            SortKey::Name => left.name().cmp(right.name()),
            SortKey::Cluster => left.cluster().cmp(right.cluster()),
            SortKey::CreationTimestamp => left.created().cmp(&right.created()),
            SortKey::Field(path, kind) => {
                sort_text(left, path, *kind).cmp(&sort_text(right, path, *kind))
            }
        };
        if sort.descending {
            order.reverse()
        } else {
            order
        }
    };
    let by_keys = sorts.iter().map(key).fold(Ordering::Equal, Ordering::then);
    by_keys
        .then_with(|| left.cluster().cmp(right.cluster()))
        .then_with(|| left.uid().cmp(&right.uid()))
}

/// A store with a live revision for each cluster.
struct Filled {
    memory: Memory,
    revisions: Vec<IndexRevision>,
    model: Model,
}

impl Filled {
    async fn new() -> Self {
        let memory = Memory::new();
        let mut revisions = Vec::new();
        for cluster in CLUSTERS {
            let revision = memory
                .open(&cluster.parse().unwrap(), Some("uid"), 0)
                .await
                .unwrap();
            memory
                .activate(&revision, &CompleteResources::All)
                .await
                .unwrap();
            revisions.push(revision);
        }
        Self {
            memory,
            revisions,
            model: Model::default(),
        }
    }

    async fn write(&mut self, steps: &[Step]) {
        let writes: Vec<Write> = steps
            .iter()
            .map(|step| write(step, &self.revisions[step.widget.cluster]))
            .collect();
        let verdicts = self.memory.write(&writes).await.unwrap();
        for (step, verdict) in steps.iter().zip(verdicts) {
            let is_applied = self.model.apply(step);
            let is_stored = matches!(
                verdict,
                Verdict::Indexed | Verdict::Deleted | Verdict::Absent
            );
            assert!(
                is_stored == is_applied && (is_applied || verdict == Verdict::Superseded),
                "{step:?}: {verdict:?}"
            );
        }
    }

    /// All pages of a search over both kinds, the first one without its objects.
    async fn ranked(&self, query: &Query) -> (RankedPage, Vec<RankPosition>) {
        let of_kind = |plural| Query {
            resource: ResourceName::new("example.com", plural),
            ..query.clone()
        };
        let mut ranked = RankedQuery {
            queries: ["widgets", "gadgets"].map(of_kind).into(),
            requester: Requester::Operator,
            limit: query.limit,
            after: None,
            facets: vec![Facet::Kind, Facet::Cluster, Facet::Namespace],
        };
        let first = self.memory.ranked_page(&ranked).await.unwrap();
        let mut positions: Vec<RankPosition> = Vec::new();
        let mut page = first.clone();
        loop {
            for item in &page.items {
                assert_eq!(uid(item.hit.object.get()), item.position.uid);
                positions.push(item.position.clone());
            }
            if !page.more {
                return (first, positions);
            }
            assert_eq!(page.items.len(), ranked.limit);
            ranked.after = positions.last().cloned();
            page = self.memory.ranked_page(&ranked).await.unwrap();
        }
    }

    async fn first(&self, query: &Query) -> (Page, u64) {
        self.memory.list(query, None).await.unwrap()
    }

    /// The remaining pages of a result.
    async fn rest(&self, query: &Query, first: Page) -> Vec<String> {
        let mut answer = names(&first);
        let mut next = first.next;
        while let Some(cursor) = next {
            let page = self.memory.search(query, Some(&cursor)).await.unwrap();
            answer.extend(names(&page));
            next = page.next;
        }
        answer
    }
}

fn names(page: &Page) -> Vec<String> {
    page.items
        .iter()
        .map(|hit| format!("{}/{}", hit.cluster, uid(hit.object.get())))
        .collect()
}

fn uid(object: &str) -> String {
    let object: serde_json::Value = serde_json::from_str(object).unwrap();
    object["metadata"]["uid"].as_str().unwrap().to_owned()
}

/// Applies the events of a watch up to a change to a result.
async fn apply_events(watch: &mut Watch, until: u64, answer: &mut BTreeSet<String>) {
    while watch.sequence() < until {
        let waited = tokio::time::timeout(std::time::Duration::ZERO, watch.next()).await;
        // The last changes may all be of objects that are not selected.
        let Ok(events) = waited else { break };
        for Event {
            kind,
            object,
            sequence,
        } in events.unwrap()
        {
            assert!(sequence <= until);
            let json = object.hit().unwrap().object.get();
            let name = format!("{}/{}", object.cluster(), uid(json));
            let was_there = match kind {
                EventKind::Deleted => answer.remove(&name),
                EventKind::Added | EventKind::Modified => !answer.insert(name.clone()),
            };
            assert_eq!(was_there, kind != EventKind::Added, "{kind:?} {name}");
        }
    }
}

fn steps(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    let label_values = select(vec!["", "web", "db", "1", "2", "010"]).prop_map(String::from);
    let field_values = select(vec![
        "", "a", "b", "0", "1", "500m", "false", "true", "x,y=z",
    ])
    .prop_map(String::from);
    let paths =
        select(vec!["spec.text", "spec.count", "spec.on", "spec.maybe"]).prop_map(String::from);
    let keys = select(vec!["app", "x.io/n"]).prop_map(String::from);
    let step = (
        0..CLUSTERS.len(),
        0_u8..40,
        collection::btree_map(keys, label_values, 0..3),
        collection::btree_map(paths, field_values, 0..4),
        1_u64..30,
        proptest::bool::weighted(0.2),
    );
    let step = step.prop_map(
        |(cluster, number, labels, fields, version, is_deleted)| Step {
            widget: Widget {
                cluster,
                number,
                labels,
                fields,
            },
            version,
            is_deleted,
        },
    );
    collection::vec(step, count).prop_map(|mut steps| {
        // Equal versions of an object have equal contents.
        let mut known: BTreeMap<(usize, u8, u64), (Widget, bool)> = BTreeMap::new();
        for step in &mut steps {
            let key = (step.widget.cluster, step.widget.number, step.version);
            let (widget, is_deleted) = known
                .entry(key)
                .or_insert_with(|| (step.widget.clone(), step.is_deleted))
                .clone();
            (step.widget, step.is_deleted) = (widget, is_deleted);
        }
        steps
    })
}

fn permitted() -> impl Strategy<Value = Permitted> {
    let clusters = prop::option::weighted(0.7, collection::vec(select(CLUSTERS.to_vec()), 0..3));
    let namespaces = prop::option::weighted(0.7, collection::vec(select(vec!["a", "b"]), 0..3));
    let grant = (clusters, namespaces).prop_map(|(clusters, namespaces)| Grant {
        clusters: clusters.map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
        namespaces: namespaces
            .map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
    });
    prop_oneof![3 => Just(Permitted::Everything), 1 => collection::vec(grant, 0..4).prop_map(Permitted::Only)]
}

#[allow(clippy::too_many_lines, reason = "one scenario")]
fn query() -> impl Strategy<Value = Query> {
    let labels = [
        "app",
        "!app",
        "app=web",
        "app!=web",
        "app in (web,,db)",
        "app notin (web,)",
        "x.io/n>1",
        "x.io/n<2",
        "x.io/n>9",
    ];
    let fields = [
        "metadata.name=a",
        "metadata.name!=a",
        "metadata.name",
        "!metadata.name",
        "metadata.name in (,a)",
        "metadata.name notin (,a)",
        "metadata.namespace",
        "!metadata.namespace",
        "metadata.namespace in (,a)",
        "metadata.namespace notin (,a)",
        "spec.text",
        "!spec.text",
        "spec.text in (a,)",
        "spec.text!=b",
        "spec.count=0",
        "spec.count!=",
        "spec.on=false",
        "spec.maybe",
        "!spec.maybe",
        r"spec.maybe in (,a,x\,y\=z)",
        "spec.maybe notin (,b)",
        "spec.maybe!=a",
        "spec.count>0",
        "spec.count<=0",
        "spec.maybe<1",
        "spec.maybe>=0.5",
    ];
    let clusters = collection::vec(select(CLUSTERS.to_vec()), 0..2);
    let namespaces = collection::vec(select(vec!["a", "b"]), 0..2);
    let names = collection::vec(select(vec!["a", "ab"]), 0..2);
    let mut keys = vec![
        SortKey::Namespace,
        SortKey::Name,
        SortKey::Cluster,
        SortKey::CreationTimestamp,
    ];
    keys.extend(
        self::fields()
            .into_iter()
            .map(|field| SortKey::Field(field.path, field.kind)),
    );
    let keys = select(keys);
    let other = collection::vec(
        (keys, any::<bool>()).prop_map(|(key, descending)| Sort { key, descending }),
        0..3,
    );
    let sort = prop_oneof![Just(Sort::standard()), other];
    let selectors = (
        collection::vec(select(labels.to_vec()), 0..2),
        collection::vec(select(fields.to_vec()), 0..2),
    );
    let day =
        || proptest::option::weighted(0.2, (20_453 * 86_400_000 - 1_i64)..20_457 * 86_400_000);
    let some_words = prop_oneof![4 => Just(WordSelector::default()), 1 => words()];
    let extra = (
        day(),
        day(),
        proptest::option::weighted(0.2, owners()),
        some_words,
    );
    (
        selectors,
        clusters,
        namespaces,
        names,
        sort,
        1_usize..8,
        permitted(),
        extra,
    )
        .prop_map(
            |(
                (labels, fields),
                clusters,
                namespaces,
                names,
                sort,
                limit,
                permitted,
                (since, before, owners, words),
            )| {
                let selectable =
                    Selectable::of(&Gvk::new("example.com", "v1", "Widget"), &self::fields());
                Query {
                    clusters: clusters
                        .iter()
                        .map(|name| name.parse::<ClusterName>().unwrap())
                        .collect(),
                    namespaces: namespaces
                        .iter()
                        .map(|name| name.parse().unwrap())
                        .collect(),
                    names: names.into_iter().map(String::from).collect(),
                    labels: labels.join(",").parse().unwrap(),
                    fields: fields.join(",").parse().unwrap(),
                    sort,
                    permitted,
                    since,
                    before,
                    owners,
                    words,
                    ..Query::all_of(
                        ResourceName::new("example.com", "widgets"),
                        selectable,
                        limit,
                    )
                }
            },
        )
}

fn words() -> impl Strategy<Value = WordSelector> {
    let texts = vec![
        "a",
        "b",
        "AB",
        "web",
        "we",
        "app",
        "app=",
        "app=d",
        "=web",
        "x.io/n=1",
        "owner",
        "the-owner",
        "example.com/b",
        "Example",
        "gadget",
        "get",
        "0",
        "no such text",
    ];
    let word = (select(texts), proptest::bool::weighted(0.3));
    collection::vec(word, 0..4).prop_map(|words| {
        let words = words.into_iter();
        words
            .map(|(text, is_negated)| Word::new(text, is_negated))
            .collect()
    })
}

fn owners() -> impl Strategy<Value = Owners> {
    let cluster = proptest::option::of(select(CLUSTERS.to_vec()));
    collection::vec((cluster, 0_u8..20), 0..6).prop_map(|all| {
        let mut owners = Owners::default();
        for (cluster, number) in all {
            owners.insert(
                cluster.map(|name| name.parse().unwrap()),
                &Widget::uid_of(number),
            );
        }
        owners
    })
}

fn relatives() -> impl Strategy<Value = RelativesQuery> {
    let resource = select(vec![None, Some("widgets"), Some("gadgets")]);
    let names = collection::vec(
        select(vec!["a", "b", "ab", "x"]).prop_map(String::from),
        1..3,
    );
    let named = (resource, names).prop_map(|(plural, names)| {
        let resource = plural.map(|plural| ResourceName::new("example.com", plural));
        Relation::Named { resource, names }
    });
    let relation = prop_oneof![named, owners().prop_map(Relation::OwnedBy)];
    let clusters = collection::vec(select(CLUSTERS.to_vec()), 0..2);
    let namespaces = collection::vec(select(vec!["a", "b"]), 0..2);
    (relation, clusters, namespaces, permitted()).prop_map(
        |(relation, clusters, namespaces, permitted)| RelativesQuery {
            clusters: clusters.iter().map(|name| name.parse().unwrap()).collect(),
            namespaces: namespaces
                .iter()
                .map(|name| name.parse().unwrap())
                .collect(),
            permitted,
            requester: Requester::Operator,
            relation,
        },
    )
}

fn group_keys() -> impl Strategy<Value = Vec<GroupKey>> {
    let field = |path: &str| GroupKey::Field(FieldPath::new(path));
    let label = |key: &str| GroupKey::Label(key.to_owned());
    let mut keys = vec![
        GroupKey::Cluster,
        GroupKey::Namespace,
        label("app"),
        label("x.io/n"),
        field("metadata.name"),
    ];
    keys.extend(["spec.text", "spec.count", "spec.on", "spec.maybe"].map(field));
    collection::vec(select(keys), 0..4)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
        .block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_query_returns_the_matching_objects_in_their_newest_versions(steps in steps(0..120), queries in collection::vec(query(), 1..8)) {
        run(async {
            let mut store = Filled::new().await;
            for batch in steps.chunks(7) {
                store.write(batch).await;
            }
            for query in &queries {
                let (first, _) = store.first(query).await;
                let expected = store.model.answer(query);
                let remaining = first.next.as_ref().map(|_| (expected.len() - first.items.len()) as u64);
                assert_eq!(first.remaining, remaining);
                assert_eq!(store.rest(query, first).await, expected, "{query:?}");
            }
        });
    }

    #[test]
    fn a_search_over_kinds_returns_the_best_matches_first_and_counts_all(
        steps in steps(0..120), queries in collection::vec(query(), 1..6), words in words(),
    ) {
        run(async {
            let mut store = Filled::new().await;
            for batch in steps.chunks(7) {
                store.write(batch).await;
            }
            for query in queries {
                let query = Query { words: words.clone(), ..query };
                let kinds = ["widgets", "gadgets"].map(|plural| Query { resource: ResourceName::new("example.com", plural), ..query.clone() });
                let (expected, mut counts) = store.model.ranked(&kinds);
                let (first, found) = store.ranked(&query).await;
                assert_eq!(found, expected, "{query:?}");
                assert_eq!(first.total, expected.len() as u64);
                counts.retain(|_, of_facet| !of_facet.is_empty());
                let shown: CountsByFacet = first.facets.into_iter().filter(|(_, of_facet)| !of_facet.is_empty()).collect();
                assert_eq!(shown, counts, "{query:?}");
            }
        });
    }

    #[test]
    fn values_are_those_of_the_objects_that_a_search_finds(
        steps in steps(0..120), queries in collection::vec(query(), 1..6), words in words(),
    ) {
        run(async {
            let mut store = Filled::new().await;
            store.write(&steps).await;
            let label = |key: &str| ValueField::Label(key.to_owned());
            let fields = [ValueField::Namespace, ValueField::LabelKey, label("app"), label("x.io/n")];
            let prefixes = fields.into_iter().flat_map(|field| ["", "A", "x."].map(|text| ValuePrefix::new(field.clone(), text).unwrap()));
            let prefixes: Vec<ValuePrefix> = prefixes.collect();
            for query in queries {
                let query = Query { words: words.clone(), ..query };
                let kinds = ["widgets", "gadgets"].map(|plural| Query { resource: ResourceName::new("example.com", plural), ..query.clone() });
                let expected: Vec<ValueCounts> = prefixes.iter().map(|prefix| store.model.values(&kinds, prefix)).collect();
                let asked = ValuesQuery { queries: kinds.into(), requester: Requester::Operator, prefixes: prefixes.clone() };
                assert_eq!(store.memory.frequent_values(&asked).await.unwrap(), expected, "{query:?}");
            }
        });
    }

    #[test]
    fn relatives_are_found_among_all_kinds(steps in steps(0..120), asked in collection::vec(relatives(), 1..6)) {
        run(async {
            let mut store = Filled::new().await;
            store.write(&steps).await;
            for asked in &asked {
                assert_eq!(store.memory.relatives(asked).await.unwrap(), store.model.relatives(asked), "{asked:?}");
            }
        });
    }

    #[test]
    fn counts_are_those_of_the_objects_that_the_query_matches(
        steps in steps(0..120), query in query(), by in group_keys(), top in 1_usize..6,
    ) {
        run(async {
            let mut store = Filled::new().await;
            store.write(&steps).await;
            let found = store.memory.aggregate(&query, &by, top).await.unwrap();
            assert_eq!(found, store.model.counts(&query, &by, top), "{query:?} by {by:?}");
        });
    }

    #[test]
    fn pages_show_the_snapshot_of_the_first_and_a_watch_continues_from_it(
        before in steps(20..100), after in steps(0..100), query in query(),
    ) {
        run(async {
            let mut store = Filled::new().await;
            store.write(&before).await;
            let at_first = store.model.answer(&query);
            let (first, sequence) = store.first(&query).await;
            let mut watch = store.memory.watch(&query, sequence).unwrap();
            for batch in after.chunks(9) {
                store.write(batch).await;
            }
            assert_eq!(store.rest(&query, first).await, at_first);
            let mut replica = at_first.into_iter().collect();
            let (_, now) = store.first(&query).await;
            apply_events(&mut watch, now, &mut replica).await;
            let mut expected = store.model.answer(&query);
            expected.sort();
            assert_eq!(replica.into_iter().collect::<Vec<_>>(), expected);
        });
    }
}

/// Checks that the generators exercise the property often enough.
#[test]
fn many_generated_queries_find_some_objects_and_not_others() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut selective = 0;
    for _ in 0..200 {
        let query = query().new_tree(&mut runner).unwrap().current();
        let mut model = Model::default();
        for step in steps(100..101).new_tree(&mut runner).unwrap().current() {
            model.apply(&step);
        }
        let found = model.answer(&query).len();
        selective += usize::from(found > 1 && found < 30);
    }
    assert!(
        selective > 60,
        "only {selective} of 200 queries are selective"
    );
}
