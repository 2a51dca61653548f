//! Which answer a question has.

use std::sync::Arc;

use axum::{
    extract::Request,
    http::{Method, StatusCode},
    response::Response,
};
use fleetdex_limits::request::UserRequest;
use fleetdex_query_api::{
    question::{self, GroupDiscovery, Question, VerifyRequest},
    uri::{QueryParameters, RequestUri},
};

use super::{
    aggregated_discovery::{aggregated_discovery, wants_aggregated},
    completions::complete_search,
    objects::{
        attributes, count_images, count_objects, interpret, list_objects, merged_object,
        related_objects, report_fleet, search_all_kinds, search_objects,
    },
    response::{document, json, options, unknown_parameters, with_warnings},
    state::Answers,
    watches::{watch_all_kinds, watch_objects},
};
use crate::{
    api_error::ApiError,
    auth::caller::Caller,
    catalog::Catalog,
    read::{verify::Verification, visible_objects::visible_clusters},
    render::{
        discovery, group_discovery,
        representation::{Endpoint, Representation},
    },
    watch::changes,
};

impl Answers {
    /// Answers a question of a caller who may ask it. The request has its body, and the means to
    /// upgrade the connection.
    pub async fn answer(
        &self,
        caller: &Caller,
        uri: &RequestUri<'_>,
        question: Question,
        request: Request,
    ) -> Result<Response, ApiError> {
        let allowed = question.method();
        if request.method() == Method::OPTIONS {
            return Ok(options(if allowed == "GET" {
                "GET, HEAD, OPTIONS"
            } else {
                "POST, OPTIONS"
            }));
        }
        if !question.is_served_with(request.method()) {
            return Err(ApiError::MethodNotAllowed {
                method: request.method().to_string(),
                allowed,
            });
        }
        let ignored = unknown_parameters(&question::ignored(&question, uri.query())?);
        let computes_much = question.computes_much();
        let response = Box::pin(respond(self, caller, question, uri.query(), request));
        let response = if computes_much {
            let computing = UserRequest::current().computing();
            let response = computing.run_task(response).await;
            response.ok_or(ApiError::TooManyRequests)?
        } else {
            response.await
        };
        Ok(with_warnings(response?, &ignored))
    }
}

/// Without the registries nothing is known of what could be queried: an empty answer, or one that
/// asks for a registry, would be wrong.
fn check_registries_are_read(parsed: &Question, catalog: &Catalog) -> Result<(), ApiError> {
    let is_document = matches!(
        parsed,
        Question::Version | Question::Discovery(_) | Question::OpenApi(_)
    );
    if is_document {
        return Ok(());
    }
    catalog.check_registries_are_read()
}

/// The response to a parsed request.
async fn respond(
    answers: &Answers,
    caller: &Caller,
    parsed: Question,
    query: &QueryParameters<'_>,
    request: Request,
) -> Result<Response, ApiError> {
    let catalog = Arc::clone(&answers.catalog.borrow());
    check_registries_are_read(&parsed, &catalog)?;
    match parsed {
        Question::Version => document(
            &discovery::version()?,
            represented(&request, query, Endpoint::Document)?,
        ),
        Question::Discovery(GroupDiscovery::Groups) if wants_aggregated(&request) => {
            Ok(aggregated_discovery())
        }
        Question::Discovery(which) => document(
            &discovery::group_discovery(&which)?,
            represented(&request, query, Endpoint::Document)?,
        ),
        Question::OpenApi(which) => document(
            &group_discovery::open_api(which)?,
            represented(&request, query, Endpoint::Document)?,
        ),
        Question::List(list) if list.watch_options.watch => {
            let representation = represented(&request, query, Endpoint::Watch)?;
            watch_objects(
                answers,
                caller,
                &catalog,
                &list,
                representation,
                attributes(&request),
            )
            .await
        }
        Question::List(list) => {
            let representation = represented(&request, query, Endpoint::List)?;
            list_objects(answers, caller, &catalog, &list, representation).await
        }
        Question::Aggregate(counts) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            count_objects(answers, caller, &catalog, &counts, representation).await
        }
        Question::Objects(search) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            search_objects(answers, caller, &catalog, &search, representation).await
        }
        Question::Search(search) => {
            let Some(watch) = search.watch else {
                let representation = represented(&request, query, Endpoint::Counts)?;
                return search_all_kinds(answers, caller, &catalog, &search, representation).await;
            };
            let representation = represented(&request, query, Endpoint::Watch)?;
            let authorized_as = attributes(&request);
            let search = (&*search, watch);
            watch_all_kinds(
                answers,
                caller,
                &catalog,
                search,
                representation,
                authorized_as,
            )
            .await
        }
        Question::Completions(completed) => {
            let representation = represented(&request, query, Endpoint::Document)?;
            complete_search(answers, caller, &catalog, &completed, representation).await
        }
        Question::Related(search) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            related_objects(answers, caller, &catalog, &search, representation).await
        }
        Question::Merged(merged) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            merged_object(answers, caller, &catalog, &merged, representation).await
        }
        Question::Images(images) => {
            let representation = represented(&request, query, Endpoint::Counts)?;
            count_images(answers, caller, &catalog, &images, representation).await
        }
        Question::Interpret => {
            let representation = represented(&request, query, Endpoint::Document)?;
            interpret(answers, caller, &catalog, request, representation).await
        }
        Question::Clusters => {
            let representation = represented(&request, query, Endpoint::Document)?;
            report_fleet(answers, caller, &catalog, representation).await
        }
        Question::Changes(changes_request) => {
            let body =
                changes::respond(&catalog, &changes_request, answers.catalog.clone()).await?;
            Ok(json(StatusCode::OK, body))
        }
        Question::Verify(request) => verify(answers, caller, &catalog, &request).await,
    }
}

/// Verifies the clusters that a caller may see, or those that this replica reads for another one.
async fn verify(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &VerifyRequest,
) -> Result<Response, ApiError> {
    let verification = if request.is_of_replica {
        Verification::for_replica(catalog, &request.clusters)
    } else {
        let mode = &answers.authentication_mode;
        let visible = visible_clusters(mode, caller, catalog, &request.clusters).await?;
        Verification::of(catalog, &request.clusters, visible.as_ref())?
    };
    let body = verification.start(answers.peers.clone());
    Ok(json(StatusCode::OK, body))
}

fn represented(
    request: &Request,
    query: &QueryParameters<'_>,
    endpoint: Endpoint,
) -> Result<Representation, ApiError> {
    Representation::negotiate(endpoint, request.headers(), query)
}
