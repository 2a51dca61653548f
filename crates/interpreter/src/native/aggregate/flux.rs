//! Objects of Flux: whether they are ready in all members, and what all members have.
//!
//! Karmada's rules, which are for one version of each kind, list the conditions of all members
//! beside each other, several of one type, and take revisions from the last member. Here there is
//! one condition `Ready`, as `kubectl wait` and `flux get` read it, and a revision is there if all
//! members have it.

use serde_json::{Map, Value, json};

use super::report::{
    MAX_NAMED_CLUSTERS, latest_time, observed_generation, reported, status_of, sums, with_status,
};
use crate::{
    native::{
        counters::{self, GENERATION, OBSERVED_GENERATION, RESOURCE_TEMPLATE_GENERATION},
        kind::NativeKind,
        reflect::FLUX_REVISIONS,
    },
    request::AggregatedStatusItem,
    value::{at, integer, list, text, text_or},
};

/// Bytes of what a member says of itself in the message, at most.
const LONGEST_CAUSE: usize = 256;

/// The object with the status of all members. It stays as it is while no member reports one.
pub fn aggregated(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    if reported(items).next().is_none() {
        return object.clone();
    }
    let mut status = sums(counters::of(NativeKind::Flux), items);
    OBSERVED_GENERATION.write(&mut status, observed_generation(object, items));
    // Static sources have no conditions in any member.
    if reported(items).any(|(_, status)| ready_of(status).is_some()) {
        status.insert("conditions".to_owned(), json!([ready(object, items)]));
    }
    add_common_revisions(&mut status, items);
    with_status(object, Value::Object(status))
}

/// Adds the revisions and the artifact that all members have. An artifact has further members that
/// differ, and a schema that wants all of them, so that it is the newest member's as it stands.
fn add_common_revisions(status: &mut Map<String, Value>, items: &[AggregatedStatusItem]) {
    for name in FLUX_REVISIONS {
        if let Some(revision) = common(items, &[name]) {
            status.insert(name.to_owned(), revision.into());
        }
    }
    if common(items, &["artifact", "revision"]).is_some() {
        let artifacts = reported(items).map(|(_, status)| at(status, &["artifact"]));
        let newest = artifacts.max_by_key(|artifact| text(*artifact, &["lastUpdateTime"]));
        status.insert("artifact".to_owned(), newest.cloned().unwrap_or_default());
    }
}

/// The text at a path that all members report.
fn common<'i>(items: &'i [AggregatedStatusItem], path: &[&str]) -> Option<&'i str> {
    let mut texts = items
        .iter()
        .map(|item| status_of(item).map_or("", |status| text(status, path)));
    let first = texts.next().filter(|first| !first.is_empty())?;
    texts.all(|other| other == first).then_some(first)
}

/// Whether a member's object is ready.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum ReadyState {
    Failed,
    Unknown,
    Ready,
}

/// What a member says about that.
struct MemberReady<'i> {
    cluster: &'i str,
    state: ReadyState,
    reason: &'i str,
    cause: &'i str,
}

impl<'i> MemberReady<'i> {
    fn of(item: &'i AggregatedStatusItem, generation: i64) -> Self {
        let unknown = |cause| Self {
            cluster: &item.cluster_name,
            state: ReadyState::Unknown,
            reason: "",
            cause,
        };
        let Some(status) = status_of(item) else {
            return match item.applied_message.as_str() {
                "" => unknown("no status is reported"),
                failure => unknown(failure),
            };
        };
        let Some(ready) = ready_of(status) else {
            return unknown("no condition Ready is reported");
        };
        if is_outdated(status, ready, generation) {
            return unknown("the last change is not observed yet");
        }
        Self {
            state: match text(ready, &["status"]) {
                "True" => ReadyState::Ready,
                "False" => ReadyState::Failed,
                _ => ReadyState::Unknown,
            },
            reason: text(ready, &["reason"]),
            ..unknown(text_or(ready, &["message"], "no cause is reported"))
        }
    }

    fn shown(&self) -> String {
        let cause = &self.cause[..self.cause.floor_char_boundary(LONGEST_CAUSE)];
        format!("; {}: {cause}", self.cluster)
    }
}

/// Whether a condition is about an older object than the member has, or the member has that of an
/// older template.
fn is_outdated(status: &Value, ready: &Value, generation: i64) -> bool {
    let observed = integer(ready, &["observedGeneration"])
        .or_else(|| integer(status, &[OBSERVED_GENERATION.name]));
    let made_of = integer(status, &[RESOURCE_TEMPLATE_GENERATION.name]);
    observed.is_some_and(|observed| observed < GENERATION.read(status))
        || made_of.is_some_and(|made_of| made_of < generation)
}

/// The condition of all members: that of the worst ones.
fn ready(object: &Value, items: &[AggregatedStatusItem]) -> Value {
    let generation = integer(object, &["metadata", "generation"]).unwrap_or_default();
    let members = items.iter();
    let mut members: Vec<MemberReady> = members
        .map(|item| MemberReady::of(item, generation))
        .collect();
    members.sort_by_key(|member| member.state);
    let worst = members.first().map(|member| member.state);
    let (status, usual_reason) = match worst {
        Some(ReadyState::Failed) => ("False", "ClustersNotReady"),
        Some(ReadyState::Ready) => ("True", "Succeeded"),
        Some(ReadyState::Unknown) | None => ("Unknown", "Progressing"),
    };
    let of_worst = members.iter().filter(|one| Some(one.state) == worst);
    let mut condition = json!({
        "type": "Ready",
        "status": status,
        "reason": common_reason(of_worst).unwrap_or(usual_reason),
        "message": message(&members),
        "observedGeneration": generation,
    });
    let conditions = reported(items).filter_map(|(_, status)| ready_of(status));
    let created = text(object, &["metadata", "creationTimestamp"]);
    // The schema wants a time.
    let time = latest_time(conditions, "lastTransitionTime").unwrap_or(created);
    if !time.is_empty() {
        condition["lastTransitionTime"] = time.into();
    }
    condition
}

/// The reason that all of these members have, if the schema of a condition allows it.
fn common_reason<'m, 'i: 'm>(
    mut members: impl Iterator<Item = &'m MemberReady<'i>>,
) -> Option<&'i str> {
    let first = members.next()?.reason;
    let is_allowed = first.starts_with(|first: char| first.is_ascii_alphabetic())
        && first.len() <= LONGEST_CAUSE
        && first.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let is_common = is_allowed && members.all(|other| other.reason == first);
    is_common.then_some(first)
}

/// How many clusters are ready, and why the others are not.
fn message(members: &[MemberReady]) -> String {
    let others = members.iter();
    let others: Vec<_> = others
        .filter(|member| member.state != ReadyState::Ready)
        .collect();
    let ready = members.len() - others.len();
    let mut message = format!("ready in {ready} of {} clusters", members.len());
    let named = others.iter().take(MAX_NAMED_CLUSTERS);
    message.extend(named.map(|member| member.shown()));
    let more = others.len().saturating_sub(MAX_NAMED_CLUSTERS);
    message.extend((more > 0).then(|| format!("; and {more} more")));
    message
}

fn ready_of(status: &Value) -> Option<&Value> {
    let mut conditions = list(status, &["conditions"]).iter();
    conditions.find(|condition| text(*condition, &["type"]) == "Ready")
}
