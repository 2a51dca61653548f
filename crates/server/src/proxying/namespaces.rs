//! The namespace of an object, for clients that ask for it after a 404, as kubectl does.
//!
//! A namespace with objects of the index exists, whether a registry selects namespaces or not. Of
//! which objects that depends: those that the caller may list.

use axum::{extract::Request, response::Response};
use fleetdex_core::model::{ClusterName, Namespace};
use fleetdex_query_api::{
    fleet_request::{ResourceInfo, Verb},
    question::ListRequest,
    uri::RequestUri,
};
use serde_json::{json, value::to_raw_value};

use super::{context::ProxyContext, member_query, object_request};
use crate::{
    answers::response::document,
    api_error::ApiError,
    read::across_kinds::AcrossKinds,
    render::representation::{Endpoint, Representation},
};

/// Whether a request reads one namespace.
pub(super) fn is_read_by(info: &ResourceInfo) -> bool {
    info.verb == Verb::Get
        && info.group.is_empty()
        && info.plural == "namespaces"
        && info.name.is_some()
        && info.subresource.is_none()
}

/// Responds with the namespace as its member has it. One that is not in the index is there, with
/// its name alone, if objects of the index are in it.
pub(super) async fn get(
    context: &ProxyContext<'_>,
    cluster: Option<ClusterName>,
    info: &ResourceInfo,
    uri: &RequestUri<'_>,
    request: Request,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    let (clusters, _) = member_query::split(cluster.clone(), info, uri.query())?;
    match object_request::handle(context, cluster, info, uri, request).await {
        Err(ApiError::NotRegistered { .. } | ApiError::NoSuchObject(_))
            if context.catalog.resources().next().is_some() => {}
        result => return result,
    }
    let name = info.name.as_deref().unwrap_or_default();
    if !has_objects(context, name, clusters).await? {
        return Err(ApiError::NotRegistered {
            group: info.group.clone(),
            plural: info.plural.clone(),
            message: format!(
                "namespaces {name:?} not found: no object of the index that you may list is in it"
            ),
        });
    }
    let namespace =
        json!({ "kind": "Namespace", "apiVersion": "v1", "metadata": { "name": name } });
    let namespace = to_raw_value(&namespace)
        .map_err(|error| ApiError::Internal(format!("a namespace: {error}")))?;
    let representation = Representation::negotiate(Endpoint::Document, &headers, uri.query())?;
    document(&namespace, representation)
}

/// Whether the caller may list an object that is in a namespace of these clusters, or of any if
/// none is named.
async fn has_objects(
    context: &ProxyContext<'_>,
    name: &str,
    clusters: Vec<ClusterName>,
) -> Result<bool, ApiError> {
    let Ok(namespace) = name.parse::<Namespace>() else {
        return Ok(false);
    };
    let answers = context.answers;
    let kinds = AcrossKinds::new(
        &answers.authentication_mode,
        &answers.limits.search_pages,
        context.caller,
        context.catalog,
        &clusters,
    )
    .await?;
    let inside = ListRequest {
        namespaces: vec![namespace],
        clusters,
        ..ListRequest::default()
    };
    kinds.has_objects(&inside).await
}
