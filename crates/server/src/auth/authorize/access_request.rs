//! The objects that a request asks for.

use std::collections::BTreeSet;

use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::ResourceName,
};
use fleetdex_query_api::rbac_attributes::Attributes;

use super::namespaces::MAX_NAMESPACES;
use crate::{
    api_error::ApiError,
    auth::{access_review::forbidden, caller::Caller},
};

/// Clusters that a warning names.
const MAX_NAMED: usize = 5;

/// The objects that a request asks for.
#[derive(Clone, Debug)]
pub struct AccessRequest<'r> {
    /// `list`, `get` or `watch`.
    pub verb: &'r str,
    /// Group and plural.
    pub resource: &'r ResourceName,
    /// Version of the group, from the request.
    pub version: &'r str,
    /// Whether the resource is namespaced.
    pub namespaced: bool,
    /// The requested name, if there is one.
    pub name: Option<&'r str>,
    /// The requested namespaces; empty: all.
    pub namespaces: &'r [Namespace],
    /// The requested clusters that hold the resource and that the caller can see.
    pub clusters: &'r [ClusterName],
    /// Whether to restrict the query to these clusters, because the caller cannot see all of them.
    pub only_these_clusters: bool,
    /// Whether the response warns of requested namespaces that it omits.
    pub warns_of_namespaces: bool,
}

impl AccessRequest<'_> {
    /// The refusal of all of it. It names the namespace if only one was requested.
    pub(super) fn forbidden(&self, caller: &Caller, reason: &str) -> ApiError {
        let only = self
            .namespaces
            .first()
            .filter(|_| self.namespaces.len() == 1);
        forbidden(&self.attributes(only), caller, reason).into()
    }

    pub(super) fn attributes(&self, namespace: Option<&Namespace>) -> Attributes {
        Attributes::of_objects(self.verb, self.resource, self.version, namespace, self.name)
    }

    /// The warning about clusters that are omitted because of their many namespaces.
    pub(super) fn omitted_clusters_warning(&self, omitted: &BTreeSet<ClusterName>) -> String {
        let plural = &self.resource.plural;
        let named = omitted.iter().take(MAX_NAMED).map(ClusterName::as_str);
        let mut named = named.collect::<Vec<_>>().join(", ");
        let more = omitted.len().saturating_sub(MAX_NAMED);
        if more > 0 {
            named = format!("{named} and {more} more");
        }
        format!(
            "left out: {named}, because you may not {} {plural} in all namespaces, and more than {MAX_NAMESPACES} hold some; name those that you want \
             with the parameter namespaces",
            self.verb
        )
    }

    /// The warning about requested namespaces that are not among the permitted ones.
    pub(super) fn omitted_namespaces_warning(&self, permitted: &[Namespace]) -> Option<String> {
        let omitted = self
            .namespaces
            .iter()
            .filter(|name| !permitted.contains(name));
        let omitted: Vec<&str> = omitted.map(Namespace::as_str).collect();
        if omitted.is_empty() || !self.warns_of_namespaces {
            return None;
        }
        Some(format!(
            "you may not {} {} in {}: left out",
            self.verb,
            self.resource.plural,
            omitted.join(", ")
        ))
    }
}
