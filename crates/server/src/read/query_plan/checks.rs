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
    if let Some((cluster, why)) = catalog.undiscovered().next() {
        let message =
            format!("{name} are not known yet: cluster {cluster}, which may have them, is {why}");
        return not_registered(name, truncated(message));
    }
    if catalog.is_local() {
        let called = name.to_string();
        return not_registered(
            name,
            format!(
                "fleetdex local does not read {called}: start it with --resource {called}, and the others"
            ),
        );
    }
    let registries: Vec<&str> = catalog.registries().collect();
    if catalog.is_restricted() {
        return not_registered(
            name,
            format!("no ResourceRegistry selects {name} of a cluster that you may see"),
        );
    }
    let remedy = if registries.is_empty() {
        "there is no ResourceRegistry yet; create one".to_owned()
    } else {
        format!(
            "add it to spec.resourceSelectors of one ({})",
            registries.join(", ")
        )
    };
    not_registered(
        name,
        format!("no ResourceRegistry selects {name}: {remedy}"),
    )
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
    let message = format!(
        "{} is not registered in version {version}, but in {}",
        name,
        known.join(", ")
    );
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
    if let Some(unknown) = request
        .clusters
        .iter()
        .find(|name| !catalog.knows_cluster(name))
    {
        return Err(ApiError::NoSuchCluster(unknown.clone()));
    }
    let Some(name) = request
        .path_cluster
        .as_ref()
        .filter(|name| !registered.is_stored_for(name))
    else {
        return Ok(());
    };
    let message = format!(
        "no ResourceRegistry selects {} of cluster {name}",
        registered.name
    );
    Err(not_registered(&registered.name, message))
}
