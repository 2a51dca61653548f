//! Judges the fields of a status, or of a part of it: status words, booleans, errors and counters.

use fleetdex_core::model::JsonTree;

use super::evidence::{Basis, EvidenceSet, Indication};
use super::tone::{tokens, tone};
use super::words::{self, Classes};
use crate::value::{Tree, TreeObject, as_integer, list, text};

/// The ends of the names of fields that hold one word about the object.
const WORD_FIELDS: [&str; 6] = ["phase", "state", "status", "health", "stage", "compliant"];
const WORD_MEMBERS: [&str; 4] = ["state", "phase", "status", "health"];
const ERROR_FIELDS: [&str; 11] = [
    "error",
    "errors",
    "errMsg",
    "errorMessage",
    "errorReason",
    "failureMessage",
    "failureReason",
    "lastError",
    "lastErrors",
    // Of a VolumeAttachment.
    "attachError",
    "detachError",
];
const COUNTER_PREFIXES: [&str; 3] = ["ready", "available", "updated"];
const SCHEDULED_COUNTERS: [&str; 3] = ["numberReady", "numberAvailable", "updatedNumberScheduled"];
/// The ends of the names of fields such as `statusReplicas: 1/3`.
const FRACTION_FIELDS: [&str; 3] = ["ready", "replicas", "available"];

#[derive(Clone, Copy)]
pub(super) struct Fields<'v> {
    /// The status or a map in it.
    pub(super) map: TreeObject<'v>,
    /// The spec, whose numbers the counters of the status should reach.
    pub(super) spec: Option<TreeObject<'v>>,
    /// Whether the object's kind runs once and ends.
    pub(super) runs_to_completion: bool,
}

#[derive(Debug, Default)]
pub(super) struct Reading<'v> {
    pub(super) evidence: EvidenceSet<'v>,
    /// The first status word that is not understood.
    pub(super) not_understood: Option<Basis<'v>>,
}

impl<'v> Fields<'v> {
    /// Judges a field by its name, and takes down what it says.
    pub(super) fn judge(&self, name: &'v str, value: Tree<'v>, reading: &mut Reading<'v>) {
        match value {
            JsonTree::String(word) if is_word_field(name) => self.word(name, word, reading),
            JsonTree::String(fraction) => judge_fraction(name, fraction, &mut reading.evidence),
            JsonTree::Object(map) if is_word_field(name) => {
                for member in WORD_MEMBERS {
                    if let Some(JsonTree::String(word)) = map.get(member) {
                        self.word(name, word, reading);
                    }
                }
            }
            JsonTree::Bool(value) => judge_boolean(name, *value, &mut reading.evidence),
            JsonTree::Number(_) => self.counter(name, value, &mut reading.evidence),
            _ => {}
        }
    }

    fn word(&self, field: &'v str, word: &'v str, reading: &mut Reading<'v>) {
        let word = word.trim();
        if word.is_empty() {
            return;
        }
        let basis = Basis::Text { field, text: word };
        match self.indication(word) {
            Some(indication) => reading.evidence.add(indication, basis),
            None => {
                reading.not_understood.get_or_insert(basis);
            }
        }
    }

    fn indication(&self, word: &str) -> Option<Indication> {
        let said = tone(word);
        if said.has(Classes::PAUSED) {
            return Some(Indication::Suspended);
        }
        if said.has(Classes::BAD | Classes::ABSENT) {
            return Some(Indication::Degraded);
        }
        let runs = self.runs_to_completion && word.eq_ignore_ascii_case("running");
        if said.has(Classes::UNFINISHED) || runs {
            return Some(Indication::Progressing);
        }
        said.has(Classes::GOOD).then_some(Indication::Healthy)
    }

    fn counter(&self, field: &'v str, value: Tree<'_>, evidence: &mut EvidenceSet<'v>) {
        if let Some(count) = as_integer(value)
            && let Some(of) = self.target(field)
        {
            compare(field, count, of, evidence);
        }
    }

    /// The number that a counter should reach.
    fn target(&self, field: &str) -> Option<i64> {
        if SCHEDULED_COUNTERS.contains(&field) {
            return number(Some(self.map), "desiredNumberScheduled");
        }
        let noun = COUNTER_PREFIXES
            .iter()
            .find_map(|prefix| field.strip_prefix(prefix))
            .filter(|noun| noun.starts_with(|first: char| first.is_ascii_uppercase()))?;
        let plain = noun[..1].to_ascii_lowercase() + &noun[1..];
        number(self.spec, &plain)
            .or_else(|| number(Some(self.map), &format!("desired{noun}")))
            .or_else(|| number(Some(self.map), &format!("expected{noun}")))
            .or_else(|| number(Some(self.map), &plain))
    }
}

/// Judges a field that tells of an error, if it does.
pub(super) fn judge_error<'v>(field: &'v str, value: Tree<'v>, evidence: &mut EvidenceSet<'v>) {
    if !ERROR_FIELDS.contains(&field) {
        return;
    }
    let is_present = match value {
        JsonTree::String(text) => !text.is_empty(),
        JsonTree::Array(items) => !items.is_empty(),
        JsonTree::Object(map) => !map.is_empty(),
        JsonTree::Number(_) => as_integer(value) != Some(0),
        // A boolean with such a name is judged as one.
        JsonTree::Bool(_) | JsonTree::Null => false,
    };
    if is_present {
        evidence.add(
            Indication::Degraded,
            Basis::Text {
                field,
                text: error_text(value).unwrap_or(field),
            },
        );
    }
}

/// The text of an error, or of the first of a list.
fn error_text(error: Tree<'_>) -> Option<&str> {
    let error = list(error, &[]).first().unwrap_or(error);
    let message = text(error, &["message"]);
    error
        .as_str()
        .or(Some(message))
        .filter(|text| !text.is_empty())
}

fn judge_boolean<'v>(field: &'v str, value: bool, evidence: &mut EvidenceSet<'v>) {
    let indication = match (field, value) {
        ("healthy" | "ready" | "readyToUse", true) => Indication::Healthy,
        ("healthy", false) => Indication::Degraded,
        ("ready" | "readyToUse", false) => Indication::Progressing,
        (_, true) if names_problem(field) => Indication::Degraded,
        _ => return,
    };
    evidence.add(indication, Basis::Flag { field, value });
}

/// Whether a boolean is trouble when it is true.
fn names_problem(field: &str) -> bool {
    tokens(field).enumerate().any(|(place, token)| {
        let classes = words::classes(token);
        classes.has(Classes::PROBLEM) || place == 0 && classes.has(Classes::NEGATION)
    })
}

/// Judges texts such as `1/3`.
fn judge_fraction<'v>(field: &'v str, fraction: &str, evidence: &mut EvidenceSet<'v>) {
    let counts = FRACTION_FIELDS
        .iter()
        .any(|end| words::ends_with(field, end));
    if counts
        && let Some((count, of)) = fraction.split_once('/')
        && let (Ok(count), Ok(of)) = (count.trim().parse(), of.trim().parse())
    {
        compare(field, count, of, evidence);
    }
}

fn compare<'v>(field: &'v str, count: i64, of: i64, evidence: &mut EvidenceSet<'v>) {
    let indication = if count < of {
        Indication::Progressing
    } else {
        Indication::Healthy
    };
    evidence.add(indication, Basis::Count { field, count, of });
}

fn is_word_field(name: &str) -> bool {
    WORD_FIELDS.iter().any(|end| words::ends_with(name, end))
}

fn number(map: Option<TreeObject<'_>>, field: &str) -> Option<i64> {
    as_integer(map?.get(field)?)
}
