//! Plans a list: which stores are queried, and the query. Needs nothing but the catalog.

mod checks;
mod store_selection;
mod warnings;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::{
    model::{ClusterName, Gvk, PrinterColumn, StoreName, is_interpreted_field},
    query::{
        CheckedQuery, InCluster, Permitted, Query, QueryError, Requester, ResourceName, Selectable,
        Sort, SortField, SortKey, UnsupportedField, WordSelector,
    },
    selector::FieldSelector,
};
use fleetdex_interpreter::field_selector;
use fleetdex_query_api::{question::ListRequest, search_options::OrderBy};
use fleetdex_store::merged::{Merged, StorePart};
use jiff::Timestamp;

pub(super) use self::store_selection::{holdings_hash, requested_clusters};
pub(crate) use self::warnings::{bounded, truncated};
use self::{
    checks::{check_clusters, check_namespaces, check_version, not_selected},
    store_selection::{select_stores, union},
    warnings::{as_of, warnings},
};
use crate::{
    api_error::ApiError,
    catalog::{Catalog, RegisteredResource},
    render::{
        representation::{ObjectEncoder, Representation},
        table::TablePrinter,
    },
};

/// Objects in one page, whatever the limit of the request is: bounds the memory that one request
/// holds. A client that asked for more gets a `continue` token with fewer objects, as Kubernetes
/// allows.
pub const PAGE: usize = 1_000;
/// A list, ready to be executed.
pub struct QueryPlan {
    /// The stores to query, each for its part of the clusters.
    pub stores: Merged,
    /// The query; its limit is that of one page.
    pub query: Query,
    /// The kind of the objects, in the version that the path names.
    pub kind: Gvk,
    /// The columns of the kind, if it is a custom resource and they are known.
    pub columns: Option<Arc<[PrinterColumn]>>,
    /// Whether documents of the kind say how healthy the objects are.
    pub has_health: bool,
    /// Clusters whose objects are stale, and since when; the first hundred of them.
    pub as_of: BTreeMap<ClusterName, Timestamp>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// None of the requested clusters holds the resource: the result is empty, and no store is
    /// queried.
    pub is_empty: bool,
}

impl QueryPlan {
    /// Encodes its objects as the client wants them.
    pub fn encoder(&self, representation: Representation) -> ObjectEncoder {
        let table =
            || TablePrinter::of(&self.kind, self.columns.as_deref()).with_health(self.has_health);
        ObjectEncoder::new(representation, self.kind.clone(), table, Timestamp::now())
    }
}

/// Plans a list, restricted to what the caller may see.
pub fn plan(
    catalog: &Catalog,
    request: &ListRequest,
    permitted: Permitted,
) -> Result<QueryPlan, ApiError> {
    let version = &request.resource.version;
    let registered = registered_resource(catalog, request)?;
    check_version(registered, version)?;
    check_namespaces(registered, request)?;
    check_clusters(catalog, registered, request)?;
    let requested = requested_clusters(registered, request);
    let stores = select_stores(catalog, registered, request, &requested)?;
    let query = build_query(registered, request, &requested, &stores, permitted)?;
    check_stores(&query, request, &stores)?;
    // Neither staleness nor warnings reveal clusters that the caller may not see.
    let is_included = |name: &ClusterName| {
        let is_requested = request.clusters.is_empty() || request.clusters.contains(name);
        is_requested && query.permitted.in_cluster(name) != InCluster::Nothing
    };
    let stored = &union(registered, &stores);
    let as_of = as_of(catalog, &registered.name, stored, is_included);
    let permitted = &query.permitted;
    let warnings = warnings(catalog, registered, request, stored, permitted, is_included);
    Ok(QueryPlan {
        is_empty: query.clusters.is_empty() && !request.clusters.is_empty(),
        stores,
        query,
        kind: Gvk::new(&request.resource.group, version, &registered.kind),
        columns: registered.columns(version),
        has_health: registered.is_interpreted("health"),
        as_of,
        warnings,
    })
}

/// The resource that the path names.
fn registered_resource<'c>(
    catalog: &'c Catalog,
    request: &ListRequest,
) -> Result<&'c RegisteredResource, ApiError> {
    let name = ResourceName::new(&request.resource.group, &request.resource.plural);
    catalog
        .find(&name)
        .ok_or_else(|| not_selected(catalog, &name))
}

