//! Refusals of requests for a resource, a version, a namespace or a cluster that no store holds.

use fleetdex_core::query::ResourceName;
use fleetdex_query_api::question::ListRequest;
use kube::core::Version;

use super::warnings::truncated;
use crate::{
    api_error::ApiError,
    catalog::{Catalog, RegisteredResource},
};

pub(super) fn not_selected(catalog: &Catalog, name: &ResourceName) -> ApiError {
    let registries: Vec<&str> = catalog.registries().collect();
    let message = if let Some((cluster, why)) = catalog.undiscovered().next() {
        truncated(format!(
            "{name} are not known yet: cluster {cluster}, which may have them, is {why}"
        ))
    } else if catalog.is_local {
        format!(
            "fleetdex local does not read {name}: start it with --resource {name}, and the others"
        )
    } else if catalog.is_restricted {
        format!("no ResourceRegistry selects {name} of a cluster that you may see")
    } else if registries.is_empty() {
        format!("no ResourceRegistry selects {name}: there is no ResourceRegistry yet; create one")
    } else {
        let registries = registries.join(", ");
        format!(
            "no ResourceRegistry selects {name}: add it to spec.resourceSelectors of one ({registries})"
        )
    };
    not_registered(name, message)
}

pub(super) fn not_registered(name: &ResourceName, message: String) -> ApiError {
    ApiError::NotRegistered {
        group: name.group.to_string(),
        plural: name.plural.to_string(),
        message,
    }
}

/// Any version of the group finds the objects, also one that no cluster serves any more: an older
/// client should not have to know. What is no version at all is a slip.
pub(super) fn check_version(
    registered: &RegisteredResource,
    version: &str,
) -> Result<(), ApiError> {
    let is_version = !matches!(Version::parse(version), Version::Nonconformant(_));
    if is_version || registered.versions.iter().any(|known| &**known == version) {
        return Ok(());
    }
    let known: Vec<&str> = registered.versions.iter().map(|known| &**known).collect();
    let name = &registered.name;
    let known = known.join(", ");
    let message = format!("{name} is not registered in version {version}, but in {known}");
    Err(not_registered(name, message))
}

/// The apiserver has no such path for a resource without namespaces; our parameter for it means
/// nothing.
pub(super) fn check_namespaces(
    registered: &RegisteredResource,
    request: &ListRequest,
) -> Result<(), ApiError> {
    if registered.namespaced || request.namespaces.is_empty() {
        return Ok(());
    }
    let problem = format!("{} are not namespaced", registered.name);
    if request.resource.namespace.is_some() {
        return Err(not_registered(&registered.name, problem));
    }
    Err(ApiError::bad_request(format!(
        "parameter namespaces: {problem}"
    )))
}

/// Every cluster that is named has to exist, and the path's has to hold the resource.
pub(super) fn check_clusters(
    catalog: &Catalog,
    registered: &RegisteredResource,
    request: &ListRequest,
) -> Result<(), ApiError> {
    let mut named = request.clusters.iter();
    if let Some(unknown) = named.find(|name| !catalog.knows_cluster(name)) {
        return Err(ApiError::NoSuchCluster(unknown.clone()));
    }
    let (name, cluster) = (&registered.name, request.path_cluster.as_ref());
    let Some(cluster) = cluster.filter(|cluster| !registered.is_stored_for(cluster)) else {
        return Ok(());
    };
    let message = format!("no ResourceRegistry selects {name} of cluster {cluster}");
    Err(not_registered(name, message))
}
