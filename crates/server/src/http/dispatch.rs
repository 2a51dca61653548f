//! Authenticates the caller of a request, authorizes the request, and routes it to its handler.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{Method, StatusCode},
    response::Response,
};
use fleetdex_limits::request::UserRequest;

use super::{
    aggregated_discovery::{aggregated_discovery, wants_aggregated},
    api_state::ApiState,
    completion_handler::complete_search,
    handlers::{
        attributes, count_images, count_objects, interpret, list_objects, merged_object,
        related_objects, report_fleet, search_all_kinds, search_objects,
    },
    listen::RequestHandle,
    response::{document, json, options, unknown_parameters, with_warnings},
    watch_handlers::{watch_all_kinds, watch_objects},
};
use crate::{
    auth::{
        attributes::Attributes, authentication_mode::AuthenticationMode, caller::Caller,
        identity::impersonates,
    },
    catalog::Catalog,
    proxying,
    read::{verify::Verification, visible_objects::visible_clusters},
    render::{
        discovery, group_discovery,
        representation::{Endpoint, Representation},
    },
    request::{
        api_error::ApiError,
        api_request::{self, ApiRequest, GroupDiscovery},
        uri::{QueryParameters, RequestUri},
    },
    watch::changes,
};

/// The caller of a request, from its credentials, which are removed from it.
pub(super) async fn authenticate(
    api: &ApiState,
    request: &mut Request,
) -> Result<Caller, ApiError> {
    let impersonates = impersonates(request.headers());
    let caller = api.authentication_mode.authenticate(request).await?;
    if let Some(handle) = request.extensions_mut().remove::<RequestHandle>() {
        handle.mark_authenticated();
    }
    if impersonates {
        return Err(ApiError::bad_request(
            "this server does not support impersonation; send the request through the control plane",
        ));
    }
    Ok(caller)
}

/// Authorizes a request, and responds to it.
pub(super) async fn authorize(
    api: &ApiState,
    caller: &Caller,
    uri: &RequestUri<'_>,
    mut request: Request,
) -> Result<Response, ApiError> {
    if let AuthenticationMode::Delegated(auth) = &api.authentication_mode {
        let attributes = Attributes::of(request.method(), uri);
        auth.authorizer().check(caller, &attributes).await?;
        request.extensions_mut().insert(attributes);
    }
    route(api, caller, uri, request).await
}

/// Routes an authorized request, with its body and the means to upgrade the connection.
async fn route(
    api: &ApiState,
    caller: &Caller,
    uri: &RequestUri<'_>,
    request: Request,
) -> Result<Response, ApiError> {
    if let Some(path) = proxying::request::below(uri) {
        return Box::pin(proxying::handle(api, caller, uri, &path, request)).await;
    }
    let parsed = api_request::parse(uri)?;
    let allowed = parsed.method();
    if request.method() == Method::OPTIONS {
        return Ok(options(if allowed == "GET" {
            "GET, HEAD, OPTIONS"
        } else {
            "POST, OPTIONS"
        }));
    }
    // The response to HEAD is the head of the response to GET.
    let method = if request.method() == Method::HEAD {
        "GET"
    } else {
        request.method().as_str()
    };
    if method != allowed {
        return Err(ApiError::MethodNotAllowed {
            method: request.method().to_string(),
            allowed,
        });
    }
    let ignored = unknown_parameters(&api_request::ignored(&parsed, uri.query())?);
    let computes_much = parsed.computes_much();
    let response = Box::pin(respond(api, caller, parsed, uri.query(), request));
    let response = if computes_much {
        let computing = UserRequest::current().computing();
        let response = computing.run_task(response).await;
        response.ok_or(ApiError::TooManyRequests)?
    } else {
        response.await
    };
    Ok(with_warnings(response?, &ignored))
}

