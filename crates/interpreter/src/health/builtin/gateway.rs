//! Kinds of the Gateway API. Their conditions are of a generation; stale ones do not count.
//!
//! Source: Argo CD, `resource_customizations/gateway.networking.k8s.io`.

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
    let Some(accepted) = fresh.find("Accepted") else {
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
    if let Some(problem) = conditions.bad_condition() {
        return problem.assess("");
    }
    let mut has_conditions = !conditions.is_empty();
    let mut problems = Vec::new();
    for listener in listeners {
        let conditions = fresh(object, list(listener, &["conditions"]));
        has_conditions |= !conditions.is_empty();
        problems.extend(
            conditions
                .bad_condition()
                .map(|problem| (listener, problem)),
        );
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
        problems.extend(conditions.bad_condition().map(|problem| (parent, problem)));
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
        return Assessment::new(Health::Progressing, "GenerationNotObserved", &message);
    }
    let responsible = Responsible::of(ancestors);
    let refusal = ancestors
        .iter()
        .filter(|ancestor| !responsible.excludes(ancestor))
        .find_map(|ancestor| Some((ancestor, refusal(ancestor)?)));
    match refusal {
        Some((ancestor, problem)) => {
            problem.assess(&format!("ancestor {:?}: ", ancestor_name(ancestor)))
        }
        None if responsible.controllers.is_empty() => waiting(),
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

/// The controllers that have accepted a policy. Each controller in a cluster writes about each
/// policy; one that does not know the target is not responsible, unless no other one is.
struct Responsible<'v> {
    controllers: std::collections::BTreeSet<&'v str>,
}

impl<'v> Responsible<'v> {
    fn of(ancestors: Trees<'v>) -> Self {
        let accepts = |ancestor: &Tree<'_>| {
            find(list(ancestor, &["conditions"]), "Accepted")
                .is_some_and(|accepted| has_status(accepted, "True"))
        };
        let accepting = ancestors.iter().filter(accepts);
        Self {
            controllers: accepting.map(controller).collect(),
        }
    }

    fn excludes(&self, ancestor: Tree<'_>) -> bool {
        let is_unknown = find(list(ancestor, &["conditions"]), "Accepted")
            .is_some_and(|accepted| text(accepted, &["reason"]) == "TargetNotFound");
        is_unknown
            && !self.controllers.is_empty()
            && !self.controllers.contains(controller(ancestor))
    }
}

fn controller(ancestor: Tree<'_>) -> &str {
    text(ancestor, &["controllerName"])
}

/// The conditions of one list that are of the object's generation.
struct Fresh<'v>(Vec<Tree<'v>>);

fn fresh<'v>(object: Tree<'_>, conditions: Trees<'v>) -> Fresh<'v> {
    Fresh(
        conditions
            .iter()
            .filter(|found| !is_stale(object, found))
            .collect(),
    )
}

/// A condition that is not as it should be.
struct BadCondition<'v> {
    health: Health,
    condition: Tree<'v>,
}

impl<'v> Fresh<'v> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, kind: &str) -> Option<Tree<'v>> {
        self.0
            .iter()
            .copied()
            .find(|found| text(*found, &["type"]) == kind)
    }

    fn find_with(&self, kind: &str, status: &str) -> Option<Tree<'v>> {
        self.find(kind).filter(|found| has_status(found, status))
    }

    fn bad_condition(&self) -> Option<BadCondition<'v>> {
        let unprogrammed = self
            .find("Programmed")
            .filter(|found| !has_status(found, "True"));
        let failed = self
            .find_with("ResolvedRefs", "False")
            .or_else(|| self.find_with("Accepted", "False"))
            .or_else(|| self.find_with("Conflicted", "True"))
            .or(unprogrammed.filter(|found| is_final(found)));
        let bad = |health| move |condition| BadCondition { health, condition };
        failed
            .map(bad(Health::Degraded))
            .or_else(|| unprogrammed.map(bad(Health::Progressing)))
    }
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
    Assessment::new(Health::Progressing, "WaitingForController", message)
}
