//! Health of kinds of which nothing is known, by the words and numbers that authors of operators
//! use.
//!
//! ```text
//!  generic ─┬─> pause
//!           ├─> nested ─┬─> condition ─┐
//!           └───────────┴─> field ─────┴─> evidence, tone ─> words
//! ```
//!
//! Guarantee: a pure, total function without a clock; the same object always has the same health.
//! It reads a bounded part of an object: so many bytes of a message, so many levels, fields and
//! conditions.
//!
//! The rule goes beyond kstatus
//! (<https://github.com/kubernetes-sigs/cli-utils/tree/master/pkg/kstatus>), which knows only
//! generations and the conditions Ready, Reconciling and Stalled. `examples/agreement.rs` measures
//! it on Argo CD's health tests.

use fleetdex_core::model::JsonTree;

use self::evidence::{Basis, Evidence, Indication};
use self::field::{Fields, Reading};
use self::nested::Nested;
use self::tone::tone;
use self::words::Classes;
use super::{Assessment, Health, KnownStatus};
use crate::value::{self, Tree, TreeObject, integer, list, map, observed_generation, text};

mod condition;
mod evidence;
mod field;
mod nested;
mod pause;
#[cfg(test)]
mod tests;
mod tone;
mod words;

/// Texts of a status that are read if nothing else in it says anything.
const PROSE: [&str; 3] = ["reason", "message", "description"];

/// Fields of a status after these are not read.
const MAX_FIELDS: usize = 500;

/// The health of an object of any kind.
pub fn assess(object: Tree<'_>, of_kind: KnownStatus) -> Assessment {
    if !text(object, &["metadata", "deletionTimestamp"]).is_empty() {
        return Assessment::progressing("Deleting", "pending deletion");
    }
    if let Some(field) = pause::find(object) {
        return Assessment::new(Health::Suspended, field, &format!("paused by {field}"));
    }
    let Some(status) = written_status(object) else {
        return without_status(text(object, &["kind"]), of_kind);
    };
    let generation = integer(object, &["metadata", "generation"]);
    let observed = observed_generation(object);
    if let (Some(observed), Some(generation)) = (observed, generation)
        && observed < generation
        && !is_not_ready(object, generation)
    {
        return Assessment::progressing(
            "observedGeneration",
            &format!("the status is about generation {observed}, not {generation}"),
        );
    }
    by_status(object, status, generation)
}

/// Whether the condition Ready says of this generation that it is not ready.
///
/// Controllers on <https://github.com/fluxcd/pkg/tree/main/runtime> note a generation as observed
/// when they are through with it. While they fail and try again, only conditions are about it.
fn is_not_ready(object: Tree<'_>, generation: i64) -> bool {
    value::condition(object, "Ready").is_some_and(|ready| {
        text(ready, &["status"]) != "True"
            && integer(ready, &["observedGeneration"]) == Some(generation)
    })
}

/// Whether a status has nothing but empty values.
fn is_blank(status: TreeObject<'_>) -> bool {
    status.values().all(|value| match value {
        JsonTree::Null => true,
        JsonTree::String(text) => text.is_empty(),
        JsonTree::Array(items) => items.is_empty(),
        JsonTree::Object(map) => map.is_empty(),
        JsonTree::Bool(_) | JsonTree::Number(_) => false,
    })
}

/// The status of an object, if there is anything in it.
pub fn written_status(object: Tree<'_>) -> Option<TreeObject<'_>> {
    map(object, &["status"]).filter(|status| !is_blank(status))
}

fn without_status(kind: &str, of_kind: KnownStatus) -> Assessment {
    let plain = Assessment::plain(Health::Healthy);
    if words::is_status_never_written(kind) {
        return plain;
    }
    match of_kind {
        KnownStatus::Absent => plain,
        KnownStatus::Unknown if words::has_no_status(kind) => plain,
        KnownStatus::NeverWritten => Assessment::new(
            Health::Healthy,
            "NoController",
            "no object of this kind has ever had a status in this cluster",
        ),
        KnownStatus::Unknown | KnownStatus::Written => {
            Assessment::progressing("NoStatus", "the status is not written yet")
        }
    }
}

fn by_status(object: Tree<'_>, status: TreeObject<'_>, generation: Option<i64>) -> Assessment {
    let fields = Fields {
        map: status,
        spec: map(object, &["spec"]),
        runs_to_completion: words::runs_to_completion(text(object, &["kind"])),
    };
    let top = at_top(object, fields, generation);
    let winner = top.evidence.winner();
    if let Some(evidence) = winner.filter(|evidence| is_final(*evidence)) {
        return evidence.assessment();
    }
    let nested = Nested::below(fields, generation);
    let evidence = match winner {
        None => nested.winner(),
        Some(_) => nested.degraded().or(winner),
    };
    match (evidence, top.not_understood) {
        (Some(evidence), _) => evidence.assessment(),
        (None, Some(word)) => Assessment::new(Health::Unknown, &word.reason(), &word.message()),
        (None, None) => by_prose(status, nested.has_empty_conditions),
    }
}

/// Whether nothing further down changes what the evidence says.
fn is_final(evidence: Evidence<'_>) -> bool {
    !matches!(
        evidence.indication,
        Indication::Progressing | Indication::Healthy
    )
}

/// The evidence in the conditions and fields of the status itself.
fn at_top<'v>(object: Tree<'v>, fields: Fields<'v>, generation: Option<i64>) -> Reading<'v> {
    let conditions = list(object, &["status", "conditions"]);
    let mut reading = Reading {
        evidence: condition::judge(conditions, generation).evidence,
        not_understood: None,
    };
    for (name, value) in fields.map.iter().take(MAX_FIELDS) {
        fields.judge(name, value, &mut reading);
        field::judge_error(name, value, &mut reading.evidence);
    }
    reading
}

/// The health by the texts of a status without any evidence.
fn by_prose(status: TreeObject<'_>, has_empty_conditions: bool) -> Assessment {
    for (health, classes) in [
        (Health::Degraded, Classes::BAD),
        (Health::Progressing, Classes::UNFINISHED),
    ] {
        for field in PROSE {
            if let Some(JsonTree::String(text)) = status.get(field)
                && tone(text).has(classes)
            {
                let basis = Basis::Text { field, text };
                return Assessment::new(health, &basis.reason(), &basis.message());
            }
        }
    }
    if has_empty_conditions {
        return Assessment::progressing("NoConditions", "the conditions are not written yet");
    }
    Assessment::plain(Health::Healthy)
}
