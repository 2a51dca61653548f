//! Handlers of lists, searches and counts, restricted to what the caller may see.

use std::sync::Arc;

use axum::{body::Body, extract::Request};
use fleetdex_core::query::{Requester, ResourceName};
use fleetdex_interpreter::results;
use fleetdex_query_api::{
    answer::Answer,
    question::{
        AggregateRequest, CompletionsRequest, ImagesRequest, ListRequest, MergedRequest,
        ObjectsRequest, RelatedRequest, SearchRequest,
    },
    rbac_attributes::Attributes,
};

use crate::{
    answers::{
        context::{AnswerContext, Answers, all_warnings},
        reply::{Reply, encoded},
        request_body::json_body,
        response::{counted_document, tagged, unknown_parameters, with_warnings},
    },
    api_error::ApiError,
    auth::{authentication_mode::AuthenticationMode, caller::Caller},
    catalog::Catalog,
    limits::{UserPermit, guarded_body::guarded},
    read::{
        aggregate, completions, explain, fleet, images,
        interpretation::{RequestInterpreter, body::InterpretRequest},
        list, merged, objects, owners,
        permitted::{VisibilityFilter, permitted_objects, visible_catalog},
        query_plan::{self, QueryPlan},
        related, search,
    },
    render::representation::{MetaVersion, OutputKind, Representation},
};

/// The attributes that the request was authorized with; none for the holder of the token file.
pub(crate) fn attributes(request: &Request) -> Option<Attributes> {
    request.extensions().get().cloned()
}

