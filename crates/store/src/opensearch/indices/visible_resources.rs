//! What queries see of an index: all of it or, while it is filled for the first time, the resources
//! that are complete. The read aliases carry this as their filter, so that everyone who queries
//! through them sees the same: this process, other replicas, and people.

use std::collections::BTreeSet;

use fleetdex_core::{model::index_fields, query::ResourceName};
use serde_json::Value;

/// What an alias shows of an index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum VisibleResources {
    /// Everything.
    All,
    /// The documents of these resources, which may be none.
    Only(BTreeSet<ResourceName>),
}

impl VisibleResources {
    /// What an alias shows, by its configuration; nothing if there is no such alias, or with a
    /// foreign filter.
    pub(crate) fn of(alias: Option<&Value>) -> Self {
        let Some(configuration) = alias else {
            return Self::Only(BTreeSet::new());
        };
        match configuration.get("filter") {
            None | Some(Value::Null) => Self::All,
            Some(filter) => Self::Only(read(filter).unwrap_or_default()),
        }
    }

    /// Whether everything is visible, or else which resources are.
    pub(crate) fn parts(self) -> (bool, BTreeSet<ResourceName>) {
        match self {
            Self::All => (true, BTreeSet::new()),
            Self::Only(resources) => (false, resources),
        }
    }

    /// How many clauses of a query select them.
    pub(crate) fn clauses(&self) -> usize {
        match self {
            Self::All => 0,
            Self::Only(resources) => {
                let groups: BTreeSet<&str> =
                    resources.iter().map(|resource| &*resource.group).collect();
                2 * groups.len().max(1)
            }
        }
    }

    /// What both show.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, part) | (part, Self::All) => part,
            (Self::Only(left), Self::Only(right)) => {
                Self::Only(left.intersection(&right).cloned().collect())
            }
        }
    }

    /// What either shows.
    pub(crate) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Only(left), Self::Only(right)) => {
                Self::Only(left.union(&right).cloned().collect())
            }
        }
    }
}

/// The resources of the filter that [`resources_clause`](crate::opensearch::dsl::resources_clause)
/// has made.
fn read(filter: &Value) -> Option<BTreeSet<ResourceName>> {
    let mut resources = BTreeSet::new();
    for of_group in filter["bool"]["should"].as_array()? {
        let clauses = &of_group["bool"]["filter"];
        let group = clauses[0]["term"][index_fields::GROUP].as_str()?;
        for plural in clauses[1]["terms"][index_fields::RESOURCE].as_array()? {
            resources.insert(ResourceName::new(group, plural.as_str()?));
        }
    }
    Some(resources)
}

#[cfg(test)]
mod tests {
    use crate::opensearch::dsl::resources_clause;
    use serde_json::json;

    use super::*;

    fn resources(names: &[(&str, &str)]) -> BTreeSet<ResourceName> {
        names
            .iter()
            .map(|(group, plural)| ResourceName::new(group, plural))
            .collect()
    }

    #[test]
    fn a_filter_reads_back_as_what_it_was_made_of() {
        for names in [
            &[][..],
            &[("", "pods")],
            &[("", "pods"), ("", "nodes"), ("apps", "deployments")],
        ] {
            let expected = resources(names);
            assert_eq!(
                VisibleResources::of(Some(&json!({ "filter": resources_clause(&expected) }))),
                VisibleResources::Only(expected)
            );
        }
        assert_eq!(
            VisibleResources::of(Some(&json!({}))),
            VisibleResources::All
        );
        assert_eq!(
            VisibleResources::of(None),
            VisibleResources::Only(BTreeSet::new())
        );
        assert_eq!(
            VisibleResources::of(Some(&json!({ "filter": { "match_all": {} } }))),
            VisibleResources::Only(BTreeSet::new())
        );
    }

    #[test]
    fn queries_see_what_both_aliases_show() {
        let (pods, both) = (
            resources(&[("", "pods")]),
            resources(&[("", "pods"), ("", "nodes")]),
        );
        assert_eq!(
            VisibleResources::Only(pods.clone()).and(VisibleResources::Only(both)),
            VisibleResources::Only(pods.clone())
        );
        assert_eq!(
            VisibleResources::All.and(VisibleResources::Only(pods.clone())),
            VisibleResources::Only(pods)
        );
        assert_eq!(
            VisibleResources::All.and(VisibleResources::All),
            VisibleResources::All
        );
    }

    #[test]
    fn an_alias_never_shows_less_than_before() {
        let (pods, nodes, both) = (
            resources(&[("", "pods")]),
            resources(&[("", "nodes")]),
            resources(&[("", "pods"), ("", "nodes")]),
        );
        assert_eq!(
            VisibleResources::Only(pods.clone()).or(VisibleResources::Only(nodes)),
            VisibleResources::Only(both)
        );
        assert_eq!(
            VisibleResources::All.or(VisibleResources::Only(pods.clone())),
            VisibleResources::All
        );
        assert_eq!(
            VisibleResources::Only(pods).or(VisibleResources::All),
            VisibleResources::All
        );
    }
}