/// Without the registries nothing is known of what could be queried: an empty answer, or one that
/// asks for a registry, would be wrong.
fn check_registries_are_read(parsed: &ApiRequest, catalog: &Catalog) -> Result<(), ApiError> {
    let is_document = matches!(
        parsed,
        ApiRequest::Version | ApiRequest::Discovery(_) | ApiRequest::OpenApi(_)
    );
    if is_document {
        return Ok(());
    }
    catalog.check_registries_are_read()
}

/// The response to a parsed request.
async fn respond(
    api: &ApiState,
    caller: &Caller,
    parsed: ApiRequest,
    query: &QueryParameters<'_>,
    request: Request,
) -> Result<Response, ApiError> {
    let catalog = Arc::clone(&api.catalog.borrow());
    check_registries_are_read(&parsed, &catalog)?;
    match parsed {
        ApiRequest::Version => document(
            &discovery::version()?,
            represented(&request, query, Endpoint::Document)?,
        ),
        ApiRequest::Discovery(GroupDiscovery::Groups) if wants_aggregated(&request) => {
            Ok(aggregated_discovery())
        }
        ApiRequest::Discovery(which) => document(
            &discovery::group_discovery(&which)?,
            represented(&request, query, Endpoint::Document)?,
        ),
        ApiRequest::OpenApi(which) => document(
            &group_discovery::open_api(which)?,
            represented(&request, query, Endpoint::Document)?,
        ),
        ApiRequest::List(list) if list.watch_options.watch => {
            let representation = represented(&request, query, Endpoint::Watch)?;
            watch_objects(
                api,
                caller,
                &catalog,
                &list,
                representation,
                attributes(&request),
            )
            .await
        }
        ApiRequest::List(list) => {
            let representation = represented(&request, query, Endpoint::List)?;
            list_objects(api, caller, &catalog, &list, representation).await
        }
        ApiRequest::Aggregate(counts) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            count_objects(api, caller, &catalog, &counts, representation).await
        }
        ApiRequest::Objects(search) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            search_objects(api, caller, &catalog, &search, representation).await
        }
        ApiRequest::Search(search) => {
            let Some(watch) = search.watch else {
                let representation = represented(&request, query, Endpoint::Counts)?;
                return search_all_kinds(api, caller, &catalog, &search, representation).await;
            };
            let representation = represented(&request, query, Endpoint::Watch)?;
            let authorized_as = attributes(&request);
            let search = (&*search, watch);
            watch_all_kinds(api, caller, &catalog, search, representation, authorized_as).await
        }
        ApiRequest::Completions(completed) => {
            let representation = represented(&request, query, Endpoint::Document)?;
            complete_search(api, caller, &catalog, &completed, representation).await
        }
        ApiRequest::Related(search) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            related_objects(api, caller, &catalog, &search, representation).await
        }
        ApiRequest::Merged(merged) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            merged_object(api, caller, &catalog, &merged, representation).await
        }
        ApiRequest::Images(images) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            count_images(api, caller, &catalog, &images, representation).await
        }
        ApiRequest::Interpret => {
            let representation = represented(&request, query, Endpoint::Document)?;
            interpret(api, caller, &catalog, request, representation).await
        }
        ApiRequest::Clusters => {
            let representation = represented(&request, query, Endpoint::Document)?;
            report_fleet(api, caller, &catalog, representation).await
        }
        ApiRequest::Changes(changes_request) => {
            let body = changes::respond(&catalog, &changes_request, api.catalog.clone()).await?;
            Ok(json(StatusCode::OK, body))
        }
        ApiRequest::Verify(request) => {
            let verification = if request.is_of_replica {
                Verification::for_replica(&catalog, &request.clusters)
            } else {
                let mode = &api.authentication_mode;
                let visible = visible_clusters(mode, caller, &catalog, &request.clusters).await?;
                Verification::of(&catalog, &request.clusters, visible.as_ref())?
            };
            let body = verification.start(api.peers.clone());
            Ok(json(StatusCode::OK, body))
        }
    }
}

fn represented(
    request: &Request,
    query: &QueryParameters<'_>,
    endpoint: Endpoint,
) -> Result<Representation, ApiError> {
    Representation::negotiate(endpoint, request.headers(), query)
}
