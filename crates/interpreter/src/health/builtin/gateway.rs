//! Kinds of the Gateway API. Their conditions are of a generation; stale ones do not count.
//!
//! Source: Argo CD, `resource_customizations/gateway.networking.k8s.io`.

use std::collections::BTreeSet;

use super::condition::{self, find, has_status, is_stale};
use crate::{
    health::{Assessment, Health},
    value::{Tree, Trees, at, list, text},
};

const GROUPS: &[&str] = &["gateway.networking.k8s.io", "gateway.networking.x-k8s.io"];

/// The health of an object of the Gateway API, or of a policy of another group that is attached to
/// it; `None` for other objects.
pub fn assess(group: &str, kind: &str, object: Tree<'_>) -> Option<Assessment> {
    let is_gateway_api = GROUPS.contains(&group);
    let is_attached = at(object, &["status", "ancestors"]).as_array().is_some();
    match kind {
        _ if kind.ends_with("Policy") && (is_gateway_api || is_attached) => Some(policy(object)),
        _ if !is_gateway_api => None,
        "GatewayClass" => Some(gateway_class(object)),
        "Gateway" | "ListenerSet" | "XListenerSet" => Some(gateway(object)),
        _ if kind.ends_with("Route") => Some(route(object)),
        _ => None,
    }
}

fn gateway_class(object: Tree<'_>) -> Assessment {
    let fresh = fresh(object, list(object, &["status", "conditions"]));
    let Some(accepted) = find(fresh, "Accepted") else {
        return waiting();
    };
    match text(accepted, &["status"]) {
        "True" => Assessment::new(Health::Healthy, "", text(accepted, &["message"])),
        "False" => condition::assess(Health::Degraded, accepted),
        _ => condition::assess(Health::Progressing, accepted),
    }
}

fn gateway(object: Tree<'_>) -> Assessment {
    let conditions = fresh(object, list(object, &["status", "conditions"]));
    let listeners = list(object, &["status", "listeners"]);
    let is_stale = conditions.is_empty() && !list(object, &["status", "conditions"]).is_empty();
    if let Some(problem) = bad_condition(&conditions) {
        return problem.assess("");
    }
    let mut has_conditions = !conditions.is_empty();
    let mut problems = Vec::new();
    for listener in listeners {
        let conditions = fresh(object, list(listener, &["conditions"]));
        has_conditions |= !conditions.is_empty();
        problems.extend(bad_condition(&conditions).map(|problem| (listener, problem)));
    }
    match worst(problems) {
        _ if is_stale || !has_conditions => waiting(),
        Some((listener, problem)) => {
            problem.assess(&format!("listener {:?}: ", text(listener, &["name"])))
        }
        None => Assessment::plain(Health::Healthy),
    }
}

/// A route is as healthy as its worst parent.
fn route(object: Tree<'_>) -> Assessment {
    let mut has_parent = false;
    let mut problems = Vec::new();
    for parent in list(object, &["status", "parents"]) {
        let conditions = fresh(object, list(parent, &["conditions"]));
        has_parent |= !conditions.is_empty();
        problems.extend(bad_condition(&conditions).map(|problem| (parent, problem)));
    }
    match worst(problems) {
        Some((parent, problem)) => {
            let name = text(parent, &["parentRef", "name"]);
            problem.assess(&format!("parent {name:?}: "))
        }
        None if has_parent => Assessment::plain(Health::Healthy),
        None => waiting(),
    }
}

fn worst<'v>(problems: Vec<(Tree<'v>, BadCondition<'v>)>) -> Option<(Tree<'v>, BadCondition<'v>)> {
    // Of equals, the first one in the list.
    problems
        .into_iter()
        .rev()
        .max_by_key(|(_, problem)| problem.health)
}

