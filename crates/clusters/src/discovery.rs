//! The resources that a member serves, parsed from its discovery responses.
//!
//! Two forms are supported:
//! [aggregated](https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery)
//! (`v2` and `v2beta1`: one response for all groups) and classic (one response per group and
//! version).

mod builder;
mod names;
mod reader;
mod wire;

use std::{collections::BTreeSet, sync::Arc};

use fleetdex_core::model::{Gvk, Resource, split_api_version};

pub(super) use self::names::{is_group, is_name};
pub use self::reader::{DiscoveryReader, parse_response};

/// Resources of a response, at most. API servers become slow with some thousand custom resources.
const MAX_RESOURCES: usize = 10_000;

/// The resources of one member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// All served resources in the member's order: the core group first, and the preferred version
    /// of a group first.
    pub served: Vec<ServedResource>,
    /// Group versions that the member lists but cannot serve, such as a broken aggregated API.
    /// Their resources are unknown, so their documents must not be deleted.
    pub unknown: BTreeSet<String>,
    /// Number of names that were left out, because Kubernetes does not allow them or there are too
    /// many.
    pub left_out: usize,
}

/// One resource that a member serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedResource {
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
    /// Verbs, categories and subresources.
    pub capabilities: Arc<ResourceCapabilities>,
}

/// What clients can do with a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceCapabilities {
    /// Verbs, as the member lists them.
    pub verbs: Vec<Arc<str>>,
    /// Categories that it belongs to, such as `all`.
    pub categories: Vec<Arc<str>>,
    /// Subresources of its objects.
    pub subresources: Vec<Subresource>,
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subresource {
    /// `status`, `scale`, …
    pub name: Arc<str>,
    /// The kind that is read and written.
    pub kind: Gvk,
    /// Verbs, as the member lists them.
    pub verbs: Vec<Arc<str>>,
}

impl Discovery {
    /// Joins the resources of `/api` (`core`) and `/apis` (`groups`), in this order.
    pub fn join(mut core: Self, groups: Self) -> Self {
        core.served.extend(groups.served);
        core.unknown.extend(groups.unknown);
        core.left_out += groups.left_out;
        core
    }

    /// A message if anything was left out.
    pub fn note(&self) -> Option<String> {
        let count = Some(self.left_out).filter(|count| *count > 0)?;
        Some(format!(
            "{count} names in its discovery are left out: Kubernetes does not allow them, or there are too many"
        ))
    }

    /// Adds the resources of group versions that are unknown now but were known in `previous`, so
    /// that a short outage of an aggregated API stops no stream.
    #[must_use]
    pub fn retaining_unknown_of(mut self, previous: &Self) -> Self {
        let answered: BTreeSet<String> = self
            .served
            .iter()
            .map(ServedResource::group_version)
            .collect();
        let lost = |served: &&ServedResource| {
            let group_version = served.group_version();
            self.unknown.contains(&group_version) && !answered.contains(&group_version)
        };
        // Limited like responses: otherwise a member whose groups fail one after the other would
        // have ever more resources.
        let room = (2 * MAX_RESOURCES).saturating_sub(self.served.len());
        let retained: Vec<ServedResource> = previous
            .served
            .iter()
            .filter(lost)
            .take(room)
            .cloned()
            .collect();
        self.served.extend(retained);
        self
    }
}

impl ServedResource {
    /// Its group and version, such as `apps/v1` or `v1`.
    pub fn group_version(&self) -> String {
        self.resource.gvk.api_version()
    }
}

/// A response to `GET /api` or `GET /apis`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryResponse {
    /// All resources.
    Aggregated(Discovery),
    /// Only group versions, whose resources have to be requested one by one. The reader counts what
    /// was left out.
    Classic(Vec<GroupVersion>),
}

/// A group version in a classic response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupVersion {
    /// `v1`, `apps/v1`.
    pub name: String,
    /// Whether it is the group's preferred version.
    pub preferred: bool,
}

impl GroupVersion {
    /// The group, empty for the core group, and the version.
    fn group_and_version(&self) -> (&str, &str) {
        split_api_version(&self.name)
    }

    /// The path of its resource list.
    pub fn path(&self) -> String {
        let root = if self.name.contains('/') {
            "apis"
        } else {
            "api"
        };
        format!("/{root}/{}", self.name)
    }
}

#[cfg(test)]
mod tests;
