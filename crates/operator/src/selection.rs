//! Which resources of one member a selector matches, by what that member serves.

mod problem;

use std::collections::BTreeSet;

use fleetdex_clusters::discovery::{Discovery, ServedResource};
use fleetdex_core::model::{Resource, split_api_version};
use fleetdex_crds::registry::ResourceSelector;

pub use self::problem::Problem;

/// Groups that the API server serves itself, in the order in which a kind without `apiVersion` is
/// resolved.
const BUILT_IN: [&str; 24] = [
    "",
    "apps",
    "batch",
    "autoscaling",
    "policy",
    "networking.k8s.io",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "admissionregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "node.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storagemigration.k8s.io",
    "extensions",
];

/// Kinds that show the same objects as another group. A wildcard selects them once, from the group
/// in the last column; a selector that names the other group selects it all the same.
const SERVED_TWICE: [(&str, &str, &str); 6] = [
    ("events.k8s.io", "Event", ""),
    ("extensions", "Deployment", "apps"),
    ("extensions", "DaemonSet", "apps"),
    ("extensions", "ReplicaSet", "apps"),
    ("extensions", "Ingress", "networking.k8s.io"),
    ("extensions", "NetworkPolicy", "networking.k8s.io"),
];

/// Groups of metrics, which can never be watched: which kinds they have does not matter. A metrics
/// server that is down is too common to leave everything else uncertain.
const METRICS: [&str; 3] = [
    "metrics.k8s.io",
    "custom.metrics.k8s.io",
    "external.metrics.k8s.io",
];

/// The resources that a selector matches on one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The resources, without repetition.
    pub resources: Vec<Resource>,
    /// Why these are none, or perhaps not all.
    pub problem: Option<Problem>,
}

impl Selection {
    fn of(served: &ServedResource) -> Self {
        Self {
            resources: vec![served.resource.clone()],
            problem: None,
        }
    }

    fn failed(problem: Problem) -> Self {
        Self {
            resources: Vec::new(),
            problem: Some(problem),
        }
    }
}

/// Resolves a selector on a member.
pub fn resolve(selector: &ResourceSelector, discovery: &Discovery) -> Selection {
    let resolver = Resolver {
        selector,
        discovery,
    };
    match (selector.every_kind(), selector.api_version()) {
        (true, Some("*") | None) => resolver.everything(),
        (true, Some(api_version)) => resolver.every_kind_of(api_version),
        (false, Some(api_version)) => resolver.kind_of(api_version),
        (false, None) => resolver.kind_of_any_group(),
    }
}

struct Resolver<'a> {
    selector: &'a ResourceSelector,
    discovery: &'a Discovery,
}

impl<'a> Resolver<'a> {
    /// The version that the selector names, or else the group's preferred one. While a version of
    /// the group is unknown, so is the preferred one: a choice made now could change later, and
    /// each choice deletes the documents of the previous one.
    fn kind_of(&self, api_version: &str) -> Selection {
        let (group, version) = split_api_version(api_version);
        let of_group = || {
            self.served_as_kind()
                .filter(|served| served.resource.gvk.group.as_ref() == group)
        };
        let listable = || of_group().filter(|served| served.list_and_watch);
        if let Some(exact) = listable().find(|served| &*served.resource.gvk.version == version) {
            return Selection::of(exact);
        }
        let unanswered = self.unanswered(|other| split_api_version(other).0 == group);
        if !unanswered.is_empty() {
            return Selection::failed(self.incomplete(unanswered));
        }
        match best_version(listable()) {
            Some(served) => Selection::of(served),
            None if of_group().next().is_some() => Selection::failed(self.not_listable()),
            None => Selection::failed(self.unknown()),
        }
    }

    fn kind_of_any_group(&self) -> Selection {
        let listable = || self.served_as_kind().filter(|served| served.list_and_watch);
        let groups: BTreeSet<&str> = listable()
            .map(|served| served.resource.gvk.group.as_ref())
            .collect();
        let built_in = BUILT_IN
            .iter()
            .copied()
            .find(|group| groups.contains(group));
        let unanswered =
            self.unanswered(|other| could_come_before(split_api_version(other).0, built_in));
        let group = match (built_in, groups.len()) {
            (Some(group), _) => group,
            (None, 0) if !unanswered.is_empty() => {
                return Selection::failed(self.incomplete(unanswered));
            }
            (None, 0) if self.served_as_kind().next().is_some() => {
                return Selection::failed(self.not_listable());
            }
            (None, 0) => return Selection::failed(self.unknown()),
            (None, 1) => groups.first().copied().unwrap_or_default(),
            (None, _) => {
                let groups = groups.into_iter().map(str::to_owned).collect();
                return Selection::failed(Problem::Ambiguous {
                    kind: self.selector.kind.clone(),
                    groups,
                });
            }
        };
        if unanswered
            .iter()
            .any(|other| split_api_version(other).0 == group)
        {
            return self.in_known_version(group, unanswered);
        }
        let best = best_version(listable().filter(|served| &*served.resource.gvk.group == group));
        let problem = (!unanswered.is_empty()).then(|| self.incomplete(unanswered));
        Selection {
            resources: best
                .map(|served| served.resource.clone())
                .into_iter()
                .collect(),
            problem,
        }
    }

