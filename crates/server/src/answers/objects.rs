//! Handlers of lists, searches and counts, restricted to what the caller may see.

use std::sync::Arc;

use axum::{body::Body, extract::Request};
use fleetdex_core::{
    model::ClusterName,
    query::{Requester, ResourceName},
};
use fleetdex_interpreter::results;
use fleetdex_query_api::{
    access::Attributes,
    answer::Answer,
    question::{
        AggregateRequest, ImagesRequest, ListRequest, MergedRequest, ObjectsRequest,
        RelatedRequest, SearchRequest,
    },
};

use crate::{
    answers::{
        reply::{Reply, UnencodedAnswer, encoded},
        request_body::json_body,
        response::{counted_document, tagged, unknown_parameters, with_warnings},
        state::Answers,
    },
    api_error::ApiError,
    auth::{authentication_mode::AuthenticationMode, caller::Caller},
    catalog::Catalog,
    limits::{UserPermit, guarded_body::guarded},
    read::{
        across_kinds::AcrossKinds,
        aggregate, explain, fleet, images,
        interpretation::{RequestInterpreter, body::InterpretRequest},
        list, merged, objects, owners,
        query_plan::{self, QueryPlan, bounded},
        related, search,
        visible_objects::{VisibilityFilter, permitted_objects, visible_catalog},
    },
    render::representation::{MetaVersion, OutputKind, Representation},
};

/// Bytes that one byte of a selection across kinds takes at most: in the queries that are in
/// flight, parsed and translated.
const SELECTION_COPIES: usize = 16;

/// The attributes that the request was authorized with; none for the holder of the token file.
pub(crate) fn attributes(request: &Request) -> Option<Attributes> {
    request.extensions().get().cloned()
}

/// Lists or explains objects.
pub(crate) async fn list_objects(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &ListRequest,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let PermittedQuery {
        plan,
        warnings,
        reservation,
        ..
    } = permitted_query(answers, caller, catalog, request).await?;
    if request.options.explain {
        return Ok(Reply::from(UnencodedAnswer {
            answer: Answer::Explanation(explain::list(&plan, request).await?),
            warnings,
            representation,
            reservation,
        }));
    }
    let representation = narrowed(representation, request);
    // A client that lists usually watches next.
    let _replication = answers.peers.subscribe(&plan, &request.resource).await?;
    let planned = answers.moves.planned(catalog, &answers.catalog);
    let keys = &answers.keys;
    let response = list::respond(&planned, plan, request, representation, caller, keys).await?;
    let response = tagged(response).map(|body| reserved(body, reservation));
    Ok(Reply::Response(with_warnings(response, &warnings)))
}

/// Counts objects, or explains the counts.
pub(crate) async fn count_objects(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &AggregateRequest,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let PermittedQuery {
        plan,
        warnings,
        catalog,
        reservation,
    } = permitted_query(answers, caller, catalog, &request.list).await?;
    aggregate::check_keys(catalog.find(&plan.query.resource), request)?;
    let answer = if request.list.options.explain {
        Answer::Explanation(explain::counts(&plan, request).await?)
    } else {
        let counted = aggregate::count(plan, request).await?;
        aggregate::answer(counted, request, representation.output)
    };
    Ok(Reply::from(UnencodedAnswer {
        answer,
        warnings,
        representation,
        reservation,
    }))
}

/// Searches objects of every kind.
pub(crate) async fn search_objects(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &ObjectsRequest,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let list = &request.list;
    let reservation = reserve_selection(answers, caller, list)?;
    let kinds = across_kinds(answers, caller, catalog, &list.clusters).await?;
    let (found, warnings) = objects::search(&kinds, request).await?;
    let answer = objects::answer(found, representation.output);
    let warnings = all_warnings(&list.ignored, warnings);
    Ok(Reply::from(UnencodedAnswer {
        answer,
        warnings,
        representation,
        reservation,
    }))
}

