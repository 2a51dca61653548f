//! What rules of RBAC let a user list and query.
//!
//! A rule that cannot be expressed as a filter of documents grants nothing here. Source of the
//! matching: `pkg/apis/rbac/v1/evaluation_helpers.go` of
//! <https://github.com/kubernetes/kubernetes>.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;

/// The API group of the query API.
const QUERY_GROUP: &str = "search.fleetdex.io";
/// Matches everything in a rule.
const ANY: &str = "*";

/// Names that a rule matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RuleNames {
    /// Exactly these.
    Only(BTreeSet<String>),
    /// All, present and future.
    Any,
}

/// Resources that a user may list: each of the groups with each of the plurals.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListedResources {
    pub(super) groups: RuleNames,
    pub(super) plurals: RuleNames,
}

/// What a user may ask the query API: `search` in these API groups, and about these clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct QueryRights {
    pub(super) groups: RuleNames,
    pub(super) clusters: RuleNames,
}

impl Default for RuleNames {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl RuleNames {
    /// Values are put into queries and configurations of the security plugin, which replaces
    /// variables in them: names that look like one are left out.
    fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let mut only = BTreeSet::new();
        for name in names {
            if name == ANY {
                return Self::Any;
            }
            if !name.contains("${") {
                only.insert(name.to_owned());
            }
        }
        Self::Only(only)
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Self::Only(names) if names.is_empty())
    }

    pub(super) fn add(&mut self, other: &Self) {
        match (&mut *self, other) {
            (Self::Only(names), Self::Only(more)) => names.extend(more.iter().cloned()),
            _ => *self = Self::Any,
        }
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Only(_), Self::Any) => false,
            (Self::Only(names), Self::Only(others)) => names.is_superset(others),
        }
    }
}

impl QueryRights {
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() || self.clusters.is_empty()
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.groups.add(&other.groups);
        self.clusters.add(&other.clusters);
    }

    pub(super) fn contains(&self, other: &Self) -> bool {
        self.groups.contains(&other.groups) && self.clusters.contains(&other.clusters)
    }
}

/// The resources that a rule lets list. A rule with names of objects does not let list them: the
/// query API asks for the right to list all.
pub(super) fn listed(rule: &PolicyRule) -> Option<ListedResources> {
    let has_names = rule
        .resource_names
        .as_ref()
        .is_some_and(|names| !names.is_empty());
    if has_names || !has_verb(rule, "list") {
        return None;
    }
    let resources = texts(rule.resources.as_ref());
    let plurals = RuleNames::of(resources.filter(|resource| !resource.contains('/')));
    let groups = RuleNames::of(texts(rule.api_groups.as_ref()));
    let is_empty = plurals.is_empty() || groups.is_empty();
    (!is_empty).then_some(ListedResources { groups, plurals })
}

/// What a rule lets ask the query API: the groups `get` on `search/GROUP` allows, and the clusters
/// that `get` on `clusters` allows. The core group is `search/v1`.
pub(super) fn queried(rule: &PolicyRule) -> QueryRights {
    let mut groups = texts(rule.api_groups.as_ref());
    if !has_verb(rule, "get") || !groups.any(|group| group == QUERY_GROUP || group == ANY) {
        return QueryRights::default();
    }
    let mut rights = QueryRights::default();
    for resource in texts(rule.resources.as_ref()) {
        if matches!(resource, "clusters" | ANY) {
            rights.clusters.add(&named_clusters(rule));
        }
        rights.groups.add(&searched_groups(rule, resource));
    }
    rights
}

fn named_clusters(rule: &PolicyRule) -> RuleNames {
    let names: Vec<&str> = texts(rule.resource_names.as_ref()).collect();
    if names.is_empty() {
        return RuleNames::Any;
    }
    // In names of objects `*` is no wildcard.
    RuleNames::of(names.into_iter().filter(|name| *name != ANY))
}

/// The path below `search` begins with `api` or `apis`, which RBAC takes for a name.
fn searched_groups(rule: &PolicyRule, resource: &str) -> RuleNames {
    let allows = |path: &str| {
        let mut names = texts(rule.resource_names.as_ref()).peekable();
        names.peek().is_none() || names.any(|name| name == path)
    };
    if resource == ANY {
        let is_unnamed = texts(rule.resource_names.as_ref()).next().is_none();
        return if is_unnamed {
            RuleNames::Any
        } else {
            RuleNames::default()
        };
    }
    match resource.split_once('/') {
        Some(("search" | ANY, "v1")) if allows("api") => RuleNames::of([""]),
        Some(("search" | ANY, group)) if group != "v1" && group != ANY && allows("apis") => {
            RuleNames::of([group])
        }
        _ => RuleNames::default(),
    }
}

fn has_verb(rule: &PolicyRule, verb: &str) -> bool {
    rule.verbs
        .iter()
        .any(|allowed| allowed == verb || allowed == ANY)
}

fn texts(list: Option<&Vec<String>>) -> impl Iterator<Item = &str> {
    list.into_iter().flatten().map(String::as_str)
}
