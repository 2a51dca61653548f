//! Permissions: which documents of a store a caller may see.

use std::collections::BTreeSet;

use crate::model::{ClusterName, Namespace};

/// The objects of a resource that the caller may see. It is part of the query, so that pages and
/// counts contain nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Permitted {
    /// Every object.
    #[default]
    Everything,
    /// The objects that at least one of these grants covers; no object without a grant.
    Only(Vec<Grant>),
}

/// Some namespaces of some clusters. An object without a namespace is covered only by a grant for
/// all namespaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// These clusters; `None`: all.
    pub clusters: Option<Vec<ClusterName>>,
    /// These namespaces; `None`: all, and objects that have none.
    pub namespaces: Option<Vec<Namespace>>,
}

/// The objects of one cluster that a caller may see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InCluster<'p> {
    /// Everything.
    Everything,
    /// The objects of these namespaces, of which there is at least one.
    Namespaces(BTreeSet<&'p str>),
    /// Nothing.
    Nothing,
}

impl Permitted {
    /// Whether an object may be seen. The namespace is empty where it has none.
    pub fn allows(&self, cluster: &str, namespace: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(grants) => grants.iter().any(|grant| grant.covers(cluster, namespace)),
        }
    }

    /// The objects of a cluster that may be seen.
    pub fn in_cluster(&self, cluster: &ClusterName) -> InCluster<'_> {
        let Self::Only(grants) = self else {
            return InCluster::Everything;
        };
        let mut together = BTreeSet::new();
        for grant in grants
            .iter()
            .filter(|grant| grant.covers_cluster(cluster.as_str()))
        {
            match &grant.namespaces {
                None => return InCluster::Everything,
                Some(namespaces) => together.extend(namespaces.iter().map(Namespace::as_str)),
            }
        }
        if together.is_empty() {
            InCluster::Nothing
        } else {
            InCluster::Namespaces(together)
        }
    }

    /// The requested clusters (empty: all) of which any object may be seen; `None`: all clusters.
    pub fn clusters(&self, requested: &[ClusterName]) -> Option<Vec<ClusterName>> {
        let of_requested = || Some(requested.to_vec()).filter(|names| !names.is_empty());
        let Self::Only(grants) = self else {
            return of_requested();
        };
        let mut named = BTreeSet::new();
        for grant in grants.iter().filter(|grant| !grant.is_empty()) {
            let Some(clusters) = &grant.clusters else {
                return of_requested();
            };
            named.extend(
                clusters
                    .iter()
                    .filter(|name| requested.is_empty() || requested.contains(name))
                    .cloned(),
            );
        }
        Some(named.into_iter().collect())
    }

    /// The part of the permission that some grants cover, too.
    #[must_use]
    pub fn within(&self, area: &[Grant]) -> Self {
        match self {
            Self::Everything => Self::Only(area.to_vec()),
            Self::Only(grants) => {
                let both = grants
                    .iter()
                    .flat_map(|grant| area.iter().map(|other| grant.and(other)));
                Self::Only(both.filter(|grant| !grant.is_empty()).collect())
            }
        }
    }

    /// A text that is the same for permissions that differ only in the order of their parts.
    pub fn canonical(&self) -> String {
        let Self::Only(grants) = self else {
            return "everything".to_owned();
        };
        let mut texts: Vec<String> = grants.iter().map(Grant::canonical).collect();
        texts.sort_unstable();
        texts.join(";")
    }
}

impl Grant {
    /// Some namespaces in all clusters.
    pub fn of_namespaces(namespaces: Vec<Namespace>) -> Self {
        Self {
            clusters: None,
            namespaces: Some(namespaces),
        }
    }

    /// Whether it covers nothing, because a list of it is empty.
    pub fn is_empty(&self) -> bool {
        self.clusters.as_ref().is_some_and(Vec::is_empty)
            || self.namespaces.as_ref().is_some_and(Vec::is_empty)
    }

    /// The grant for what both grants cover.
    fn and(&self, other: &Self) -> Self {
        fn common<T: Clone + PartialEq>(
            left: Option<&Vec<T>>,
            right: Option<&Vec<T>>,
        ) -> Option<Vec<T>> {
            match (left, right) {
                (Some(left), Some(right)) => Some(
                    left.iter()
                        .filter(|name| right.contains(name))
                        .cloned()
                        .collect(),
                ),
                (some, other) => some.or(other).cloned(),
            }
        }
        Self {
            clusters: common(self.clusters.as_ref(), other.clusters.as_ref()),
            namespaces: common(self.namespaces.as_ref(), other.namespaces.as_ref()),
        }
    }

    fn covers(&self, cluster: &str, namespace: &str) -> bool {
        let covers_namespace =
            |names: &Vec<Namespace>| names.iter().any(|name| name.as_str() == namespace);
        self.covers_cluster(cluster) && self.namespaces.as_ref().is_none_or(covers_namespace)
    }

    fn covers_cluster(&self, cluster: &str) -> bool {
        self.clusters
            .as_ref()
            .is_none_or(|names| names.iter().any(|name| name.as_str() == cluster))
    }

