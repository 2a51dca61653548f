//! Handlers of watches, restricted to what the caller may see.

use std::sync::Arc;

use axum::{body::Body, http::StatusCode, response::Response};
use fleetdex_query_api::{
    access::Attributes,
    question::{ListRequest, SearchRequest, SearchWatch},
};
use futures::future::try_join_all;
use tokio::time::Instant;

use crate::{
    answers::{
        objects::{
            PermittedQuery, across_kinds, narrowed, permitted_query, reserve_selection, reserved,
        },
        response::{json, unknown_parameters, with_warnings},
        state::Answers,
    },
    api_error::ApiError,
    auth::{caller::Caller, reauthorization::Reauthorization},
    catalog::Catalog,
    limits::ResponseDeadline,
    read::{query_plan::bounded, search, visible_objects::reauthorization},
    render::representation::Representation,
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
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &ListRequest,
    representation: Representation,
    authorized_as: Option<Attributes>,
) -> Result<Response, ApiError> {
    let planned = answers.moves.planned(catalog, &answers.catalog);
    let PermittedQuery {
        plan,
        warnings,
        catalog,
        reservation,
    } = permitted_query(answers, caller, catalog, request).await?;
    let representation = narrowed(representation, request);
    let duration = if request.rewrites_version {
        WatchDuration::Long
    } else {
        WatchDuration::Short
    };
    let peers = answers.peers.subscribe(&plan, &request.resource).await?;
    peers.check(&catalog)?;
    let reauthorization = reauthorization(
        &answers.authentication_mode,
        caller,
        authorized_as,
        [(request, &plan.query.permitted)],
    );
    let (body, ends) =
        watch_response::respond(planned, plan, request, representation, duration, &peers).await?;
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
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    (request, options): (&SearchRequest, SearchWatch),
    representation: Representation,
    authorized_as: Option<Attributes>,
) -> Result<Response, ApiError> {
    let _reservation = reserve_selection(answers, caller, &request.list)?;
    let named = search::named_clusters(request);
    let kinds = across_kinds(answers, caller, catalog, &named).await?;
    let mut search = search::plan_watch(&kinds, catalog, request).await?;
    let reservation = answers
        .limits
        .reserve_query(caller, search.query_bytes() * WATCHED_COPIES)?;
    let subscriptions = search.kinds.iter();
    let subscriptions =
        subscriptions.map(|kind| answers.peers.subscribe(&kind.plan, &kind.list.resource));
    let peers = try_join_all(subscriptions).await?;
    for subscription in &peers {
        subscription.check(kinds.catalog())?;
    }
    let shown = search.kinds.iter();
    let shown = shown.map(|kind| (&kind.list, &kind.plan.query.permitted));
    let reauthorization =
        reauthorization(&answers.authentication_mode, caller, authorized_as, shown);
    let mut warnings = unknown_parameters(&request.list.ignored);
    let incomplete = std::mem::take(&mut search.warnings).into_iter();
    warnings.extend(bounded(incomplete.collect()));
    let (body, ends) = search_response::respond(
        answers.catalog.clone(),
        search,
        options,
        representation.output,
        &peers,
    )
    .await?;
    let body = reserved(reauthorized(body, reauthorization), reservation);
    Ok(with_warnings(watch_of(body, ends), &warnings))
}
