//! What queries see of an index revision: all of it or, while it is filled for the first time, the
//! resources that are complete.

use std::collections::BTreeSet;

use fleetdex_core::query::ResourceName;

/// What queries see of a revision.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VisibleResources {
    /// Everything.
    All,
    /// The documents of these resources, which may be none.
    Only(BTreeSet<ResourceName>),
}

impl VisibleResources {
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