impl AnswerContext<'_> {
    /// Lists or explains objects.
    pub(crate) async fn list_objects(&self, request: &ListRequest) -> Result<Reply, ApiError> {
        let answers = self.answers;
        let query = permitted_query(answers, self.caller, self.catalog, request).await?;
        if request.options.explain {
            let explanation = Answer::Explanation(explain::list(&query.plan, request).await?);
            return Ok(self.reply(explanation, query.warnings, query.reservation));
        }
        let shown = narrowed(self.representation, request);
        // A client that lists usually watches next.
        let replication = answers.peers.subscribe(&query.plan, &request.resource);
        let _replication = replication.await?;
        let planned = answers.moves.planned(self.catalog, &answers.catalog);
        let (caller, keys) = (self.caller, &answers.keys);
        let response = list::respond(&planned, query.plan, request, shown, caller, keys).await?;
        let response = tagged(response).map(|body| reserved(body, query.reservation));
        Ok(Reply::Response(with_warnings(response, &query.warnings)))
    }

    /// Counts objects, or explains the counts.
    pub(super) async fn count_objects(
        &self,
        request: &AggregateRequest,
    ) -> Result<Reply, ApiError> {
        let list = &request.list;
        let query = permitted_query(self.answers, self.caller, self.catalog, list).await?;
        let plan = query.plan;
        aggregate::check_keys(query.catalog.find(&plan.query.resource), request)?;
        let answer = if list.options.explain {
            Answer::Explanation(explain::counts(&plan, request).await?)
        } else {
            let counted = aggregate::count(plan, request).await?;
            aggregate::answer(counted, request, self.representation.output)
        };
        Ok(self.reply(answer, query.warnings, query.reservation))
    }

    /// Searches objects of every kind.
    pub(super) async fn search_objects(&self, request: &ObjectsRequest) -> Result<Reply, ApiError> {
        let list = &request.list;
        let reservation = self.reserve_selection(list)?;
        let kinds = self.across_kinds(&list.clusters).await?;
        let (found, warnings) = objects::search(&kinds, request).await?;
        let answer = objects::answer(found, self.representation.output);
        Ok(self.reply(answer, all_warnings(&list.ignored, warnings), reservation))
    }

    /// Searches all kinds.
    pub(super) async fn search_all_kinds(
        &self,
        request: &SearchRequest,
    ) -> Result<Reply, ApiError> {
        let reservation = self.reserve_selection(&request.list)?;
        let kinds = self.across_kinds(&search::named_clusters(request)).await?;
        let (answer, warnings) = if request.explain {
            let (explanation, warnings) = search::explain(&kinds, request).await?;
            (Answer::Explanation(explanation), warnings)
        } else {
            let found = search::search(&kinds, request, &self.answers.keys, |bytes| {
                self.answers.limits.reserve_query(self.caller, bytes)
            });
            let (found, warnings) = found.await?;
            (objects::answer(found, self.representation.output), warnings)
        };
        let warnings = all_warnings(&request.list.ignored, warnings);
        Ok(self.reply(answer, warnings, reservation))
    }

    /// Completes a search.
    pub(super) async fn complete_search(
        &self,
        request: &CompletionsRequest,
    ) -> Result<Reply, ApiError> {
        let reservation = self.reserve_selection(&request.others.list)?;
        // Clusters that the caller may not see are not found; a name that is being written is no
        // reason for a refusal.
        let kinds = self.across_kinds(&[]).await?;
        let found = completions::completions(&kinds, request, |bytes| {
            self.answers.limits.reserve_query(self.caller, bytes)
        });
        let (found, warnings) = found.await?;
        let warnings = all_warnings(&request.ignored, warnings);
        Ok(self.reply(Answer::Completions(found), warnings, reservation))
    }

    /// Finds the relations of an object.
    pub(super) async fn related_objects(
        &self,
        request: &RelatedRequest,
    ) -> Result<Reply, ApiError> {
        let list = &request.list;
        let kinds = self.across_kinds(&list.clusters).await?;
        let (found, warnings) = related::search(&kinds, request).await?;
        let answer = related::answer(&found, self.representation.output);
        Ok(self.reply(answer, all_warnings(&list.ignored, warnings), Vec::new()))
    }

    /// Shows one object as all clusters have it.
    pub(super) async fn merged_object(&self, request: &MergedRequest) -> Result<Reply, ApiError> {
        let list = &request.list;
        let kinds = self.across_kinds(&list.clusters).await?;
        let interpreter = self.interpreter(&kinds.catalog);
        let (object, warnings) = merged::merge(&kinds, &interpreter, request).await?;
        let result = merged::document(&object, self.representation.output)?;
        let response = counted_document(result.get(), self.representation).await?;
        let warnings = all_warnings(&list.ignored, warnings);
        Ok(Reply::Response(with_warnings(response, &warnings)))
    }

    /// Reports how the clusters that the caller may see are read, and the registries to those who
    /// may list them.
    pub(super) async fn report_fleet(&self) -> Result<Reply, ApiError> {
        let (answers, caller) = (self.answers, self.caller);
        let mode = &answers.authentication_mode;
        let visible = visible_catalog(mode, caller, self.catalog, &[], None).await?;
        let registries = match mode {
            AuthenticationMode::LoopbackToken(_) => Some(answers.registries.statuses()),
            AuthenticationMode::Delegated(auth) => {
                let access = fleet::registries_access();
                match auth.authorizer.check(caller, &access).await {
                    Ok(()) => Some(answers.registries.statuses()),
                    Err(ApiError::Forbidden(_)) => None,
                    Err(error) => return Err(error),
                }
            }
        };
        let report = fleet::report(&visible, &answers.metrics.lags(), registries);
        Ok(self.reply(Answer::Fleet(Box::new(report)), Vec::new(), Vec::new()))
    }

    /// Counts the images of Pods.
    pub(super) async fn count_images(&self, request: &ImagesRequest) -> Result<Reply, ApiError> {
        let list = &request.list;
        let query = permitted_query(self.answers, self.caller, self.catalog, list).await?;
        let mut warnings = query.warnings;
        let (counts, incomplete) = images::count(query.plan).await?;
        warnings.extend(incomplete);
        let answer = images::answer(counts, self.representation.output);
        Ok(self.reply(answer, warnings, query.reservation))
    }

    /// Runs an operation of a resource interpreter on the object in the body.
    pub(super) async fn interpret(&self, request: Request) -> Result<Reply, ApiError> {
        let interpreter = self.interpreter(self.catalog);
        let body = json_body(&self.answers.limits, request).await?;
        let interpreted =
            interpreter.run_text(body, InterpretRequest::parse, |parsed| parsed.request());
        // The memory of the result is reserved with that of the body.
        let (_parsed, interpreted) = interpreted.await?;
        let mut result = results::object(&interpreted.response);
        result.insert(
            "interpretedBy".to_owned(),
            interpreted.interpreted_by.into(),
        );
        let response = counted_document(&encoded(&result)?, self.representation).await?;
        let warnings = interpreter.warnings();
        Ok(Reply::Response(with_warnings(response, &warnings)))
    }

    /// Runs operations for a request that begins now.
    fn interpreter(&self, catalog: &Arc<Catalog>) -> RequestInterpreter {
        let time = self.answers.limits.request_timeout;
        RequestInterpreter::new(&self.answers.interpreters, catalog, self.caller, time)
    }
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
    let mode = &answers.authentication_mode;
    let catalog = visible_catalog(mode, caller, catalog, &request.clusters, only).await?;
    let permission = permitted_objects(mode, caller, &catalog, request).await?;
    let mut plan = query_plan::plan(&catalog, request, permission.permitted)?;
    plan.query.requester = Requester::User(caller.name.as_str().into());
    let filter = VisibilityFilter {
        authentication_mode: mode,
        caller,
        catalog: &catalog,
    };
    owners::resolve(&mut plan, &request.options.owner, &filter).await?;
    // The query itself, and one translation of it for each store.
    let reservation = answers
        .limits
        .reserve_query(caller, plan.query.bytes() * (1 + plan.stores.parts().len()))?;
    let mut warnings = unknown_parameters(&request.ignored);
    warnings.extend(permission.warnings);
    warnings.extend(plan.warnings.clone());
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
