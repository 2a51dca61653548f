//! Handlers of watches, restricted to what the caller may see.

use axum::{body::Body, http::StatusCode, response::Response};
use fleetdex_query_api::{
    question::{ListRequest, SearchRequest, SearchWatch},
    rbac_attributes::Attributes,
};
use futures::future::try_join_all;
use tokio::time::Instant;

use crate::{
    answers::{
        context::{AnswerContext, all_warnings},
        objects::{narrowed, permitted_query, reserved},
        response::{json, with_warnings},
    },
    api_error::ApiError,
    auth::reauthorization::Reauthorization,
    limits::{ResponseDeadline, UserPermit},
    read::{permitted::reauthorization, search},
    watch::{
        event_stream::{ended_by, refusal},
        search_response,
        watch_response::{self, WatchDuration},
    },
};

/// Each query of a watched search while it begins, its filter, and twice what of it is permitted.
const WATCHED_COPIES: usize = 4;

impl AnswerContext<'_> {
    /// Watches objects.
    pub(crate) async fn watch_objects(
        &self,
        request: &ListRequest,
        authorized_as: Option<Attributes>,
    ) -> Result<Response, ApiError> {
        let (answers, caller) = (self.answers, self.caller);
        let planned = answers.moves.planned(self.catalog, &answers.catalog);
        let query = permitted_query(answers, caller, self.catalog, request).await?;
        let plan = query.plan;
        let shown = narrowed(self.representation, request);
        let duration = if request.rewrites_version {
            WatchDuration::Long
        } else {
            WatchDuration::Short
        };
        let peers = answers.peers.subscribe(&plan, &request.resource).await?;
        peers.check(&query.catalog)?;
        let permitted = [(request, &plan.query.permitted)];
        let mode = &answers.authentication_mode;
        let reauthorization = reauthorization(mode, caller, authorized_as, permitted);
        let watch = watch_response::open(planned, plan, request, shown, duration, &peers).await;
        let response = response(watch, reauthorization, query.reservation)?;

        Ok(with_warnings(response, &query.warnings))
    }

    /// Watches a search of all kinds.
    pub(super) async fn watch_all_kinds(
        &self,
        request: &SearchRequest,
        options: SearchWatch,
        authorized_as: Option<Attributes>,
    ) -> Result<Response, ApiError> {
        let (answers, caller) = (self.answers, self.caller);
        let _reservation = self.reserve_selection(&request.list)?;
        let kinds = self.across_kinds(&search::named_clusters(request)).await?;
        let mut search = search::plan_watch(&kinds, self.catalog, request).await?;
        let bytes = search.query_bytes() * WATCHED_COPIES;
        let reservation = answers.limits.reserve_query(caller, bytes)?;
        let subscriptions = search.kinds.iter();
        let subscriptions =
            subscriptions.map(|kind| answers.peers.subscribe(&kind.plan, &kind.list.resource));
        let peers = try_join_all(subscriptions).await?;
        for subscription in &peers {
            subscription.check(&kinds.catalog)?;
        }
        let permitted = search.kinds.iter();
        let permitted = permitted.map(|kind| (&kind.list, &kind.plan.query.permitted));
        let mode = &answers.authentication_mode;
        let reauthorization = reauthorization(mode, caller, authorized_as, permitted);
        let incomplete = std::mem::take(&mut search.warnings);
        let incomplete = incomplete.into_iter().collect();
        let warnings = all_warnings(&request.list.ignored, incomplete);
        let (catalog, output) = (answers.catalog.clone(), self.representation.output);
        let watch = search_response::open(catalog, search, options, output, &peers).await;
        let response = response(watch, reauthorization, reservation)?;

        Ok(with_warnings(response, &warnings))
    }
}

/// The response to a watch that ends at that time at the latest, or when its caller loses a
/// permission.
fn response(
    opened: Result<(Body, Instant), ApiError>,
    reauthorization: Option<Reauthorization>,
    reservation: Vec<UserPermit>,
) -> Result<Response, ApiError> {
    let (mut body, ends) = opened.or_else(refusal)?;

    if let Some(reauthorization) = reauthorization {
        body = ended_by(body, reauthorization.until_denied());
    }
    let mut response = json(StatusCode::OK, reserved(body, reservation));
    response.extensions_mut().insert(ResponseDeadline(ends));
    Ok(response)
}
