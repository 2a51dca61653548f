//! Which answer a question has.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::Request,
    http::{HeaderValue, Method, StatusCode, header},
    response::Response,
};
use fleetdex_limits::request::UserRequest;
use fleetdex_query_api::{
    question::{self, GroupDiscovery, Question, VerifyRequest},
    uri::RequestUri,
};
use serde_json::value::RawValue;

use super::{
    context::{AnswerContext, Answers},
    objects::attributes,
    reply::Reply,
    response::{document, json, options, typed, unknown_parameters},
};
use crate::{
    api_error::ApiError,
    auth::caller::Caller,
    catalog::Catalog,
    read::{permitted::visible_clusters, verify::Verification},
    render::{
        discovery, group_discovery,
        representation::{Endpoint, Representation, accept_header},
    },
    watch::changes,
};

impl Answers {
    /// The response to a question of a caller who may ask it. The request has its body, and the
    /// means to upgrade the connection.
    pub async fn respond(
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
        let computes_much = question.computes_much();
        let reply = Box::pin(reply(self, caller, uri, question, request));
        let response = async { reply.await?.into_response().await };
        run(computes_much, response).await
    }

    /// The answer to a question of a caller who may ask it, which is not encoded.
    pub(crate) async fn answer(
        &self,
        caller: &Caller,
        uri: &RequestUri<'_>,
        question: Question,
        request: Request,
    ) -> Result<Reply, ApiError> {
        let computes_much = question.computes_much();
        let reply = Box::pin(reply(self, caller, uri, question, request));
        run(computes_much, reply).await
    }
}

/// Runs what computes much by the turns of users.
async fn run<T: Send>(
    computes_much: bool,
    answer: impl Future<Output = Result<T, ApiError>> + Send,
) -> Result<T, ApiError> {
    if !computes_much {
        return answer.await;
    }
    let computed = UserRequest::current().computing().run_task(answer).await;
    computed.ok_or(ApiError::TooManyRequests)?
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

/// What a question is answered with.
async fn reply(
    answers: &Answers,
    caller: &Caller,
    uri: &RequestUri<'_>,
    question: Question,
    request: Request,
) -> Result<Reply, ApiError> {
    let ignored = unknown_parameters(&question::ignored(&question, uri.query())?);
    let catalog = Arc::clone(&answers.catalog.borrow());
    check_registries_are_read(&question, &catalog)?;
    if question == Question::Discovery(GroupDiscovery::Groups)
        && group_discovery::wants_aggregated(&accept_header(request.headers()))
    {
        return Ok(Reply::Response(aggregated_discovery()).warning(&ignored));
    }
    let shown = match endpoint(&question) {
        Some(endpoint) => Representation::negotiate(endpoint, request.headers(), uri.query())?,
        None => Representation::PLAIN,
    };
    let authorized_as = attributes(&request);
    let context = AnswerContext {
        answers,
        caller,
        catalog: &catalog,
        representation: shown,
    };
    let reply = match question {
        Question::Version => own_document(&discovery::version()?, shown),
        Question::Discovery(which) => own_document(&discovery::group_discovery(&which)?, shown),
        Question::OpenApi(which) => own_document(&group_discovery::open_api(which)?, shown),
        Question::List(list) if list.watch_options.watch => {
            let watched = context.watch_objects(&list, authorized_as).await;
            watched.map(Reply::Response)
        }
        Question::List(list) => context.list_objects(&list).await,
        Question::Aggregate(counts) => context.count_objects(&counts).await,
        Question::Objects(search) => context.search_objects(&search).await,
        Question::Search(search) => match search.watch {
            None => context.search_all_kinds(&search).await,
            Some(watch) => {
                let watched = context.watch_all_kinds(&search, watch, authorized_as);
                watched.await.map(Reply::Response)
            }
        },
        Question::Completions(completed) => context.complete_search(&completed).await,
        Question::Related(search) => context.related_objects(&search).await,
        Question::Merged(merged) => context.merged_object(&merged).await,
        Question::Images(images) => context.count_images(&images).await,
        Question::Interpret => context.interpret(request).await,
        Question::Clusters => context.report_fleet().await,
        Question::Changes(since) => {
            let body = changes::respond(&catalog, &since, answers.catalog.clone()).await?;
            Ok(Reply::Response(json(StatusCode::OK, body)))
        }
        Question::Verify(request) => verify(answers, caller, &catalog, &request).await,
    };
    reply.map(|reply| reply.warning(&ignored))
}

/// By which rules the representation of an answer is negotiated; `None` for lines of JSON, which
/// other replicas and the command line read whatever they accept.
fn endpoint(question: &Question) -> Option<Endpoint> {
    Some(match question {
        Question::Changes(_) | Question::Verify(_) => return None,
        Question::List(list) if list.watch_options.watch => Endpoint::Watch,
        Question::Search(search) if search.watch.is_some() => Endpoint::Watch,
        Question::List(_) => Endpoint::List,
        Question::Aggregate(_)
        | Question::Objects(_)
        | Question::Search(_)
        | Question::Related(_)
        | Question::Merged(_)
        | Question::Images(_) => Endpoint::Counts,
        Question::Version
        | Question::Discovery(_)
        | Question::OpenApi(_)
        | Question::Completions(_)
        | Question::Interpret
        | Question::Clusters => Endpoint::Document,
    })
}

/// Aggregated discovery of the server's own groups.
fn aggregated_discovery() -> Response {
    let body = Body::from(group_discovery::aggregated().to_string());
    let mut response = typed(StatusCode::OK, group_discovery::AGGREGATED_TYPE, body);
    let vary = HeaderValue::from_static("accept");
    response.headers_mut().insert(header::VARY, vary);
    response
}

/// A document of this server itself.
fn own_document(json: &RawValue, shown: Representation) -> Result<Reply, ApiError> {
    Ok(Reply::Response(document(json, shown)?))
}

/// Verifies the clusters that a caller may see, or those that this replica reads for another one.
async fn verify(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &VerifyRequest,
) -> Result<Reply, ApiError> {
    let verification = if request.is_of_replica {
        Verification::for_replica(catalog, &request.clusters)
    } else {
        let mode = &answers.authentication_mode;
        let visible = visible_clusters(mode, caller, catalog, &request.clusters).await?;
        Verification::of(catalog, &request.clusters, visible.as_ref())?
    };
    let body = verification.start(answers.peers.clone());
    Ok(Reply::Response(json(StatusCode::OK, body)))
}
