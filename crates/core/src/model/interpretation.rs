//! What an object means: its health, replicas, images and dependencies, as documents hold it.
//!
//! Interpreters are another crate. This is what they hand to the [`Projector`](super::Projector),
//! and the fields that selectors name it by.

use std::{borrow::Cow, fmt, sync::LazyLock};

use serde::Deserialize;

use super::{
    FieldPath, FieldType, JsonTree, MemberMask, SelectableField,
    index_fields::members,
    json::{RawMembers, write, write_key, write_text_member},
};

/// Interprets the objects of one kind.
pub trait Interpret: fmt::Debug + Send + Sync {
    /// The members that the rules read.
    fn reads(&self) -> &MemberMask;

    /// What an object means. It is as it is stored, without redacted values, and has at least the
    /// members that the rules read.
    fn interpret(&self, object: &JsonTree<'_>) -> Interpretation;
}

/// What an object means.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interpretation {
    /// `Healthy`, `Progressing`, `Degraded`, `Suspended`, `Missing` or `Unknown`; empty if the
    /// object has no health.
    pub health: &'static str,
    /// A word for the cause; empty if there is none.
    pub health_reason: String,
    /// A sentence about the cause; empty if there is none.
    pub health_message: String,
    /// The number of replicas that it declares.
    pub desired_replicas: Option<i64>,
    /// The number of replicas that are ready.
    pub ready_replicas: Option<i64>,
    /// The cores that all of its replicas request.
    pub cpu: Option<f64>,
    /// The bytes of memory that all of its replicas request.
    pub memory: Option<i64>,
    /// The images of its pod templates, each in the spellings that it is found by.
    pub images: Vec<String>,
    /// The objects that it refers to, each as `apiVersion/kind/namespace/name`.
    pub dependencies: Vec<String>,
    /// The rules that said so: `built-in`, or the names of customizations and webhooks.
    pub interpreted_by: Vec<String>,
}

/// The words of health.
const WORDS: [&str; 6] = [
    "Healthy",
    "Suspended",
    "Progressing",
    "Missing",
    "Degraded",
    "Unknown",
];

/// The key of the message among the terms of the embedded store. No selector names it.
pub const HEALTH_MESSAGE: &str = "health message";

/// The field of the objects that an object refers to.
pub const DEPENDS_ON: &str = "dependsOn";

/// Hands over values of an interpretation.
type InterpretedValues = for<'i> fn(&'i Interpretation, &mut dyn FnMut(Cow<'i, str>));

/// The paths that selectors name, each with the values that it reads.
static FIELDS: [(&str, InterpretedValues); 9] = [
    ("health", |found, each| text(found.health, each)),
    ("healthReason", |found, each| {
        text(&found.health_reason, each);
    }),
    ("interpretedBy", |found, each| {
        texts(&found.interpreted_by, each);
    }),
    ("image", |found, each| texts(&found.images, each)),
    (DEPENDS_ON, |found, each| texts(&found.dependencies, each)),
    ("replicas.desired", |found, each| {
        number(found.desired_replicas, each);
    }),
    ("replicas.ready", |found, each| {
        number(found.ready_replicas, each);
    }),
    ("resources.cpu", |found, each| number(found.cpu, each)),
    ("resources.memory", |found, each| number(found.memory, each)),
];

static SELECTABLE: LazyLock<Vec<SelectableField>> = LazyLock::new(|| {
    let selectable = |(path, _): &(&str, InterpretedValues)| SelectableField {
        path: FieldPath::new(path),
        sources: Vec::new(),
        kind: FieldType::Optional,
    };
    FIELDS.iter().map(selectable).collect()
});

/// The fields that selectors name an interpretation by. No path of an object is their source.
pub fn interpreted_fields() -> &'static [SelectableField] {
    &SELECTABLE
}

/// Whether a path is that of an interpreted field.
pub fn is_interpreted_field(path: &str) -> bool {
    FIELDS.iter().any(|(known, _)| *known == path)
}

/// A word of health; empty if the text is none.
fn word(text: &str) -> &'static str {
    WORDS
        .into_iter()
        .find(|word| *word == text)
        .unwrap_or_default()
}

fn text<'i>(value: &'i str, each: &mut dyn FnMut(Cow<'i, str>)) {
    if !value.is_empty() {
        each(Cow::Borrowed(value));
    }
}

fn texts<'i>(values: &'i [String], each: &mut dyn FnMut(Cow<'i, str>)) {
    for value in values {
        each(Cow::Borrowed(value));
    }
}

fn number<'i>(value: Option<impl ToString>, each: &mut dyn FnMut(Cow<'i, str>)) {
    if let Some(value) = value {
        each(Cow::Owned(value.to_string()));
    }
}

