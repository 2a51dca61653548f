//! What evaluations may cost: steps and bytes, never time, for objects, paths, selectors, patches,
//! Tables and queries as large as the limits allow. Run by the fuzz target `cost`, and over its
//! corpus by `tests/pure/fuzz_corpus.rs`.
//!
//! Bytes are those that a call has allocated, by the thread that it runs on. So steps that do much
//! without being counted, and values that are not reserved, are both found.

#![allow(clippy::panic, reason = "a fuzz target fails by a panic")]

use allocation_counter::{AllocationInfo, measure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use fleetdex_core::{
    fuel::{Fuel, MeteredEvaluation},
    json_path::JsonPath,
    model::{
        ClusterName, Gvk, Json, JsonTree, MAX_OBJECT_BYTES, Object, PrinterColumn, Projection,
        Projector, Resource, parsed_size, value_size,
    },
    query::{
        CheckedQuery, HeldMemory, Hit, Query, ResourceName, Selectable, Word, WordSelector,
        WordText,
    },
    selector::LabelSelector,
};
use fleetdex_interpreter::{
    Request,
    health::KnownStatus,
    native, relations, summary,
    webhook::{self, Dialect},
};
use fleetdex_server::render::table::TablePrinter;
use fleetdex_store::opensearch::dsl;
use jiff::Timestamp;
use serde_json::Value;

#[path = "shapes.rs"]
mod shapes;

use shapes::{Instructions, KINDS};

/// What redactions and rules may take of an object when it is parsed (`object_limits.rs`).
const MAX_PARSED_BYTES: usize = 64 << 20;
/// Steps of redactions: `docs/security.md`.
const STEPS: usize = 100_000;
const STEPS_PER_BYTE: usize = 4;
/// Steps of a Table.
const TABLE_STEPS: usize = 1_000_000;
/// What one step may allocate: 16 bytes of a text that doubles while it grows and is escaped, or
/// some references to values.
const BYTES_PER_STEP: usize = 128;
/// What any call may allocate.
const BASE_BYTES: usize = 64 << 10;

/// The first byte selects what is checked, the second one how large texts are, the others are
/// instructions for texts.
pub fn cost(bytes: &[u8]) {
    let Some((check, rest)) = bytes.split_first() else {
        return;
    };
    let mut instructions = Instructions::new(rest);
    match check % 8 {
        0 => parsed(&mut instructions),
        1 => paths(&mut instructions),
        2 => redactions(&mut instructions),
        3 => tables(&mut instructions),
        4 => words(&mut instructions),
        5 => patches(&mut instructions),
        6 => selectors(&mut instructions),
        _ => interpretations(&mut instructions),
    }
}

fn kind(instructions: &mut Instructions<'_>) -> (&'static str, &'static str) {
    KINDS[instructions.byte() % KINDS.len()]
}

fn check(what: &str, info: &AllocationInfo, peak: usize, context: &dyn Fn() -> String) {
    let allocated = usize::try_from(info.bytes_max).unwrap_or(usize::MAX);
    assert!(
        allocated <= peak,
        "{what}: {allocated} bytes, more than {peak}: {}",
        context()
    );
}

/// What an object is, for a message.
fn outline(text: &str) -> String {
    let end = text.floor_char_boundary(300);
    format!("{} bytes, {}", text.len(), &text[..end])
}

/// A text takes no more than was reserved for it, while it is parsed and after that.
fn parsed(instructions: &mut Instructions<'_>) {
    let text = instructions.object(("v1", "Pod"));
    let mut value = None;
    let info = measure(|| value = serde_json::from_str::<Value>(&text).ok());
    check("parsing", &info, parsed_size(text.as_bytes()), &|| {
        outline(&text)
    });
    if let Some(value) = value {
        let held = usize::try_from(info.bytes_current).unwrap_or(0);
        assert!(held <= value_size(&value), "{}", outline(&text));
    }
}

fn parse(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

type Evaluate = fn(&JsonPath, &Value, &Fuel);

/// A path ends at the bound of its steps, and each step does a bounded amount of work.
fn paths(instructions: &mut Instructions<'_>) {
    let path = instructions.path();
    let object = instructions.object(("example.com/v1", "Widget"));
    let (Ok(parsed), Some(value)) = (path.parse::<JsonPath>(), parse(&object)) else {
        return;
    };
    let steps = STEPS + STEPS_PER_BYTE * object.len();
    let evaluations: [Evaluate; 2] = [
        |path, value, fuel| drop(path.find(value, fuel)),
        |path, value, fuel| drop(path.select(value, fuel)),
    ];
    for evaluate in evaluations {
        let fuel = Fuel::new(steps as u64);
        let info = measure(|| evaluate(&parsed, &value, &fuel));
        let used = usize::try_from(fuel.used()).unwrap_or(usize::MAX);
        assert!(used <= steps);
        let total = usize::try_from(info.bytes_total).unwrap_or(usize::MAX);
        assert!(
            total <= BASE_BYTES + BYTES_PER_STEP * used,
            "{total} bytes in {used} steps: {path}: {}",
            outline(&object)
        );
    }
}

/// An object that is redacted takes what its value may take, its text, and room for references to
/// what is removed.
fn redactions(instructions: &mut Instructions<'_>) {
    let paths: Vec<String> = (0..=instructions.byte() % 4)
        .map(|_| instructions.path())
        .collect();
    let kind = kind(instructions);
    let text = instructions.object(kind);
    let Ok(projection) = Projection::new(&paths, &[]) else {
        return;
    };
    let Ok(cluster) = "member1".parse::<ClusterName>() else {
        return;
    };
    let resource = Resource {
        gvk: gvk(kind),
        plural: "things".into(),
        namespaced: true,
    };
    let projector = Projector::new(&cluster, &resource, &projection, &[]);
    let info = measure(|| {
        let Ok((object, unfit)) = Object::parse_any(&text) else {
            return;
        };
        let made = unfit.map_or_else(|| projector.document(&object, "2026-11-21T10:00:00Z"), Err);
        drop(made.map_err(|unfit| {
            projector.identity(&object, &unfit.to_string(), "2026-11-21T10:00:00Z")
        }));
    });
    let value = parsed_size(text.as_bytes()).min(MAX_PARSED_BYTES);
    let peak = BASE_BYTES + 2 * value + 12 * text.len();
    check("redactions", &info, peak, &|| {
        format!("{paths:?}: {}", outline(&text))
    });
}

fn gvk((api_version, kind): (&str, &str)) -> Gvk {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    Gvk::new(group, version, kind)
}

/// All rows of a Table together take the steps of the response, and allocate in proportion.
fn tables(instructions: &mut Instructions<'_>) {
    let column = |index: usize, path: String| PrinterColumn {
        name: format!("c{index}").into(),
        kind: ["string", "integer", "date", "boolean"][index % 4].into(),
        json_path: path.trim_start_matches('$').into(),
        ..PrinterColumn::default()
    };
    let columns: Vec<PrinterColumn> = (0..instructions.byte() % 65)
        .map(|index| column(index, instructions.path()))
        .collect();
    let rows = 1 + instructions.byte() % 8;
    let kind = kind(instructions);
    let text = instructions.object(kind);
    let Ok(cluster) = "member1".parse::<ClusterName>() else {
        return;
    };
    let hit = Hit {
        cluster,
        object: Json::known(text.clone()),
        interpretation: None,
        memory: HeldMemory::default(),
    };
    let shares = || MeteredEvaluation::Table.shares();
    let before = shares();
    let allowed = TABLE_STEPS + rows * (1000 + 2 * text.len());
    let mut out = Vec::new();
    let info = measure(|| {
        let table = TablePrinter::of(&gvk(kind), Some(&columns));
        for _ in 0..rows {
            table.write_cells(&mut out, &hit, Timestamp::UNIX_EPOCH);
        }
    });
    let share = shares().sum - before.sum;
    assert!(share <= 1.001, "{share}: {}", outline(&text));
    let context = || format!("{} columns, {rows} rows: {}", columns.len(), outline(&text));
    let total = usize::try_from(info.bytes_total).unwrap_or(usize::MAX);
    let nodes = rows * 4 * parsed_size(text.as_bytes());
    let bound = BASE_BYTES * (1 + columns.len()) + nodes + BYTES_PER_STEP * allowed;
    assert!(total <= bound, "{total} of {bound} bytes: {}", context());
    assert!(
        out.len() <= 96 * allowed,
        "{} bytes: {}",
        out.len(),
        context()
    );
}

/// Words take the steps of all texts, whatever these have in common, and allocate nothing.
fn words(instructions: &mut Instructions<'_>) {
    let words = instructions.words();
    let text = instructions.object(("v1", "Pod"));
    let Some(value) = parse(&text) else {
        return;
    };
    let mut texts = Vec::new();
    collect_texts(&value, &mut texts);
    let bytes: usize = texts.iter().map(|text| 1 + bytes_of(*text) / 16).sum();
    let selector: WordSelector = words
        .iter()
        .map(|(word, is_negated)| Word::new(word, *is_negated))
        .collect();
    let steps = 500_000;
    let fuel = Fuel::new(steps);
    let mut score = None;
    let info = measure(|| score = Some(selector.score(&texts, &fuel)));
    let used = usize::try_from(fuel.used()).unwrap_or(usize::MAX);
    assert!(used <= words.len() * bytes, "{used} of {bytes}: {words:?}");
    assert!(
        used.is_multiple_of(bytes.max(1)) || score == Some(Err(fleetdex_core::fuel::OutOfFuel)),
        "half an answer: {words:?}: {}",
        outline(&text)
    );
    check("words", &info, BASE_BYTES, &|| {
        format!("{words:?}: {}", outline(&text))
    });
}

fn collect_texts<'v>(value: &'v Value, texts: &mut Vec<WordText<'v>>) {
    match value {
        Value::String(text) => texts.push(WordText::Whole(text)),
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(text) => texts.push(WordText::Label(key, text)),
                    other => {
                        texts.push(WordText::Whole(key));
                        collect_texts(other, texts);
                    }
                }
            }
        }
        _ => {}
    }
}

