//! What queries see of an index revision: all of it or, while it is filled for the first time, the
//! resources that are complete.

use std::collections::BTreeSet;

use fleetdex_core::query::ResourceName;

/// What queries see of a revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompleteResources {
    /// Everything.
    All,
    /// The documents of these resources, which may be none.
    Only(BTreeSet<ResourceName>),
}

impl CompleteResources {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn resources(names: &[(&str, &str)]) -> BTreeSet<ResourceName> {
        names
            .iter()
            .map(|(group, plural)| ResourceName::new(group, plural))
            .collect()
    }

    #[test]
    fn queries_see_what_both_aliases_show() {
        let (pods, both) = (
            resources(&[("", "pods")]),
            resources(&[("", "pods"), ("", "nodes")]),
        );
        assert_eq!(
            CompleteResources::Only(pods.clone()).and(CompleteResources::Only(both)),
            CompleteResources::Only(pods.clone())
        );
        assert_eq!(
            CompleteResources::All.and(CompleteResources::Only(pods.clone())),
            CompleteResources::Only(pods)
        );
        assert_eq!(
            CompleteResources::All.and(CompleteResources::All),
            CompleteResources::All
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
            CompleteResources::Only(pods.clone()).or(CompleteResources::Only(nodes)),
            CompleteResources::Only(both)
        );
        assert_eq!(
            CompleteResources::All.or(CompleteResources::Only(pods.clone())),
            CompleteResources::All
        );
        assert_eq!(
            CompleteResources::Only(pods).or(CompleteResources::All),
            CompleteResources::All
        );
    }
}
