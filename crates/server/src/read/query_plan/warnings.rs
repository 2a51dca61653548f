//! Warnings about a result that may be incomplete or stale.

use std::collections::BTreeMap;

use fleetdex_core::{
    model::ClusterName,
    query::{Permitted, ResourceName},
};
use fleetdex_query_api::question::ListRequest;
use jiff::Timestamp;

use crate::catalog::{Catalog, ClusterNamespace, RegisteredResource, StoredResource};

/// Clusters that one warning names.
const MAX_NAMES: usize = 5;
/// Clusters in `metadata.asOf`.
const MAX_AS_OF: usize = 100;
/// Bytes of one warning: ten of them are a fifth of what clients take as headers. The messages of
/// members may be long.
const MAX_SENTENCE_BYTES: usize = 512;
/// Warnings in one response; further ones are only counted.
const MAX_WARNINGS: usize = 10;

/// Cuts a warning, so that a header has room for several.
pub(crate) fn truncated(mut sentence: String) -> String {
    if sentence.len() > MAX_SENTENCE_BYTES {
        sentence.truncate(sentence.floor_char_boundary(MAX_SENTENCE_BYTES));
        sentence.push_str(" ...");
    }
    sentence
}

/// Objects keep the `apiVersion` that their cluster serves: one warning for each version other than
/// the requested one.
fn other_versions(
    registered: &RegisteredResource,
    request: &ListRequest,
    stored: &StoredResource,
    is_included: impl Fn(&ClusterName) -> bool,
) -> Vec<String> {
    let asked = &request.resource.version;
    let mut sentences = Vec::new();
    let versions = stored.versions.iter();
    for (version, clusters) in versions.filter(|(version, _)| ***version != **asked) {
        let names = clusters.iter().filter(|name| is_included(name));
        let names: Vec<&str> = names.map(ClusterName::as_str).collect();
        let shown = names[..names.len().min(MAX_NAMES)].join(", ");
        let whose = match names.len() {
            0 => continue,
            1 => format!("cluster {shown}"),
            2..=MAX_NAMES => format!("clusters {shown}"),
            count => format!("clusters {shown} and {} more", count - MAX_NAMES),
        };
        sentences.push(format!(
            "{} of {whose} are in version {version}, not {asked}",
            registered.name
        ));
    }
    sentences
}

pub(super) fn as_of(
    catalog: &Catalog,
    resource: &ResourceName,
    stored: &StoredResource,
    is_included: impl Fn(&ClusterName) -> bool,
) -> BTreeMap<ClusterName, Timestamp> {
    let answering = stored.clusters.iter().filter(|name| is_included(name));
    let shown = |name| {
        let delayed = catalog.delayed_since(name, Some(resource));
        catalog.stale_since(name).into_iter().chain(delayed).min()
    };
    let stale = answering.filter_map(|name| Some((name.clone(), shown(name)?)));
    stale.take(MAX_AS_OF).collect()
}

pub(super) fn warnings(
    catalog: &Catalog,
    registered: &RegisteredResource,
    request: &ListRequest,
    stored: &StoredResource,
    permitted: &Permitted,
    is_included: impl Fn(&ClusterName) -> bool + Copy,
) -> Vec<String> {
    let mut warnings = if request.is_across_kinds {
        Vec::new()
    } else {
        other_versions(registered, request, stored, is_included)
    };
    let what = &registered.name;
    let named = request.clusters.iter();
    for name in named.filter(|name| !stored.clusters.contains(*name)) {
        warnings.push(format!(
            "no ResourceRegistry selects {what} of cluster {name}"
        ));
    }
    for name in stored.clusters.iter().filter(|name| is_included(name)) {
        if let Some(since) = catalog.stale(name) {
            warnings.push(truncated(format!("cluster {name} is {since}")));
        }
    }
    let concerns_caller = |(cluster, namespace): &ClusterNamespace| {
        is_included(cluster)
            && namespace.as_ref().is_none_or(|name| {
                let is_requested =
                    request.namespaces.is_empty() || request.namespaces.contains(name);
                is_requested && permitted.allows(cluster.as_str(), name.as_str())
            })
    };
    for (_, sentence) in catalog
        .gaps(what)
        .filter(|(place, _)| concerns_caller(place))
    {
        warnings.push(truncated(sentence.to_owned()));
    }
    for (name, why) in catalog.undiscovered() {
        if is_included(name) && !stored.clusters.contains(name) {
            warnings.push(truncated(format!(
                "whether cluster {name} has {what} is not known: it is {why}"
            )));
        }
    }
    bounded(warnings)
}

/// The first warnings, and how many more there are.
pub(crate) fn bounded(mut warnings: Vec<String>) -> Vec<String> {
    let surplus = warnings.len().saturating_sub(MAX_WARNINGS);
    if surplus > 0 {
        warnings.truncate(MAX_WARNINGS);
        warnings.push(format!("{surplus} more warnings of this kind are left out"));
    }
    warnings
}