/// A policy says for each ancestor, for example a Gateway, whether it holds there.
fn policy(object: Tree<'_>) -> Assessment {
    let ancestors = list(object, &["status", "ancestors"]);
    let late = ancestors.iter().find(|ancestor| {
        list(*ancestor, &["conditions"])
            .iter()
            .any(|found| is_stale(object, found))
    });
    if let Some(late) = late {
        let message = format!("waiting for ancestor {:?}", ancestor_name(late));
        return Assessment::progressing("GenerationNotObserved", &message);
    }
    // The controllers that have accepted the policy. Each controller in a cluster writes about each
    // policy; one that does not know the target is not responsible, unless no other one is.
    let accepting: BTreeSet<&str> = ancestors
        .iter()
        .filter(|ancestor| accepted(ancestor).is_some_and(|found| has_status(found, "True")))
        .map(controller)
        .collect();
    let is_responsible = |ancestor: &Tree<'_>| {
        let is_unknown =
            accepted(ancestor).is_some_and(|found| text(found, &["reason"]) == "TargetNotFound");
        !is_unknown || accepting.is_empty() || accepting.contains(controller(ancestor))
    };
    let refusal = ancestors
        .iter()
        .filter(is_responsible)
        .find_map(|ancestor| Some((ancestor, refusal(ancestor)?)));
    match refusal {
        Some((ancestor, problem)) => {
            problem.assess(&format!("ancestor {:?}: ", ancestor_name(ancestor)))
        }
        None if accepting.is_empty() => waiting(),
        None => Assessment::plain(Health::Healthy),
    }
}

fn ancestor_name(ancestor: Tree<'_>) -> &str {
    text(ancestor, &["ancestorRef", "name"])
}

fn refusal(ancestor: Tree<'_>) -> Option<BadCondition<'_>> {
    let conditions = list(ancestor, &["conditions"]);
    ["Accepted", "ResolvedRefs"]
        .into_iter()
        .filter_map(|kind| find(conditions, kind))
        .find(|found| !has_status(found, "True"))
        .map(|condition| BadCondition {
            health: Health::Degraded,
            condition,
        })
}

fn accepted(ancestor: Tree<'_>) -> Option<Tree<'_>> {
    find(list(ancestor, &["conditions"]), "Accepted")
}

fn controller(ancestor: Tree<'_>) -> &str {
    text(ancestor, &["controllerName"])
}

/// The conditions of one list that are of the object's generation.
fn fresh<'v>(object: Tree<'_>, conditions: Trees<'v>) -> Vec<Tree<'v>> {
    let conditions = conditions.iter();
    conditions
        .filter(|found| !is_stale(object, found))
        .collect()
}

/// A condition that is not as it should be.
struct BadCondition<'v> {
    health: Health,
    condition: Tree<'v>,
}

fn bad_condition<'v>(conditions: &[Tree<'v>]) -> Option<BadCondition<'v>> {
    let find = |kind| find(conditions.iter().copied(), kind);
    let with = |kind, status| find(kind).filter(|found| has_status(found, status));
    let unprogrammed = find("Programmed").filter(|found| !has_status(found, "True"));
    let failed = with("ResolvedRefs", "False")
        .or_else(|| with("Accepted", "False"))
        .or_else(|| with("Conflicted", "True"))
        .or(unprogrammed.filter(|found| is_final(found)));
    let bad = |health| move |condition| BadCondition { health, condition };
    failed
        .map(bad(Health::Degraded))
        .or_else(|| unprogrammed.map(bad(Health::Progressing)))
}

/// Whether `Programmed` is False for a reason that does not pass by itself.
fn is_final(unprogrammed: Tree<'_>) -> bool {
    has_status(unprogrammed, "False")
        && matches!(
            text(unprogrammed, &["reason"]),
            "Invalid" | "NoResources" | "AddressNotUsable"
        )
}

impl BadCondition<'_> {
    fn assess(&self, place: &str) -> Assessment {
        let [kind, status, message] =
            ["type", "status", "message"].map(|field| text(self.condition, &[field]));
        let message = match message {
            "" => format!("{place}{kind} is {status}"),
            message => format!("{place}{message}"),
        };
        Assessment::new(self.health, &condition::reason(self.condition), &message)
    }
}

fn waiting() -> Assessment {
    let message = "no controller has reported a status for this generation yet";
    Assessment::progressing("WaitingForController", message)
}
