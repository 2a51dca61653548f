//! Kubernetes over the fleet: everything below `proxying/karmada/proxy`.
//!
//! [`fleet_request`] reads method, path and query. Lists and watches come from the index, as those
//! below `search/`. A request for one object goes to the member that has it ([`object_request`]):
//! [`locate`] asks the index which member that is, [`body`] translates resource versions and
//! annotations of what the client writes, and [`forward`] sends it with an impersonated client
//! ([`client_cache`]), with the headers that [`headers`] lets through, and with a [`tunnel`] for
//! upgraded connections. [`namespaces`] says whether a namespace exists. [`documents`] serves
//! discovery, `OpenAPI` and the version, [`access_reviews`] says what the caller may do.
//!
//! Objects carry the fleet's resource version and, as annotations, the member's own and the
//! member's name: see [`fleetdex_core::model::client_metadata`].

mod access_reviews;
pub mod body;
pub mod client_cache;
mod context;
mod document_cache;
pub mod documents;
pub mod forward;
pub mod headers;
pub mod locate;

mod member_query;
pub mod member_version;
mod namespaces;
mod object_request;
pub mod protobuf;
mod request_body;
pub mod tunnel;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::{extract::Request, response::Response};
use fleetdex_core::model::ClusterName;
use fleetdex_query_api::{
    fleet_request::{self, FleetRequest, RequestTarget, ResourceInfo, Verb},
    question::list_of_fleet,
    uri::RequestUri,
};
use http::Method;

pub use self::context::MemberProxy;
use self::context::ProxyContext;
use crate::{
    answers::{Answers, context::AnswerContext, objects::attributes, response},
    api_error::ApiError,
    auth::caller::Caller,
    render::representation::{Endpoint, Representation},
};

/// Handles a request below `proxying/karmada/proxy`.
pub async fn handle(
    answers: &Answers,
    members: &MemberProxy,
    caller: &Caller,
    uri: &RequestUri<'_>,
    asked: FleetRequest,
    request: Request,
) -> Result<Response, ApiError> {
    if request.method() == Method::OPTIONS && !asked.is_proxied() {
        return Ok(response::options(fleet_request::METHODS));
    }
    let catalog = Arc::clone(&answers.catalog.borrow());
    let context = ProxyContext {
        answers,
        members,
        catalog: &catalog,
        caller,
    };
    match asked.target {
        RequestTarget::NonResource(path) => {
            let (head, _unread_body) = request.into_parts();
            documents::handle(&context, asked.cluster.as_ref(), &path, uri.query(), &head).await
        }
        RequestTarget::Resource(resource) => {
            catalog.check_registries_are_read()?;
            if let Some(kind) = access_reviews::review_of(&resource) {
                access_reviews::handle(&context, asked.cluster, kind, request).await
            } else if matches!(resource.verb, Verb::List | Verb::Watch) {
                list_or_watch(&context, asked.cluster, &resource, uri, request).await
            } else if namespaces::is_read_by(&resource) {
                namespaces::get(&context, asked.cluster, &resource, uri, request).await
            } else {
                object_request::handle(&context, asked.cluster, &resource, uri, request).await
            }
        }
    }
}

/// Lists or watches objects of the index.
async fn list_or_watch(
    context: &ProxyContext<'_>,
    cluster: Option<ClusterName>,
    info: &ResourceInfo,
    uri: &RequestUri<'_>,
    request: Request,
) -> Result<Response, ApiError> {
    let list = list_of_fleet(uri, &info.segments(), cluster)?;
    let endpoint = if list.watch_options.watch {
        Endpoint::Watch
    } else {
        Endpoint::List
    };
    let asked = AnswerContext {
        answers: context.answers,
        caller: context.caller,
        catalog: context.catalog,
        representation: Representation::negotiate(endpoint, request.headers(), uri.query())?,
    };
    if list.watch_options.watch {
        let authorized_as = attributes(&request);
        return asked.watch_objects(&list, authorized_as).await;
    }
    asked.list_objects(&list).await?.into_response().await
}
