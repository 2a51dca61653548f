//! What a search of several kinds asks of one of them.

use std::sync::Arc;

use fleetdex_core::{
    model::{FieldPath, Gvk, is_interpreted_field},
    query::Selectable,
};
use fleetdex_query_api::question::{ListRequest, ResourcePath};

use crate::{
    api_error::ApiError,
    auth::authorize::Permission,
    catalog::{Catalog, RegisteredResource},
    read::query_plan::{self, QueryPlan},
};

/// What is asked about one resource, and what its result lacks.
pub(in crate::read) struct PlannedSearch {
    /// `None` if no store has what is requested.
    pub(in crate::read) plan: Option<QueryPlan>,
    pub(in crate::read) warnings: Vec<String>,
}

/// A request for all objects of a resource that another request selects; `None` if there are none:
/// in the namespaces of the request if the resource is cluster-scoped, or in its clusters if none
/// of them has the resource.
pub(in crate::read) fn of_resource(
    request: &ListRequest,
    registered: &RegisteredResource,
) -> Option<ListRequest> {
    if !registered.namespaced && !request.namespaces.is_empty() {
        return None;
    }
    let named = request.clusters.iter();
    let clusters = named.filter(|name| registered.is_stored_for(name));
    let clusters: Vec<_> = clusters.cloned().collect();
    if clusters.is_empty() && !request.clusters.is_empty() {
        return None;
    }
    let version = registered.versions.first();
    Some(ListRequest {
        resource: ResourcePath {
            group: registered.name.group.to_string(),
            version: version.map(ToString::to_string).unwrap_or_default(),
            plural: registered.name.plural.to_string(),
            namespace: None,
            name: None,
        },
        path_cluster: None,
        clusters,
        is_across_kinds: true,
        ..request.clone()
    })
}

/// The first field of a selector that some store does not support for a resource. A path in the
/// objects does not stand for an interpreted field of the same name.
pub(super) fn unsupported_path<'r>(
    registered: &RegisteredResource,
    request: &'r ListRequest,
) -> Option<&'r FieldPath> {
    let stored = registered.by_store.values();
    let stores: Vec<Selectable> = stored.map(|stored| registered.selectable(stored)).collect();
    let is_unsupported = |path: &&FieldPath| {
        let text = path.as_str();
        let is_missing = is_interpreted_field(text) && !registered.is_interpreted(text);
        is_missing || stores.iter().any(|store| store.stored_path(text).is_err())
    };
    let requirements = request.fields.requirements();
    let mut paths = requirements.map(|requirement| &requirement.path);
    paths.find(is_unsupported)
}

/// Why a resource is not searched by an interpreted field; `None` for other fields, which few kinds
/// have.
pub(super) fn uninterpreted_warning(
    registered: &RegisteredResource,
    path: &FieldPath,
) -> Option<String> {
    is_interpreted_field(path.as_str()).then(|| {
        format!(
            "{} are left out: their {path} is not in the index, because spec.interpret of their ResourceRegistry is Off or their documents are being \
             written again",
            registered.name
        )
    })
}

/// Refuses a field selector that no resource supports.
pub(super) fn check_fields(
    resources: &[&RegisteredResource],
    request: &ListRequest,
) -> Result<(), ApiError> {
    let supports = |resource: &&RegisteredResource| unsupported_path(resource, request).is_none();
    if resources.is_empty() || resources.iter().any(supports) {
        return Ok(());
    }
    let fields = &request.fields;
    Err(ApiError::bad_request(format!(
        "parameter fieldSelector: no kind supports the fields of {fields}; all kinds support metadata.name, and health where spec.interpret of the \
         ResourceRegistry is not Off"
    )))
}

/// The plan of a search of one resource. `request` is that of the [resource](of_resource).
pub(in crate::read) fn planned(
    catalog: &Catalog,
    registered: &RegisteredResource,
    request: &ListRequest,
    permission: Permission,
) -> Result<PlannedSearch, ApiError> {
    if let Some(path) = unsupported_path(registered, request) {
        let warning = uninterpreted_warning(registered, path);
        return Ok(PlannedSearch {
            plan: None,
            warnings: warning.into_iter().collect(),
        });
    }
    let plan = query_plan::plan(catalog, request, permission.permitted)?;
    let warnings = permission.warnings.into_iter();
    Ok(PlannedSearch {
        warnings: warnings.chain(plan.warnings.iter().cloned()).collect(),
        plan: Some(plan).filter(|plan| !plan.is_empty),
    })
}

/// The terms by which other objects refer to one of a resource, one for each version of it.
pub(in crate::read) fn terms_of(
    registered: &RegisteredResource,
    namespace: &str,
    name: &str,
) -> Vec<String> {
    let term = |version: &Arc<str>| {
        let api_version = Gvk::new(&registered.name.group, version, "").api_version();
        format!("{api_version}/{}/{namespace}/{name}", registered.kind)
    };
    registered.versions.iter().map(term).collect()
}
