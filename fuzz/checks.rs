//! What has to hold for any bytes that a client, a member, a webhook or an author of scripts may
//! send. Run by the fuzz targets, and over their corpora by `tests/pure/fuzz_corpus.rs`.

#![allow(clippy::panic, reason = "a fuzz target fails by a panic")]

use std::collections::BTreeMap;

use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use fleetdex_clusters::watch::{ListPage, WatchEvent};
use fleetdex_core::{
    model::{
        ClusterName, Document, DocumentShape, FieldPath, Gvk, IndexPrefix, JsonLine, JsonScanner,
        JsonTree, MemberMask, Object, Projection, Projector, Quantity, Resource, Restored,
        fallback,
    },
    query::{CheckedQuery, Cursor, Permitted, Query, ResourceName, Selectable},
    selector::{FieldSelector, LabelSelector},
};
use fleetdex_interpreter::{
    Request, Response,
    image::{self, ImageReference, MAX_IMAGE_BYTES},
    native::quantity::Amount,
    script::{ArgoHealth, HealthScript, ScriptError},
    webhook::{self, Dialect, MAX_ADDED_BYTES, ReviewRequest},
};
use fleetdex_query_api::{
    clusterpedia,
    question::{self, ListRequest},
    uri::RequestUri,
};
use fleetdex_search::{ValueSet, Vocabulary, WantedValues};
use fleetdex_server::auth::{
    caller::Caller,
    continue_token::{self, Continuation, SealingKeys, TokenBinding},
};
use fleetdex_store::{
    bulk::{Write, encode},
    opensearch::dsl,
};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};

fn pods() -> Query {
    Query::all_of(
        ResourceName::new("", "pods"),
        Selectable::of(&Gvk::new("", "v1", "Pod"), &[]).and_any_path(),
        10,
    )
}

/// Builds what OpenSearch is asked, if the query is accepted.
fn build(query: &Query) {
    if let Ok(checked) = CheckedQuery::new(query) {
        drop(dsl::query_clause(&checked));
    }
}

/// A selector is refused, or printed so that it reads the same; and what it asks can be put to
/// OpenSearch or is refused.
pub fn selectors(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(labels) = text.parse::<LabelSelector>() {
        assert_eq!(labels.to_string().parse(), Ok(labels.clone()), "{text:?}");
        if let Ok((labels, _)) = clusterpedia::take(labels) {
            build(&Query { labels, ..pods() });
        }
    }
    if let Ok(fields) = text.parse::<FieldSelector>() {
        assert_eq!(fields.to_string().parse(), Ok(fields.clone()), "{text:?}");
        build(&Query { fields, ..pods() });
    }
    if let Some(quantity) = Quantity::parse(text) {
        assert_eq!(
            Quantity::parse(&quantity.to_string()),
            Some(quantity),
            "{text:?}"
        );
    }
    assert!(
        FieldPath::new(text).segments().count() <= text.len() + 1,
        "{text:?}"
    );
}

/// A path and a query, with a line break between them, are understood or refused.
pub fn request(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let (path, query) = text.split_once('\n').unwrap_or((text, ""));
    let parsed = RequestUri::parse(path, Some(query)).and_then(|uri| question::parse(&uri));
    if let Err(error) = parsed {
        assert!((400..500).contains(&error.code()), "{text:?}: {error}");
    }
}

/// Now, for tokens that nothing else depends on.
const NOW: i64 = 1_800_000_000;

/// A continue token cannot be forged: neither by what the bytes are, nor by what they change in a
/// genuine one. A genuine one continues as it was made, for its caller only.
pub fn continue_token(bytes: &[u8]) {
    thread_local!(static KEYS: SealingKeys = SealingKeys::default());
    KEYS.with(|keys| forge(keys, bytes));
}