/// Searches all kinds.
pub(crate) async fn search_all_kinds(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &SearchRequest,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let list = &request.list;
    let reservation = reserve_selection(answers, caller, list)?;
    let named = search::named_clusters(request);
    let kinds = across_kinds(answers, caller, catalog, &named).await?;
    let (answer, warnings) = if request.explain {
        let (explanation, warnings) = search::explain(&kinds, request).await?;
        (Answer::Explanation(explanation), warnings)
    } else {
        let found = search::search(&kinds, request, &answers.keys, |bytes| {
            answers.limits.reserve_query(caller, bytes)
        });
        let (found, warnings) = found.await?;
        (objects::answer(found, representation.output), warnings)
    };
    let warnings = all_warnings(&list.ignored, warnings);
    Ok(Reply::from(UnencodedAnswer {
        answer,
        warnings,
        representation,
        reservation,
    }))
}

/// Finds the relations of an object.
pub(crate) async fn related_objects(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &RelatedRequest,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let list = &request.list;
    let kinds = across_kinds(answers, caller, catalog, &list.clusters).await?;
    let (found, warnings) = related::search(&kinds, request).await?;
    let answer = related::answer(&found, representation.output);
    let warnings = all_warnings(&list.ignored, warnings);
    Ok(Reply::from(UnencodedAnswer {
        answer,
        warnings,
        representation,
        reservation: Vec::new(),
    }))
}

/// Shows one object as all clusters have it.
pub(crate) async fn merged_object(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &MergedRequest,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let list = &request.list;
    let kinds = across_kinds(answers, caller, catalog, &list.clusters).await?;
    let interpreter = interpreter(answers, kinds.catalog(), caller);
    let (object, warnings) = merged::merge(&kinds, &interpreter, request).await?;
    let result = merged::document(&object, representation.output)?;
    let response = counted_document(result.get(), representation).await?;
    let warnings = all_warnings(&list.ignored, warnings);
    Ok(Reply::Response(with_warnings(response, &warnings)))
}

/// Reports how the clusters that the caller may see are read, and the registries to those who may
/// list them.
pub(crate) async fn report_fleet(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let mode = &answers.authentication_mode;
    let visible = visible_catalog(mode, caller, catalog, &[], None).await?;
    let registries = match mode {
        AuthenticationMode::LoopbackToken(_) => Some(answers.registries.statuses()),
        AuthenticationMode::Delegated(auth) => {
            let access = fleet::registries_access();
            match auth.authorizer().check(caller, &access).await {
                Ok(()) => Some(answers.registries.statuses()),
                Err(ApiError::Forbidden(_)) => None,
                Err(error) => return Err(error),
            }
        }
    };
    let report = fleet::report(&visible, &answers.metrics.lags(), registries);
    let answer = Answer::Fleet(Box::new(report));
    Ok(Reply::from(UnencodedAnswer {
        answer,
        warnings: Vec::new(),
        representation,
        reservation: Vec::new(),
    }))
}

/// Counts the images of Pods.
pub(crate) async fn count_images(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &ImagesRequest,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let PermittedQuery {
        plan,
        mut warnings,
        reservation,
        ..
    } = permitted_query(answers, caller, catalog, &request.list).await?;
    let (counts, incomplete) = images::count(plan).await?;
    warnings.extend(incomplete);
    let answer = images::answer(counts, representation.output);
    Ok(Reply::from(UnencodedAnswer {
        answer,
        warnings,
        representation,
        reservation,
    }))
}

/// Runs an operation of a resource interpreter on the object in the body.
pub(crate) async fn interpret(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: Request,
    representation: Representation,
) -> Result<Reply, ApiError> {
    let interpreter = interpreter(answers, catalog, caller);
    let body = json_body(&answers.limits, request).await?;
    let interpreted =
        interpreter.run_text(body, InterpretRequest::parse, |parsed| parsed.request());
    // The memory of the result is reserved with that of the body.
    let (_parsed, interpreted) = interpreted.await?;
    let mut result = results::object(&interpreted.response);
    result.insert(
        "interpretedBy".to_owned(),
        interpreted.interpreted_by.into(),
    );
    let response = counted_document(&encoded(&result)?, representation).await?;
    Ok(Reply::Response(with_warnings(
        response,
        &interpreter.warnings(),
    )))
}

