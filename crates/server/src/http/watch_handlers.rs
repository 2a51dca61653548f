//! Handlers of watches, restricted to what the caller may see.

use std::sync::Arc;

use axum::{body::Body, http::StatusCode, response::Response};
use futures::future::try_join_all;
use tokio::time::Instant;

use super::{
    api_state::ApiState,
    handlers::{
        PermittedQuery, across_kinds, narrowed, permitted_query, reserve_selection, reserved,
    },
    listen::delivery::ResponseDeadline,
    response::{json, unknown_parameters, with_warnings},
};
use crate::{
    auth::{attributes::Attributes, caller::Caller, reauthorization::Reauthorization},
    catalog::Catalog,
    read::{query_plan::bounded, search, visible_objects::reauthorization},
    render::representation::Representation,
    request::{
        api_error::ApiError,
        api_request::{ListRequest, SearchRequest, SearchWatch},
    },
    watch::{
        event_stream::ended_by,
        search_response,
        watch_response::{self, WatchDuration},
    },
};

/// Each query of a watched search while it begins, its filter, and twice what of it is permitted.
const WATCHED_COPIES: usize = 4;

/// Watches objects.
pub(crate) async fn watch_objects(
    api: &ApiState,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &ListRequest,
    representation: Representation,
    authorized_as: Option<Attributes>,
) -> Result<Response, ApiError> {
    let planned = api.moves.planned(catalog, &api.catalog);
    let PermittedQuery {
        plan,
        warnings,
        catalog,
        reservation,
    } = permitted_query(api, caller, catalog, request).await?;
    let representation = narrowed(representation, request);
    let duration = if request.rewrites_version {
        WatchDuration::Long
    } else {
        WatchDuration::Short
    };
    let peers = api.peers.subscribe(&plan, &request.resource).await?;
    peers.check(&catalog)?;
    let reauthorization = reauthorization(
        &api.authentication_mode,
        caller,
        authorized_as,
        [(request, &plan.query.permitted)],
    );
    let (body, ends) = watch_response::respond(
        planned,
        plan,
        request,
        representation,
        duration,
        &peers,
        api.limits.computing(caller),
    )
    .await?;
    let body = reserved(reauthorized(body, reauthorization), reservation);
    Ok(with_warnings(watch_of(body, ends), &warnings))
}

/// Ends a watch when its caller loses a permission.
fn reauthorized(body: Body, reauthorization: Option<Reauthorization>) -> Body {
    match reauthorization {
        Some(reauthorization) => ended_by(body, reauthorization.until_denied()),
        None => body,
    }
}

/// The response to a watch that ends at that time at the latest.
fn watch_of(body: Body, ends: Instant) -> Response {
    let mut response = json(StatusCode::OK, body);
    response.extensions_mut().insert(ResponseDeadline(ends));
    response
}

/// Watches a search of all kinds.
pub(crate) async fn watch_all_kinds(
    api: &ApiState,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    (request, options): (&SearchRequest, SearchWatch),
    representation: Representation,
    authorized_as: Option<Attributes>,
) -> Result<Response, ApiError> {
    let _reservation = reserve_selection(api, caller, &request.list)?;
    let named = search::named_clusters(request);
    let kinds = across_kinds(api, caller, catalog, &named).await?;
    let mut search = search::plan_watch(&kinds, catalog, request).await?;
    let reservation = api
        .limits
        .reserve_query(caller, search.query_bytes() * WATCHED_COPIES)?;
    let subscriptions = search.kinds.iter();
    let subscriptions =
        subscriptions.map(|kind| api.peers.subscribe(&kind.plan, &kind.list.resource));
    let peers = try_join_all(subscriptions).await?;
    for subscription in &peers {
        subscription.check(kinds.catalog())?;
    }
    let shown = search.kinds.iter();
    let shown = shown.map(|kind| (&kind.list, &kind.plan.query.permitted));
    let reauthorization = reauthorization(&api.authentication_mode, caller, authorized_as, shown);
    let mut warnings = unknown_parameters(&request.list.ignored);
    let incomplete = std::mem::take(&mut search.warnings).into_iter();
    warnings.extend(bounded(incomplete.collect()));
    let (body, ends) = search_response::respond(
        api.catalog.clone(),
        search,
        options,
        representation.output,
        &peers,
        api.limits.computing(caller),
    )
    .await?;
    let body = reserved(reauthorized(body, reauthorization), reservation);
    Ok(with_warnings(watch_of(body, ends), &warnings))
}