fn bytes_of(text: WordText<'_>) -> usize {
    match text {
        WordText::Whole(text) => text.len(),
        WordText::Label(key, value) => key.len() + value.len(),
    }
}

/// A patch moves no more items than allowed, and takes the memory of two copies of the object, of
/// the answer, and of what it may add.
fn patches(instructions: &mut Instructions<'_>) {
    let object = instructions.object(("example.com/v1", "Widget"));
    let patch = instructions.patch();
    let Some(object) = parse(&object) else {
        return;
    };
    let answer = format!(
        r#"{{"response":{{"uid":"u","successful":true,"allowed":true,"patchType":"JSONPatch","patch":"{}"}}}}"#,
        STANDARD.encode(&patch)
    );
    let request = Request::Revise {
        object: &object,
        replicas: 3,
    };
    let before = MeteredEvaluation::Patch.shares();
    let mut most = 0.0;
    for dialect in Dialect::ALL {
        let info = measure(|| drop(webhook::decode(dialect, "u", &request, answer.as_bytes())));
        let added = parsed_size(patch.as_bytes()) + 145 * MAX_OBJECT_BYTES.min(64 * patch.len());
        let peak = BASE_BYTES + 2 * value_size(&object) + 3 * added + 4 * answer.len();
        check("patch", &info, peak, &|| outline(&patch));
        most += 1.001;
    }
    let after = MeteredEvaluation::Patch.shares();
    assert!(after.sum - before.sum <= most);
}