/// Runs operations for a request that begins now.
fn interpreter(answers: &Answers, catalog: &Arc<Catalog>, caller: &Caller) -> RequestInterpreter {
    let time = answers.limits.request_timeout();
    RequestInterpreter::new(&answers.interpreters, catalog, caller, time)
}

/// The memory of a selection that is sent to the store of every kind, a few at a time.
pub(super) fn reserve_selection(
    answers: &Answers,
    caller: &Caller,
    list: &ListRequest,
) -> Result<Vec<UserPermit>, ApiError> {
    let selectors = list.labels.to_string().len() + list.fields.to_string().len();
    let names: usize = list.names.iter().map(String::len).sum();
    let namespaces: usize = list.namespaces.iter().map(|name| name.as_str().len()).sum();
    let search = list.search.as_ref().map_or(0, String::len);
    let bytes = selectors + names + namespaces + search;
    answers
        .limits
        .reserve_query(caller, bytes * SELECTION_COPIES)
}

/// What a request across kinds may search.
pub(super) async fn across_kinds<'s>(
    answers: &'s Answers,
    caller: &'s Caller,
    catalog: &Arc<Catalog>,
    named: &[ClusterName],
) -> Result<AcrossKinds<'s>, ApiError> {
    let (mode, permits) = (&answers.authentication_mode, answers.limits.search_pages());
    AcrossKinds::new(mode, permits, caller, catalog, named).await
}

/// The warnings of an answer about several kinds: about ignored parameters, and what is missing.
pub(super) fn all_warnings(ignored: &[String], warnings: Vec<String>) -> Vec<String> {
    let mut all = unknown_parameters(ignored);
    all.extend(bounded(warnings));
    all
}

/// A query plan for a caller.
pub(crate) struct PermittedQuery {
    /// The plan, restricted to what the caller may see.
    pub(crate) plan: QueryPlan,
    /// Warnings for the caller.
    pub(super) warnings: Vec<String>,
    /// The part of the catalog that the caller may see.
    pub(super) catalog: Arc<Catalog>,
    /// The memory of the query, reserved for as long as the query is held.
    pub(super) reservation: Vec<UserPermit>,
}

/// Plans a query, restricted to what the caller may see.
pub(crate) async fn permitted_query(
    answers: &Answers,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    request: &ListRequest,
) -> Result<PermittedQuery, ApiError> {
    let resource = ResourceName::new(&request.resource.group, &request.resource.plural);
    // Owners may be of any resource.
    let only = (!request.options.owner.is_given()).then_some(&resource);
    let catalog = visible_catalog(
        &answers.authentication_mode,
        caller,
        catalog,
        &request.clusters,
        only,
    )
    .await?;
    let permission =
        permitted_objects(&answers.authentication_mode, caller, &catalog, request).await?;
    let mut plan = query_plan::plan(&catalog, request, permission.permitted)?;
    plan.query.requester = Requester::User(caller.name.as_str().into());
    owners::resolve(
        &mut plan,
        &request.options.owner,
        &VisibilityFilter {
            authentication_mode: &answers.authentication_mode,
            caller,
            catalog: &catalog,
        },
    )
    .await?;
    // The query itself, and one translation of it for each store.
    let reservation = answers
        .limits
        .reserve_query(caller, plan.query.bytes() * (1 + plan.stores.parts().len()))?;
    let warnings = unknown_parameters(&request.ignored)
        .into_iter()
        .chain(permission.warnings)
        .chain(plan.warnings.clone())
        .collect();
    Ok(PermittedQuery {
        plan,
        warnings,
        catalog,
        reservation,
    })
}

/// Applies the parameter `onlyMetadata`, unless the media type asks for something else.
pub(super) fn narrowed(representation: Representation, request: &ListRequest) -> Representation {
    match representation.output {
        OutputKind::Object if request.options.only_metadata => Representation {
            output: OutputKind::PartialMetadata(MetaVersion::V1),
            ..representation
        },
        _ => representation,
    }
}

/// Keeps the memory of the query reserved until the body is dropped.
pub(super) fn reserved(body: Body, reservation: Vec<UserPermit>) -> Body {
    if reservation.is_empty() {
        body
    } else {
        guarded(body, reservation)
    }
}
