//! Field selectors of any path over generated objects and selectors. Compares three results: of a
//! store that indexes every field, of the embedded store, and of an evaluation on the JSON of the
//! objects.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use fleetdex_core::{
    model::{
        ClusterName, FieldPath, FieldType, Gvk, Object, Projection, Projector, Quantity, Resource,
        SelectableField,
    },
    query::{Hit, Query, ResourceName, Selectable},
    selector::{Comparison, FieldRequirement, FieldSelector, FieldTest},
};
use fleetdex_store::{
    CompleteResources, Store,
    bulk::{Verdict, Write},
    memory::Memory,
};
use rand::{RngExt, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};

const OBJECTS: usize = 120;
const LIMIT: usize = 1_000;
/// Member names at every level: some need brackets, some share a prefix, and one is not selectable.
const NAMES: [&str; 12] = [
    "a",
    "b",
    "ab",
    "a.b",
    "x.io/n",
    "",
    "with blank",
    "['",
    "eq=a",
    "ü",
    "known",
    "0",
];
const TEXTS: [&str; 12] = [
    "", "a", "b", "a=b", "1", "007", "500m", "2Gi", "-3", "x,y", "true", "ä",
];

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct ComparisonReport {
    /// Selectors for which a store returns wrong objects.
    pub disagreements: Vec<String>,
    /// Number of selectors that select some objects, but not all.
    pub discriminating: usize,
}

/// Writes the objects to `full`, which indexes every field, and to an embedded store, and compares
/// the results of random selectors. `deepest` is the maximum nesting depth of an object.
pub async fn compare(
    full: &dyn Store,
    seed: u64,
    selectors: usize,
    deepest: usize,
) -> Result<ComparisonReport> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut objects: BTreeMap<String, Value> = edge_cases(deepest)
        .into_iter()
        .enumerate()
        .map(|(at, special)| named(at, special))
        .collect();
    for number in objects.len()..OBJECTS {
        let object = json!({
            "spec": value(&mut random, 0), "status": value(&mut random, 1), "data": value(&mut random, 2),
            "metadata": { "annotations": random_strings(&mut random), "labels": random_strings(&mut random), "generation": number % 4 },
        });
        objects.extend([named(number, object)]);
    }
    let memory = Memory::new();
    fill(full, &objects, &Projection::default().and_every_path()).await?;
    fill(&memory, &objects, &Projection::default()).await?;
    check_whole(full, &objects).await.context("OpenSearch")?;
    check_whole(&memory, &objects)
        .await
        .context("the embedded store")?;
    let mut report = ComparisonReport::default();
    for _ in 0..selectors {
        let requirements: Vec<FieldRequirement> = (0..random.random_range(1..3))
            .map(|_| requirement(&mut random))
            .collect();
        let selects = |object: &Value| {
            requirements
                .iter()
                .all(|requirement| meets(object, requirement))
        };
        let expected: BTreeSet<String> = objects
            .iter()
            .filter(|(_, object)| selects(object))
            .map(|(name, _)| name.clone())
            .collect();
        let selector: FieldSelector = requirements.iter().cloned().collect();
        let from_full = matching_names(full, &selector)
            .await
            .with_context(|| selector.to_string())?;
        let from_memory = matching_names(&memory, &selector)
            .await
            .with_context(|| selector.to_string())?;
        report.discriminating +=
            usize::from(!expected.is_empty() && expected.len() < objects.len());
        for (store_name, found) in [
            ("OpenSearch", from_full),
            ("the embedded store", from_memory),
        ] {
            if found != expected {
                let wrong: Vec<&String> = found.symmetric_difference(&expected).collect();
                report
                    .disagreements
                    .push(format!("{selector}: {store_name} is wrong about {wrong:?}"));
            }
        }
    }
    Ok(report)
}

fn resource() -> Resource {
    Resource {
        gvk: Gvk::new("example.com", "v1", "Widget"),
        plural: "widgets".into(),
        namespaced: true,
    }
}

/// One path is selectable by declaration.
fn fields() -> [SelectableField; 1] {
    let known = FieldPath::new("spec.known");
    [SelectableField {
        path: known.clone(),
        sources: vec![known],
        kind: FieldType::Optional,
    }]
}

fn named(number: usize, mut object: Value) -> (String, Value) {
    let name = format!("w-{number:03}");
    object["apiVersion"] = "example.com/v1".into();
    object["kind"] = "Widget".into();
    object["metadata"]["name"] = name.as_str().into();
    object["metadata"]["namespace"] = "shop".into();
    object["metadata"]["uid"] = format!("u-{number}").into();
    object["metadata"]["resourceVersion"] = "7".into();
    (name, object)
}

