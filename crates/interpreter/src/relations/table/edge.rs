//! The form of the table.

use crate::relations::reference::{NamespaceRule, Target};

/// The edges of some kinds.
pub(super) struct KindEdges {
    /// The groups, in any version; empty for the core group, `*` for any.
    pub(super) groups: &'static [&'static str],
    /// The kinds; none: all kinds of the groups.
    pub(super) kinds: &'static [&'static str],
    pub(super) edges: &'static [Edge],
}

impl KindEdges {
    pub(super) fn covers(&self, group: &str, kind: &str) -> bool {
        (self.groups.contains(&"*") || self.groups.contains(&group))
            && (self.kinds.is_empty() || self.kinds.contains(&kind))
    }
}

/// A place in an object that names other objects, and what these are.
pub(super) struct Edge {
    pub(super) place: EdgePlace,
    pub(super) target: Target,
}

/// Where an object names another one.
#[derive(Clone, Copy, Debug)]
pub(super) enum EdgePlace {
    /// At a path; `[]` stands for every item.
    Path(&'static str),
    /// At a path; if there is nothing, the name is that of the object itself.
    PathOrName(&'static str),
    /// The name is that of the object itself.
    Name,
    /// In a label.
    Label(&'static str),
    /// In an annotation.
    Annotation(&'static str),
}

impl Edge {
    /// An edge to a kind of a group. A reference that names group, kind or namespace leads there.
    pub(super) const fn new(
        place: EdgePlace,
        relation: &'static str,
        group: &'static str,
        kind: &'static str,
    ) -> Self {
        let target = Target {
            group,
            kind,
            namespace: NamespaceRule::GivenOrOwn,
            relation,
        };
        Self { place, target }
    }

    /// The edge, leading to the namespace that is at these members of the referring object.
    pub(super) const fn in_namespace_at(mut self, path: &'static [&'static str]) -> Self {
        self.target.namespace = NamespaceRule::At(path);
        self
    }

    /// The edge, leading to a namespace only if the reference names one.
    pub(super) const fn given(mut self) -> Self {
        self.target.namespace = NamespaceRule::Given;
        self
    }
}

/// Groups, their kinds, and their edges: a place (a text is a path), the relation, and the group
/// and the kind of the target, or `given` for [`Edge::given`] and any target. `in` is for
/// [`Edge::in_namespace_at`].
macro_rules! kind_edges {
    (@edge $path:literal, $relation:literal, given) => {
        Edge::new(EdgePlace::Path($path), $relation, "", "").given()
    };
    (@edge $path:literal, $relation:literal, $group:expr, $kind:literal, in $namespace:expr) => {
        Edge::new(EdgePlace::Path($path), $relation, $group, $kind).in_namespace_at($namespace)
    };
    (@edge $path:literal, $($target:expr),+) => {
        Edge::new(EdgePlace::Path($path), $($target),+)
    };
    (@edge $place:ident $(($name:literal))?, $($target:expr),+) => {
        Edge::new(EdgePlace::$place $(($name))?, $($target),+)
    };
    ($($($group:expr),+ => [$($kind:literal),*] { $(($($edge:tt)+))+ })+) => {
        &[$(KindEdges {
            groups: &[$($group),+],
            kinds: &[$($kind),*],
            edges: &[$(kind_edges!(@edge $($edge)+)),+],
        }),+]
    };
}
pub(super) use kind_edges;