/// A selector takes memory in proportion to its text, and so does what OpenSearch is asked.
fn selectors(instructions: &mut Instructions<'_>) {
    let text = instructions.selector();
    let mut asked = None;
    let info = measure(|| {
        let Ok(labels) = text.parse::<LabelSelector>() else {
            return;
        };
        let query = Query {
            labels,
            ..Query::all_of(
                ResourceName::new("", "pods"),
                Selectable::of(&Gvk::new("", "v1", "Pod"), &[]).and_any_path(),
                10,
            )
        };
        if let Ok(checked) = CheckedQuery::new(&query) {
            asked = Some(dsl::query_clause(&checked).to_string().len());
        }
    });
    check("selector", &info, BASE_BYTES + 400 * text.len(), &|| {
        outline(&text)
    });
    if let Some(asked) = asked {
        assert!(
            asked <= 4096 + 64 * text.len(),
            "{asked}: {}",
            outline(&text)
        );
    }
    if let Ok(labels) = text.parse::<LabelSelector>() {
        let info = measure(|| {
            for value in ["", "v", "x0"] {
                let _ = labels.matches(|_| Some(value));
            }
        });
        check("matching", &info, 0, &|| outline(&text));
    }
}

/// What rules say of an object takes memory in proportion to it: relations, selectors, health and
/// the operations that need no other object.
fn interpretations(instructions: &mut Instructions<'_>) {
    let kind = kind(instructions);
    let text = instructions.object(kind);
    let Some(object) = parse(&text).filter(|_| parsed_size(text.as_bytes()) <= MAX_PARSED_BYTES)
    else {
        return;
    };
    let tree: &JsonTree<'_> = &(&object).into();
    let size = value_size(&object);
    let context = || format!("{kind:?}: {}", outline(&text));
    let rules: [(&str, &dyn Fn()); 3] = [
        ("relations", &|| drop(relations::references(tree))),
        ("selector", &|| drop(relations::selector_edge(tree))),
        ("summary", &|| {
            drop(summary::summarize(tree, KnownStatus::Written));
        }),
    ];
    for (what, rule) in rules {
        let info = measure(rule);
        check(what, &info, BASE_BYTES + 4 * size, &context);
    }
    let object = &object;
    for request in [
        Request::Status { object },
        Request::Health { object },
        Request::Dependency { object },
        Request::Replica { object },
        Request::Prune { object },
        Request::Revise {
            object,
            replicas: 3,
        },
        Request::Retain {
            desired: object,
            observed: object,
        },
    ] {
        let info = measure(|| drop(native::interpret(&request)));
        let what = format!("{:?}", request.operation());
        check(&what, &info, BASE_BYTES + 4 * size, &context);
    }
}