fn forge(keys: &SealingKeys, bytes: &[u8]) {
    let (caller, request, permitted) = (
        Caller::local(),
        ListRequest::default(),
        Permitted::Everything,
    );
    let bound = TokenBinding {
        caller: &caller,
        request: &request,
        permitted: &permitted,
    };
    let open = |text: &str| continue_token::open(keys, text, &bound, NOW);
    let text = String::from_utf8_lossy(bytes).into_owned();
    assert!(
        open(&text).is_err() && open(&URL_SAFE_NO_PAD.encode(bytes)).is_err(),
        "{text:?}"
    );

    let cursor = Cursor {
        snapshot: text.clone(),
        after: vec![text.clone().into()],
        remaining: None,
    };
    let Ok(store) = (if text.is_empty() { "embedded" } else { &text }).parse() else {
        return;
    };
    let Ok(version) = "7".parse() else { return };
    let continuation = Continuation {
        version: Some(version),
        cursors: [(store, cursor)].into(),
    };
    let Ok(token) = continue_token::seal(keys, &continuation, &bound, NOW) else {
        panic!("no random numbers")
    };
    if token.len() > continue_token::MAX_BYTES {
        return assert!(open(&token).is_err());
    }
    assert_eq!(open(&token), Ok(continuation), "{text:?}");
    let other = Caller {
        name: format!("{text}."),
        ..Caller::local()
    };
    assert!(
        continue_token::open(
            keys,
            &token,
            &TokenBinding {
                caller: &other,
                ..bound
            },
            NOW
        )
        .is_err(),
        "{text:?}"
    );

    let Ok(genuine) = URL_SAFE_NO_PAD.decode(&token) else {
        panic!("{token}")
    };
    // What the bytes say to change: pairs of a place and what is put there.
    let mut forged = genuine.clone();
    for change in bytes.chunks_exact(3) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % forged.len();
        forged[place] ^= change[2];
    }
    // The header of a genuine one, and then the bytes.
    let headed = [&genuine[..genuine.len().min(21)], bytes].concat();
    for forged in [forged, headed] {
        assert!(
            forged == genuine || open(&URL_SAFE_NO_PAD.encode(&forged)).is_err(),
            "{forged:?}"
        );
    }
}

/// The scanner of objects accepts what `serde_json` accepts, and nothing else, and reads the same
/// values of it.
pub fn json_scanner(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let mut scanner = JsonScanner::new(text);
    let scanned = scanner.skip().and_then(|value| {
        scanner.end()?;
        Ok(value)
    });
    let accepted = serde_json::from_str::<IgnoredAny>(text);
    assert_eq!(scanned.is_ok(), accepted.is_ok(), "{text:?}");
    let Ok(value) = scanned else {
        return;
    };
    assert_eq!(
        value,
        text.trim_matches([' ', '\t', '\n', '\r']),
        "{text:?}"
    );
    // A `Value` has no surrogate without its pair, no number out of range, and no more than 127
    // levels.
    if let Ok(known) = serde_json::from_str::<Value>(text)
        && !is_deep(&known, 100)
    {
        let tree = JsonTree::parse(text, MemberMask::everything());
        assert_eq!(Value::from(&tree), known, "{text:?}");
    }
}

fn is_deep(value: &Value, levels: usize) -> bool {
    let mut children: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(members) => Box::new(members.values()),
        _ => return false,
    };
    levels == 0 || children.any(|child| is_deep(child, levels - 1))
}

