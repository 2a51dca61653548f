//! What members report, and the object with the status made of it.

use serde_json::{Map, Value};

use crate::{
    native::{
        counters::{GENERATION, OBSERVED_GENERATION, RESOURCE_TEMPLATE_GENERATION, StatusCounter},
        edit::set,
    },
    request::AggregatedStatusItem,
    value::{at, integer, text},
};

/// How many clusters a message names.
pub const MAX_NAMED_CLUSTERS: usize = 20;

/// The status that a member reports; `None` if it reports none, or something that is no status.
pub fn status_of(item: &AggregatedStatusItem) -> Option<&Value> {
    item.status.as_ref().filter(|status| status.is_object())
}

/// The members that report a status, and what they report.
pub fn reported(items: &[AggregatedStatusItem]) -> impl Iterator<Item = (&str, &Value)> {
    items
        .iter()
        .filter_map(|item| Some((item.cluster_name.as_str(), status_of(item)?)))
}

/// The generation of the object that all members have observed: its present one, or else the one
/// of before.
pub fn observed_generation(object: &Value, items: &[AggregatedStatusItem]) -> i64 {
    let generation = integer(object, &["metadata", "generation"]).unwrap_or_default();
    if items.iter().all(|item| has_observed(item, generation)) {
        generation
    } else {
        OBSERVED_GENERATION.read(at(object, &["status"]))
    }
}

/// Whether a member's controller has seen the member's object, and the object was made of the
/// template's present generation.
///
/// Karmada compares other numbers for a `StatefulSet`, which never agree; here it has the rule of
/// the other workloads.
fn has_observed(item: &AggregatedStatusItem, template_generation: i64) -> bool {
    status_of(item).is_some_and(|status| {
        OBSERVED_GENERATION.read(status) >= GENERATION.read(status)
            && RESOURCE_TEMPLATE_GENERATION.read(status) >= template_generation
    })
}

/// The sum of a counter.
pub fn sum(counter: StatusCounter, items: &[AggregatedStatusItem]) -> i64 {
    reported(items)
        .map(|(_, status)| counter.read(status))
        .fold(0, i64::saturating_add)
}

/// A status with the sums of some counters.
pub fn sums(
    counters: impl Iterator<Item = StatusCounter>,
    items: &[AggregatedStatusItem],
) -> Map<String, Value> {
    let mut status = Map::new();
    for counter in counters {
        counter.write(&mut status, sum(counter, items));
    }
    status
}

/// The object with another status.
pub fn with_status(object: &Value, status: Value) -> Value {
    let mut changed = object.clone();
    if at(object, &["status"]) != &status {
        set(&mut changed, &["status"], status);
    }
    changed
}

/// The latest of the times of a name.
///
/// API servers write these times in UTC and with whole seconds, so that the texts are ordered as
/// the times are.
pub fn latest_time<'v>(values: impl Iterator<Item = &'v Value>, name: &str) -> Option<&'v str> {
    times(values, name).max()
}

/// The times of a name that values have.
pub fn times<'v>(
    values: impl Iterator<Item = &'v Value>,
    name: &str,
) -> impl Iterator<Item = &'v str> {
    values
        .map(move |value| text(value, &[name]))
        .filter(|time| !time.is_empty())
}