/// Objects that OpenSearch rejects as a flat object or fails on, and values at its limits.
fn edge_cases(deepest: usize) -> Vec<Value> {
    let nested = |levels: usize| (0..levels).fold(json!("a"), |inner, _| json!({ "a": inner }));
    let arrays = (0..60).fold(json!("a"), |inner, _| json!([inner]));
    let text = |length: usize| "x".repeat(length);
    vec![
        json!({ "spec": "a" }),
        json!({ "spec": 5, "status": true }),
        json!({ "spec": null, "status": [{ "a": "b" }, { "a": 1 }] }),
        json!({ "spec": ["a", "b"] }),
        json!({ "spec": { "a": arrays } }),
        json!({ "spec": nested(50), "status": nested(deepest) }),
        json!({ "spec": { "a": text(1_024), "b": "a" } }),
        json!({ "spec": { "a": text(1_025), "b": "a" } }),
        json!({ "spec": { "a": [text(40_000), "b"], "b": { "a": "ä".repeat(16_300) } }, "status": { "a": "a" } }),
        json!({ "spec": { (text(33_000)): "a", "b": "b" } }),
        json!({ "cluster": { "a": "a" }, "search": "a", "spec": { "a": text(50_000) } }),
    ]
}

fn value(random: &mut StdRng, depth: usize) -> Value {
    let scalars = [
        json!(null),
        json!(true),
        json!(0),
        json!(-3),
        json!(1.5),
        json!(7),
    ];
    match random.random_range(0..10) {
        0..4 if depth < 4 => {
            let mut members = Map::new();
            for _ in 0..random.random_range(0..5) {
                members.insert(
                    (*NAMES.choose(random).unwrap_or(&"a")).to_owned(),
                    value(random, depth + 1),
                );
            }
            members.into()
        }
        4..6 if depth < 4 => (0..random.random_range(0..3))
            .map(|_| value(random, depth + 1))
            .collect(),
        6 => scalars.choose(random).cloned().unwrap_or_default(),
        _ => (*TEXTS.choose(random).unwrap_or(&"")).into(),
    }
}

/// A map of strings, as labels and annotations are.
fn random_strings(random: &mut StdRng) -> Value {
    let mut members = Map::new();
    for key in ["a", "a.b", "x.io/n"] {
        if random.random_bool(0.5) {
            members.insert(
                key.to_owned(),
                (*TEXTS.choose(random).unwrap_or(&"")).into(),
            );
        }
    }
    members.into()
}

async fn fill(
    store: &dyn Store,
    objects: &BTreeMap<String, Value>,
    projection: &Projection,
) -> Result<()> {
    let cluster: ClusterName = "member1".parse()?;
    let revision = store.open(&cluster, None, 0).await?;
    let projector = Projector::new(&cluster, &resource(), projection, &fields());
    let mut writes = Vec::new();
    for object in objects.values() {
        let json = object.to_string();
        let document = projector.document(&Object::parse(&json)?, "2026-01-01T00:00:00Z")?;
        writes.push(Write {
            index: revision.target.clone(),
            document,
        });
    }
    let verdicts = store.write(&writes).await?;
    ensure!(
        verdicts.iter().all(|verdict| *verdict == Verdict::Indexed),
        "{verdicts:?}"
    );
    store.activate(&revision, &CompleteResources::All).await?;
    Ok(())
}

/// Returns the names of the objects that a store finds.
async fn matching_names(store: &dyn Store, selector: &FieldSelector) -> Result<BTreeSet<String>> {
    let selectable = Selectable::of(&resource().gvk, &fields()).and_any_path();
    let query = Query {
        fields: selector.clone(),
        ..Query::all_of(
            ResourceName::new("example.com", "widgets"),
            selectable,
            LIMIT,
        )
    };
    let page = store.search(&query, None).await?;
    page.items.iter().map(name).collect()
}

/// Checks that a store returns every member of every object byte for byte.
async fn check_whole(store: &dyn Store, objects: &BTreeMap<String, Value>) -> Result<()> {
    let selectable = Selectable::of(&resource().gvk, &fields());
    let page = store
        .search(
            &Query::all_of(
                ResourceName::new("example.com", "widgets"),
                selectable,
                LIMIT,
            ),
            None,
        )
        .await?;
    ensure!(
        page.items.len() == objects.len(),
        "{} objects of {}",
        page.items.len(),
        objects.len()
    );
    for hit in page.items {
        let returned: BTreeMap<String, Box<RawValue>> = serde_json::from_str(hit.object.get())?;
        let object = objects
            .get(&name(&hit)?)
            .context("the store returned an object that was not written")?;
        for (key, value) in object
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "metadata")
        {
            let found = returned
                .get(key)
                .map(|value| value.get())
                .unwrap_or_default();
            let whole = value.to_string();
            ensure!(
                found == whole,
                "{key} of {} differs from the written value",
                name(&hit)?
            );
        }
    }
    Ok(())
}