    /// The preferred version of a group of which not every version is known, if that one is.
    fn in_known_version(&self, group: &str, unanswered: Vec<String>) -> Selection {
        let of_group = |served: &&ServedResource| {
            served.list_and_watch && &*served.resource.gvk.group == group
        };
        let preferred = self
            .served_as_kind()
            .filter(of_group)
            .find(|served| served.preferred);
        let resources = preferred
            .map(|served| served.resource.clone())
            .into_iter()
            .collect();
        Selection {
            resources,
            problem: Some(self.incomplete(unanswered)),
        }
    }

    /// Every listable kind of a group version, or of the group's preferred version if the member
    /// does not serve this one.
    fn every_kind_of(&self, api_version: &str) -> Selection {
        let (group, version) = split_api_version(api_version);
        let of_group = || {
            self.discovery
                .served
                .iter()
                .filter(|served| &*served.resource.gvk.group == group)
        };
        let is_served = of_group().any(|served| &*served.resource.gvk.version == version);
        let unanswered = self.unanswered(|other| {
            if is_served {
                other == api_version
            } else {
                split_api_version(other).0 == group
            }
        });
        if !is_served && !unanswered.is_empty() {
            return Selection::failed(self.incomplete(unanswered));
        }
        let matching = of_group()
            .filter(|served| served.list_and_watch)
            .filter(|served| {
                if is_served {
                    &*served.resource.gvk.version == version
                } else {
                    served.preferred
                }
            });
        let resources = one_per_kind(matching);
        let problem = match (unanswered.is_empty(), resources.is_empty()) {
            (false, _) => Some(self.incomplete(unanswered)),
            (true, true) => Some(self.unknown()),
            (true, false) => None,
        };
        Selection { resources, problem }
    }

    /// Every listable kind once, in the group's preferred version where that has it.
    fn everything(&self) -> Selection {
        let listable = || {
            self.discovery
                .served
                .iter()
                .filter(|served| served.list_and_watch && !self.shown_elsewhere(served))
        };
        let preferred = listable().filter(|served| served.preferred);
        let others = listable().filter(|served| !served.preferred);
        let unanswered = self.unanswered(|other| !METRICS.contains(&split_api_version(other).0));
        let problem = (!unanswered.is_empty()).then(|| self.incomplete(unanswered));
        Selection {
            resources: one_per_kind(preferred.chain(others)),
            problem,
        }
    }

    fn shown_elsewhere(&self, served: &ServedResource) -> bool {
        let gvk = &served.resource.gvk;
        let Some((_, _, home)) = SERVED_TWICE
            .iter()
            .find(|(group, kind, _)| *group == &*gvk.group && *kind == &*gvk.kind)
        else {
            return false;
        };
        self.discovery.served.iter().any(|other| {
            other.list_and_watch
                && other.resource.gvk.group.as_ref() == *home
                && other.resource.gvk.kind == gvk.kind
        })
    }

    fn served_as_kind(&self) -> impl Iterator<Item = &'a ServedResource> {
        let kind = self.selector.kind.as_str();
        self.discovery
            .served
            .iter()
            .filter(move |served| &*served.resource.gvk.kind == kind)
    }

    fn unanswered(&self, is_relevant: impl Fn(&str) -> bool) -> Vec<String> {
        self.discovery
            .unknown
            .iter()
            .filter(|group| is_relevant(group))
            .cloned()
            .collect()
    }

    fn unknown(&self) -> Problem {
        Problem::UnknownKind {
            kind: self.selector.kind.clone(),
            api_version: self.selector.api_version.clone(),
        }
    }

    fn not_listable(&self) -> Problem {
        Problem::NotListable {
            kind: self.selector.kind.clone(),
            api_version: self.selector.api_version.clone(),
        }
    }

    fn incomplete(&self, groups: Vec<String>) -> Problem {
        Problem::Incomplete {
            kind: self.selector.kind.clone(),
            api_version: self.selector.api_version.clone(),
            groups,
        }
    }
}

/// Whether a kind without `apiVersion` could be that of `group`, whose discovery failed, although
/// this built-in group has it.
fn could_come_before(group: &str, built_in: Option<&str>) -> bool {
    let rank = |name: &str| BUILT_IN.iter().position(|known| *known == name);
    match built_in.and_then(rank) {
        Some(found) => rank(group).is_some_and(|rank| rank <= found),
        None => !METRICS.contains(&group),
    }
}

/// The group's preferred version, else the first one.
fn best_version<'a>(
    mut candidates: impl Iterator<Item = &'a ServedResource>,
) -> Option<&'a ServedResource> {
    let first = candidates.next()?;
    if first.preferred {
        return Some(first);
    }
    Some(candidates.find(|served| served.preferred).unwrap_or(first))
}

/// The first resource of each group and kind.
fn one_per_kind<'a>(candidates: impl Iterator<Item = &'a ServedResource>) -> Vec<Resource> {
    let mut seen = BTreeSet::new();
    candidates
        .map(|served| &served.resource)
        .filter(|resource| seen.insert((&resource.gvk.group, &resource.gvk.kind)))
        .cloned()
        .collect()
}

#[cfg(test)]
mod tests;