/// Two numbers of a document's `search`.
#[derive(Default, Deserialize)]
struct StoredReplicas {
    desired: Option<i64>,
    ready: Option<i64>,
}

/// Two numbers of a document's `search`.
#[derive(Default, Deserialize)]
struct StoredResources {
    cpu: Option<f64>,
    memory: Option<i64>,
}

impl Interpretation {
    /// What a document's `search` holds; `None` if it holds no interpretation. A member that cannot
    /// be read is left out.
    pub(super) fn read(search: &RawMembers<'_>) -> Option<Self> {
        fn parsed<'a, T: Deserialize<'a>>(json: &'a str) -> Option<T> {
            serde_json::from_str(json).ok()
        }
        let mut found = Self::default();
        for (key, json) in &search.0 {
            match &*key.0 {
                members::HEALTH => {
                    found.health = word(&parsed::<Cow<'_, str>>(json).unwrap_or_default());
                }
                members::HEALTH_REASON => found.health_reason = parsed(json).unwrap_or_default(),
                members::HEALTH_MESSAGE => found.health_message = parsed(json).unwrap_or_default(),
                members::IMAGES => found.images = parsed(json).unwrap_or_default(),
                members::DEPENDENCIES => found.dependencies = parsed(json).unwrap_or_default(),
                members::INTERPRETED_BY => found.interpreted_by = parsed(json).unwrap_or_default(),
                members::REPLICAS => {
                    let StoredReplicas { desired, ready } = parsed(json).unwrap_or_default();
                    (found.desired_replicas, found.ready_replicas) = (desired, ready);
                }
                members::RESOURCES => {
                    let StoredResources { cpu, memory } = parsed(json).unwrap_or_default();
                    (found.cpu, found.memory) = (cpu, memory);
                }
                _ => {}
            }
        }
        (!found.interpreted_by.is_empty()).then_some(found)
    }

    /// What terms of the embedded store hold; `None` if they hold no interpretation.
    pub fn from_terms<'t>(terms: impl Iterator<Item = (&'t str, &'t str)>) -> Option<Self> {
        let mut found = Self::default();
        for (key, value) in terms {
            match key {
                "health" => found.health = word(value),
                "healthReason" => value.clone_into(&mut found.health_reason),
                HEALTH_MESSAGE => value.clone_into(&mut found.health_message),
                "image" => found.images.push(value.to_owned()),
                DEPENDS_ON => found.dependencies.push(value.to_owned()),
                "interpretedBy" => found.interpreted_by.push(value.to_owned()),
                "replicas.desired" => found.desired_replicas = value.parse().ok(),
                "replicas.ready" => found.ready_replicas = value.parse().ok(),
                "resources.cpu" => found.cpu = value.parse().ok(),
                "resources.memory" => found.memory = value.parse().ok(),
                _ => {}
            }
        }
        (!found.interpreted_by.is_empty()).then_some(found)
    }

    /// Hands over the values of [`interpreted_fields`] with their positions there, in this order.
    pub(super) fn for_each_value<'i>(&'i self, mut each: impl FnMut(usize, Cow<'i, str>)) {
        for (position, (_, values)) in FIELDS.iter().enumerate() {
            values(self, &mut |value| each(position, value));
        }
    }

    /// Writes the members of a document's `search` for people and dashboards. Selectors use the
    /// terms instead.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for (key, value) in [
            (members::HEALTH, self.health),
            (members::HEALTH_REASON, &self.health_reason),
            (members::HEALTH_MESSAGE, &self.health_message),
        ] {
            if !value.is_empty() {
                write_text_member(out, key, value);
            }
        }
        write_pair(
            out,
            members::REPLICAS,
            ("desired", self.desired_replicas),
            ("ready", self.ready_replicas),
        );
        write_pair(
            out,
            members::RESOURCES,
            ("cpu", self.cpu),
            ("memory", self.memory),
        );
        for (key, values) in [
            (members::IMAGES, &self.images),
            (members::DEPENDENCIES, &self.dependencies),
            (members::INTERPRETED_BY, &self.interpreted_by),
        ] {
            if !values.is_empty() {
                write_key(out, key);
                write(out, values);
            }
        }
    }
}

/// Writes `"key":{…}` with those of two numbers that there are; nothing if there are none.
fn write_pair(
    out: &mut Vec<u8>,
    key: &str,
    first: (&str, Option<impl serde::Serialize>),
    second: (&str, Option<impl serde::Serialize>),
) {
    if first.1.is_none() && second.1.is_none() {
        return;
    }
    write_key(out, key);
    out.push(b'{');
    if let (name, Some(value)) = first {
        write_key(out, name);
        write(out, &value);
    }
    if let (name, Some(value)) = second {
        write_key(out, name);
        write(out, &value);
    }
    out.push(b'}');
}