    fn canonical(&self) -> String {
        let sorted = |mut names: Vec<&str>| {
            names.sort_unstable();
            names.dedup();
            names.join(",")
        };
        let clusters = self
            .clusters
            .as_ref()
            .map(|names| sorted(names.iter().map(ClusterName::as_str).collect()));
        let namespaces = self
            .namespaces
            .as_ref()
            .map(|names| sorted(names.iter().map(Namespace::as_str).collect()));
        // No name holds an asterisk.
        format!(
            "{} {}",
            clusters.as_deref().unwrap_or("*"),
            namespaces.as_deref().unwrap_or("*")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str) -> ClusterName {
        name.parse().unwrap()
    }

    fn grant(clusters: Option<&[&str]>, namespaces: Option<&[&str]>) -> Grant {
        Grant {
            clusters: clusters
                .map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
            namespaces: namespaces
                .map(|names| names.iter().map(|name| name.parse().unwrap()).collect()),
        }
    }

    #[test]
    fn a_grant_of_namespaces_covers_no_object_without_one() {
        let web = Permitted::Only(vec![Grant::of_namespaces(vec!["web".parse().unwrap()])]);
        assert!(web.allows("a", "web") && !web.allows("a", "db") && !web.allows("a", ""));
        assert!(Permitted::Everything.allows("a", ""));
        assert!(!Permitted::Only(Vec::new()).allows("a", "web"));
    }

    #[test]
    fn grants_add_up_for_each_cluster() {
        let permitted = Permitted::Only(vec![
            grant(Some(&["a", "b"]), Some(&["web"])),
            grant(Some(&["b"]), Some(&["db"])),
            grant(Some(&["c"]), None),
            grant(Some(&["d"]), Some(&[])),
        ]);
        assert_eq!(
            permitted.in_cluster(&cluster("a")),
            InCluster::Namespaces(["web"].into())
        );
        assert_eq!(
            permitted.in_cluster(&cluster("b")),
            InCluster::Namespaces(["db", "web"].into())
        );
        assert_eq!(permitted.in_cluster(&cluster("c")), InCluster::Everything);
        assert_eq!(permitted.in_cluster(&cluster("d")), InCluster::Nothing);
        assert_eq!(permitted.in_cluster(&cluster("e")), InCluster::Nothing);
    }

    #[test]
    fn clusters_without_a_visible_object_are_left_out() {
        let names = |clusters: Option<Vec<ClusterName>>| {
            clusters.map(|names| {
                names
                    .iter()
                    .map(ClusterName::as_str)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        let some = Permitted::Only(vec![
            grant(Some(&["c", "a"]), Some(&["web"])),
            grant(Some(&["b", "a"]), None),
            grant(Some(&["d"]), Some(&[])),
            grant(Some(&[]), None),
        ]);
        assert_eq!(names(some.clusters(&[])).as_deref(), Some("a b c"));
        assert_eq!(
            names(some.clusters(&[cluster("d"), cluster("b")])).as_deref(),
            Some("b")
        );
        assert_eq!(names(some.clusters(&[cluster("d")])).as_deref(), Some(""));
        assert_eq!(
            names(Permitted::Only(Vec::new()).clusters(&[])).as_deref(),
            Some("")
        );
        for all in [
            Permitted::Everything,
            Permitted::Only(vec![Grant::of_namespaces(vec!["web".parse().unwrap()])]),
        ] {
            assert_eq!(all.clusters(&[]), None);
            assert_eq!(names(all.clusters(&[cluster("d")])).as_deref(), Some("d"));
        }
    }

    #[test]
    fn a_part_of_a_permission_covers_what_both_cover() {
        let permissions = [
            Permitted::Everything,
            Permitted::Only(vec![
                grant(Some(&["a", "b"]), Some(&["web"])),
                grant(Some(&["c"]), None),
            ]),
            Permitted::Only(Vec::new()),
        ];
        let areas = [
            vec![grant(Some(&["a", "c"]), None)],
            vec![
                grant(Some(&["a"]), Some(&["web", "db"])),
                grant(None, Some(&["x"])),
            ],
        ];
        for (permitted, area) in permissions
            .iter()
            .flat_map(|permitted| areas.iter().map(move |area| (permitted, area)))
        {
            let part = permitted.within(area);
            for (cluster, namespace) in ["a", "b", "c"]
                .into_iter()
                .flat_map(|name| ["web", "db", "x", ""].map(|namespace| (name, namespace)))
            {
                let both = permitted.allows(cluster, namespace)
                    && Permitted::Only(area.clone()).allows(cluster, namespace);
                assert_eq!(
                    part.allows(cluster, namespace),
                    both,
                    "{permitted:?} within {area:?}: {cluster} {namespace:?}"
                );
            }
        }
    }

    #[test]
    fn the_canonical_text_ignores_order_and_nothing_else() {
        let text = |grants: Vec<Grant>| Permitted::Only(grants).canonical();
        let (one, two) = (
            grant(Some(&["a", "b"]), None),
            grant(None, Some(&["web", "db"])),
        );
        assert_eq!(
            text(vec![one.clone(), two.clone()]),
            text(vec![two.clone(), grant(Some(&["b", "a"]), None)])
        );
        let others = [
            Permitted::Everything.canonical(),
            text(Vec::new()),
            text(vec![one.clone()]),
            text(vec![two]),
            text(vec![grant(None, None)]),
            text(vec![grant(Some(&[]), None)]),
        ];
        let different: BTreeSet<&String> = others.iter().collect();
        assert_eq!(different.len(), others.len(), "{others:?}");
    }
}
