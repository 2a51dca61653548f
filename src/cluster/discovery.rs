//! What a member serves.

use std::sync::Arc;

use crate::model::Resource;

/// The listable and watchable resources of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// Every served resource, in the member's order: core group first, preferred version of a group first.
    pub served: Vec<Served>,
    /// Groups (`group/version`) that the member lists but could not answer for, such as a broken aggregated API.
    /// What they hold is unknown, so nothing of theirs may be deleted.
    pub unknown: Vec<String>,
}

/// One resource that a member serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Group, version, kind, plural, namespaced.
    pub resource: Resource,
    /// Singular name, as kubectl accepts it.
    pub singular: Arc<str>,
    /// Short names, as kubectl accepts them.
    pub short_names: Vec<Arc<str>>,
    /// Whether it can be listed and watched.
    pub list_and_watch: bool,
    /// Whether this is the group's preferred version.
    pub preferred: bool,
}