/// Parses only the name: the rest may be nested too deep for a `Value`.
fn name(hit: &Hit) -> Result<String> {
    #[derive(Deserialize)]
    struct Named {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        name: String,
    }
    let named: Named = serde_json::from_str(hit.object.get())?;
    Ok(named.metadata.name)
}

fn requirement(random: &mut StdRng) -> FieldRequirement {
    let bounds = [
        Quantity::from(0),
        Quantity::from(1),
        Quantity::from(7),
        Quantity::parse("0.5").unwrap_or(Quantity::from(0)),
    ];
    let comparisons = [
        Comparison::Above,
        Comparison::From,
        Comparison::Below,
        Comparison::UpTo,
    ];
    let values = |random: &mut StdRng| -> BTreeSet<String> {
        let pick = |random: &mut StdRng| (*TEXTS.choose(random).unwrap_or(&"")).to_owned();
        (0..random.random_range(1..4))
            .map(|_| pick(random))
            .collect()
    };
    let test = match random.random_range(0..7) {
        0 | 1 => FieldTest::In(values(random)),
        2 => FieldTest::In(["x".repeat(1_024)].into()),
        3 => FieldTest::NotIn(values(random)),
        4 => FieldTest::NotIn([String::new()].into()),
        5 => FieldTest::In([String::new()].into()),
        _ => {
            let bound = bounds.choose(random).copied().unwrap_or(bounds[0]);
            FieldTest::Compares(
                comparisons
                    .choose(random)
                    .copied()
                    .unwrap_or(Comparison::From),
                bound,
            )
        }
    };
    FieldRequirement {
        path: path(random),
        test,
    }
}

fn path(random: &mut StdRng) -> FieldPath {
    let roots = [
        "spec",
        "spec",
        "spec",
        "status",
        "data",
        "metadata.annotations",
        "metadata.labels",
        "cluster",
    ];
    let special = [
        "metadata.generation",
        "metadata.uid",
        "apiVersion",
        "kind",
        "search",
        "spec",
        "spec['a']['b']",
    ];
    if random.random_bool(0.15) {
        return FieldPath::new(special.choose(random).unwrap_or(&"kind"));
    }
    let mut path = (*roots.choose(random).unwrap_or(&"spec")).to_owned();
    for _ in 0..random.random_range(1..3) {
        let selectable_names: Vec<&str> = NAMES
            .iter()
            .copied()
            .filter(|name| !name.contains('='))
            .collect();
        let name = selectable_names.choose(random).unwrap_or(&"a");
        // Brackets are valid where they are not required, too.
        let needs = name.is_empty() || name.contains('.') || name.contains("['");
        path = if needs || random.random_bool(0.2) {
            format!("{path}['{name}']")
        } else {
            format!("{path}.{name}")
        };
    }
    FieldPath::new(&path)
}

/// Whether an object meets a requirement by the definition of selectors, independent of any store.
fn meets(object: &Value, requirement: &FieldRequirement) -> bool {
    let mut values = Vec::new();
    let segments: Vec<&str> = requirement.path.segments().collect();
    collect(object, &segments, &mut values);
    values.retain(|value| !value.is_empty());
    match &requirement.test {
        FieldTest::In(allowed) => {
            values.iter().any(|value| allowed.contains(value))
                || values.is_empty() && allowed.contains("")
        }
        FieldTest::NotIn(rejected) => {
            !(values.iter().any(|value| rejected.contains(value))
                || values.is_empty() && rejected.contains(""))
        }
        FieldTest::Compares(comparison, bound) => values.iter().any(|value| {
            Quantity::parse(value).is_some_and(|number| comparison.holds(number, *bound))
        }),
    }
}

fn collect(value: &Value, path: &[&str], found: &mut Vec<String>) {
    match (value, path) {
        (Value::Array(items), _) => items.iter().for_each(|item| collect(item, path, found)),
        (Value::Object(members), [name, below @ ..]) => {
            members
                .get(*name)
                .into_iter()
                .for_each(|member| collect(member, below, found));
        }
        (Value::Null | Value::Object(_), _) | (_, [_, ..]) => {}
        (Value::String(text), []) => found.push(text.clone()),
        (scalar, []) => found.push(scalar.to_string()),
    }
}