/// What a member sends, as a list page, as the lines of a watch and as an object, becomes a bulk
/// request of which each line is JSON, each action names the write alias of this cluster, and each
/// document is one of this cluster.
pub fn bulk_lines(bytes: &[u8]) {
    let Ok(cluster) = "member1".parse::<ClusterName>() else {
        return;
    };
    let target = IndexPrefix::default().cluster_alias(&cluster);
    let page = ListPage::parse(bytes)
        .map(|page| page.items)
        .unwrap_or_default();
    let watched =
        bytes
            .split(|byte| *byte == b'\n')
            .filter_map(|line| match WatchEvent::parse(line) {
                Ok(
                    WatchEvent::Added(object)
                    | WatchEvent::Modified(object)
                    | WatchEvent::Deleted(object),
                ) => Some(object),
                _ => None,
            });
    let objects: Vec<&str> = page
        .iter()
        .copied()
        .chain(watched)
        .chain(str::from_utf8(bytes).ok())
        .collect();
    let mut writes = Vec::new();
    for projector in projectors(&cluster) {
        for json in &objects {
            let Ok((object, unfit)) = Object::parse_any(json) else {
                continue;
            };
            let made =
                unfit.map_or_else(|| projector.document(&object, "2026-11-21T10:00:00Z"), Err);
            let document = made.unwrap_or_else(|unfit| {
                projector.identity(&object, &unfit.to_string(), "2026-11-21T10:00:00Z")
            });
            let lesser =
                |body: &JsonLine, shape| fallback(body, shape, "mapper_parsing_exception: \n");
            let whole = document.body;
            let unindexed = whole
                .as_ref()
                .and_then(|body| lesser(body, DocumentShape::Unindexed).ok());
            let identity = unindexed
                .as_ref()
                .and_then(|body| lesser(body, DocumentShape::Identity).ok());
            let bodies = [whole, unindexed, identity, None];
            let write = |body| Write {
                index: target.clone(),
                document: Document {
                    id: document.id.clone(),
                    version: document.version,
                    body,
                    is_partial: false,
                },
            };
            writes.extend(bodies.map(write));
        }
    }
    check_bulk(&encode(&writes).body, target.as_str(), cluster.as_str());
}

/// As little as possible is made of an object, some of it is cut out, all of it is searchable.
fn projectors(cluster: &ClusterName) -> Vec<Projector> {
    let resource = |kind: &str, plural: &str| Resource {
        gvk: Gvk::new("", "v1", kind),
        plural: plural.into(),
        namespaced: true,
    };
    let mut projections = vec![
        Projection::default(),
        Projection::default().and_every_path(),
    ];
    projections.extend(Projection::new(&["$.spec.a".to_owned()], &[FieldPath::new("spec.b")]).ok());
    let of = |projection: &Projection| {
        [resource("Pod", "pods"), resource("Secret", "secrets")]
            .map(|resource| Projector::new(cluster, &resource, projection, &[]))
    };
    projections.iter().flat_map(of).collect()
}

fn check_bulk(body: &[u8], target: &str, cluster: &str) {
    let text = || String::from_utf8_lossy(body);
    assert!(body.is_empty() || body.ends_with(b"\n"), "{}", text());
    assert!(!body.contains(&b'\r'), "{}", text());
    let mut lines = body
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    while let Some(line) = lines.next() {
        let Ok(Value::Object(action)) = serde_json::from_slice(line) else {
            panic!("no action: {}", text())
        };
        assert_eq!(action.len(), 1, "{}", text());
        let Some((verb, of)) = action.iter().next() else {
            return;
        };
        assert!(verb == "index" || verb == "delete", "{}", text());
        assert_eq!(of["_index"], target, "{}", text());
        if verb == "index" && of["_id"] != "guard" {
            let document = lines.next().unwrap_or_default();
            let Ok(restored) = Restored::parse(document) else {
                panic!("no document: {}", text())
            };
            assert_eq!(restored.cluster.as_str(), cluster, "{}", text());
            // To OpenSearch such a name is a path, into what queries trust.
            let names: BTreeMap<String, Value> =
                serde_json::from_slice(document).unwrap_or_default();
            assert!(names.keys().all(|name| !name.contains('.')), "{}", text());
            assert!(!restored.object.get().contains(['\n', '\r']), "{}", text());
        } else if verb == "index" {
            assert_eq!(lines.next(), Some(&b"{}"[..]), "{}", text());
        }
    }
}

/// An image is found by itself, and a term by which it is found names the same image.
pub fn images(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let shown = ImageReference::parse(text).to_string();
    let terms = image::terms(text);
    assert!(
        terms.is_empty() || terms.contains(&image::query_term(text)),
        "{text:?}: {terms:?}"
    );
    if shown.len() <= MAX_IMAGE_BYTES {
        assert_eq!(ImageReference::parse(&shown).to_string(), shown, "{text:?}");
    }
}