/// The query for all stores, in the order of the first one.
fn build_query(
    registered: &RegisteredResource,
    request: &ListRequest,
    requested: &BTreeSet<ClusterName>,
    stores: &Merged,
    permitted: Permitted,
) -> Result<Query, ApiError> {
    let [first, ..] = stores.parts() else {
        return Err(ApiError::Internal(format!(
            "no store holds {}",
            registered.name
        )));
    };
    let clusters = request.clusters.iter();
    let clusters = clusters.filter(|name| requested.contains(*name));
    Ok(Query {
        resource: registered.name.clone(),
        namespaces: request.namespaces.clone(),
        names: request.names.clone(),
        permitted,
        labels: request.labels.clone(),
        fields: stored_fields(registered, &request.fields)?,
        words: WordSelector::default(),
        sort: sort_of(first, request)?,
        selectable: first.selectable.clone(),
        since: request.options.since,
        before: request.options.before,
        owners: None,
        requester: Requester::Operator,
        limit: request.limit.map_or(PAGE, |limit| limit.get().min(PAGE)),
        clusters: clusters.cloned().collect(),
    })
}

/// The field selector with the values that the index stores.
fn stored_fields(
    registered: &RegisteredResource,
    fields: &FieldSelector,
) -> Result<FieldSelector, ApiError> {
    field_selector::normalized(fields, |path| registered.is_interpreted(path))
        .map_err(|error| ApiError::bad_request(format!("parameter fieldSelector: {error}")))
}

/// Refuses a query that a store cannot evaluate, or that the stores would sort differently.
fn check_stores(query: &Query, request: &ListRequest, stores: &Merged) -> Result<(), ApiError> {
    for part in stores.parts().iter().skip(1) {
        if sort_of(part, request)? != query.sort {
            let problem =
                "parameter orderBy: the stores that hold the objects order them by different rules";
            return Err(ApiError::BadRequest(format!(
                "{problem}; choose with the parameter store: {}",
                stores.names()
            )));
        }
    }
    for part in stores.parts() {
        let checked = part.query(query).check();
        checked.map_err(|error| refused("fieldSelector", &error, &part.name))?;
    }
    // A query that is too large for OpenSearch is refused for every store, so that a request does
    // not depend on the kind of store.
    CheckedQuery::new(query).map_err(|error| ApiError::bad_request(error.to_string()))?;
    Ok(())
}

/// The requested order, as a store evaluates it.
fn sort_of(part: &StorePart, request: &ListRequest) -> Result<Vec<Sort>, ApiError> {
    let sorts = sort(&part.selectable, &request.options.order_by);
    sorts.map_err(|error| refused("orderBy", &error.into(), &part.name))
}

/// The stores that answer a list now.
pub(crate) fn stores(catalog: &Catalog, request: &ListRequest) -> Result<Merged, ApiError> {
    let registered = registered_resource(catalog, request)?;
    let requested = requested_clusters(registered, request);
    select_stores(catalog, registered, request, &requested)
}

/// The refusal of a parameter that a store cannot evaluate, with a remedy if there is one.
pub fn refused(parameter: &str, error: &QueryError, store: &StoreName) -> ApiError {
    let remedy = match error {
        QueryError::UnsupportedField(field) if is_interpreted_field(&field.label) => {
            "; spec.interpret of the ResourceRegistry is Off, or the documents of the kind are being written again"
        }
        QueryError::UnsupportedField(_) if *store != StoreName::embedded() => {
            "; spec.backendStore.openSearch.fieldPaths of a ResourceRegistry makes others selectable"
        }
        _ => "",
    };
    ApiError::bad_request(format!("parameter {parameter}: {error}{remedy}"))
}

/// The requested order, or the default one.
fn sort(selectable: &Selectable, order: &[OrderBy]) -> Result<Vec<Sort>, UnsupportedField> {
    if order.is_empty() {
        return Ok(Sort::standard());
    }
    let mut sorts = Vec::with_capacity(order.len());
    for by in order {
        let key = match by.field.as_str() {
            "cluster" => SortKey::Cluster,
            "namespace" => SortKey::Namespace,
            "name" => SortKey::Name,
            "metadata.creationTimestamp" | "created_at" => SortKey::CreationTimestamp,
            field => match selectable.sort_field(field)? {
                SortField::Always(_) => continue,
                SortField::Name => SortKey::Name,
                SortField::Namespace => SortKey::Namespace,
                SortField::Field(path, kind) => SortKey::Field(path, kind),
            },
        };
        sorts.push(Sort {
            key,
            descending: by.descending,
        });
    }
    Ok(sorts)
}
