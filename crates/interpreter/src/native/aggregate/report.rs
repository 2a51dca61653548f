//! What members report, and the object with the status made of it.

use serde_json::{Map, Value};

use crate::{
    native::{counters::StatusCounter, edit::set},
    request::AggregatedStatusItem,
    value::{at, text},
};

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
