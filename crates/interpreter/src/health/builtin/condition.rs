//! Conditions, phases and generations, as most kinds have them.

use std::borrow::Cow;

use crate::{
    health::{Assessment, Health},
    value::{Tree, condition, integer, text},
};

/// The condition of a type in a list.
pub fn find<'v>(conditions: impl IntoIterator<Item = Tree<'v>>, kind: &str) -> Option<Tree<'v>> {
    let mut conditions = conditions.into_iter();
    conditions.find(|condition| text(*condition, &["type"]) == kind)
}

/// The condition of a type in `status.conditions`, if it has this status.
pub fn with_status<'v>(object: Tree<'v>, kind: &str, status: &str) -> Option<Tree<'v>> {
    condition(object, kind).filter(|condition| has_status(condition, status))
}

/// The first condition in `status.conditions` of one of the types, in their order, that is True.
pub fn first_true<'v>(object: Tree<'v>, kinds: &[&str]) -> Option<Tree<'v>> {
    kinds
        .iter()
        .find_map(|kind| with_status(object, kind, "True"))
}

/// Whether a condition has this status.
pub fn has_status(condition: Tree<'_>, status: &str) -> bool {
    text(condition, &["status"]) == status
}

/// The reason of a condition; if it has none, its type, or that it is not so: `NotReady`.
pub fn reason(condition: Tree<'_>) -> Cow<'_, str> {
    let kind = text(condition, &["type"]);
    match text(condition, &["reason"]) {
        "" if has_status(condition, "False") => format!("Not{kind}").into(),
        "" => kind.into(),
        reason => reason.into(),
    }
}

/// A count in `status`; zero if there is none.
pub fn count(object: Tree<'_>, field: &str) -> i64 {
    integer(object, &["status", field]).unwrap_or(0)
}

/// An assessment with the reason and message of a condition.
pub fn assess(health: Health, condition: Tree<'_>) -> Assessment {
    Assessment::new(health, &reason(condition), text(condition, &["message"]))
}

/// Progressing, if the controller has yet to observe the newest generation. A number that is absent
/// counts as zero.
pub fn generation_lag(object: Tree<'_>) -> Option<Assessment> {
    let generation = integer(object, &["metadata", "generation"]).unwrap_or(0);
    let observed = count(object, "observedGeneration");
    (generation > observed).then(|| {
        Assessment::progressing(
            "GenerationNotObserved",
            &format!("generation {generation} is not observed yet, but {observed}"),
        )
    })
}

/// Whether a condition was made for an older generation than the object's.
pub fn is_stale(object: Tree<'_>, condition: Tree<'_>) -> bool {
    let observed = integer(condition, &["observedGeneration"]);
    observed.is_some() && observed < integer(object, &["metadata", "generation"])
}

/// The assessment of an object whose status has no phase yet.
pub fn no_phase() -> Assessment {
    Assessment::progressing("NoStatus", "no phase is reported yet")
}

/// The assessment of a phase that no rule knows.
pub fn unknown_phase(phase: &str) -> Assessment {
    Assessment::new(
        Health::Unknown,
        "UnknownPhase",
        &format!("phase {phase:?} is not known"),
    )
}