/// A quantity is refused, or written so that it reads the same.
pub fn quantities(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Ok(amount) = Amount::parse(text) {
        let shown = amount.to_string();
        let read = Amount::parse(&shown);
        assert_eq!(
            read.as_ref().map(ToString::to_string),
            Ok(shown),
            "{text:?}"
        );
        assert_eq!(read.map(Amount::as_f64), Ok(amount.as_f64()), "{text:?}");
    }
}

/// What a webhook answers is refused, or a result; a patch leaves an object that is not larger than
/// the bound allows. What a webhook is asked is refused, or a request that can be sent on.
pub fn reviews(bytes: &[u8]) {
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"replicas": 1, "list": [1, [2]]}});
    let requests = [
        Request::Replica { object: &object },
        Request::Health { object: &object },
        Request::Dependency { object: &object },
        Request::Revise {
            object: &object,
            replicas: 3,
        },
    ];
    for (dialect, request) in Dialect::ALL
        .into_iter()
        .flat_map(|dialect| requests.iter().map(move |request| (dialect, request)))
    {
        drop(webhook::decode(dialect, "u", request, bytes));
        let patched = json!({"response": {
            "uid": "u", "successful": true, "patchType": "JSONPatch", "patch": STANDARD.encode(bytes),
        }});
        let answer = webhook::decode(dialect, "u", request, patched.to_string().as_bytes());
        if let Ok(Response::Revised(revised)) = answer {
            assert_eq!(revised["kind"], object["kind"], "{revised}");
            assert!(revised.to_string().len() <= MAX_ADDED_BYTES + 1024);
        }
    }
    if let Ok(review) = ReviewRequest::decode(bytes)
        && let Ok(request) = review.request()
    {
        drop(webhook::encode(review.dialect, &review.uid, &request));
    }
}

/// A script is refused with one of its lines, or compiled, whatever its `goto`s and tokens are.
pub fn scripts(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Err(ScriptError::Syntax { line, reason }) = HealthScript::compile(text) {
        let lines = text.split('\n').count();
        assert!((1..=lines).contains(&line), "{text:?}: {line}: {reason}");
    }
}

/// A key of Argo CD's `ConfigMap`, and after a line break its value, are refused or read.
pub fn argocd_keys(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    let (key, value) = text.split_once('\n').unwrap_or((text, "return {}"));
    let data: Map<String, Value> = [(key.to_owned(), value.into())].into_iter().collect();
    if let Ok(health) = ArgoHealth::from_data(&data) {
        let found = health.script_for("example.com", "Widget");
        assert!(found.is_none() || !health.is_empty(), "{text:?}");
    }
}

/// Has what is already written as the values of everything.
struct Echo;

impl Vocabulary for Echo {
    fn values(&self, wanted: &WantedValues) -> Vec<String> {
        let prefix = &wanted.prefix;
        let quoted = format!("{prefix}\" ,\\");
        match &wanted.of {
            ValueSet::LabelValues(key) => vec![key.clone(), prefix.clone(), quoted],
            _ => vec![format!("{prefix}x"), quoted],
        }
    }
}

/// A search is refused at a position, or printed so that it reads the same; with a finished
/// completion it is still one.
pub fn search_grammar(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    match fleetdex_search::parse(text) {
        Ok(search) => {
            let printed = search.to_string();
            assert_eq!(fleetdex_search::parse(&printed), Ok(search), "{text:?}");
            complete_everywhere(text);
        }
        Err(error) => assert!(text.get(error.span.clone()).is_some(), "{text:?}: {error}"),
    }
    drop(fleetdex_search::complete(text, text.len() / 2, &Echo));
}

fn complete_everywhere(text: &str) {
    for cursor in (0..=text.len()).step_by(1 + text.len() / 64) {
        let offered = fleetdex_search::complete(text, cursor, &Echo);
        for item in offered.items.iter().filter(|item| item.is_finished) {
            let mut completed = text.to_owned();
            completed.replace_range(offered.replace.clone(), &item.text);
            assert!(
                fleetdex_search::parse(&completed).is_ok(),
                "{text:?} at {cursor}: {completed:?}"
            );
        }
    }
}
