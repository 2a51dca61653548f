//! Answers to lists, watches and counts of objects, restricted to what the caller may see.

use std::sync::Arc;

use axum::{body::Body, extract::Request, http::StatusCode, response::Response};
use fleetdex_core::query::{Requester, ResourceName};

use super::{
    aggregate,
    api::Api,
    caller::Caller,
    catalog::Catalog,
    explain,
    front::{attributes::Attributes, limits::UserShare},
    holding::holding,
    list,
    listen::delivery::EndsBy,
    owners,
    permission::{Sight, permission, sight, standing},
    representation::{Form, MetaVersion, Representation},
    request::{AggregateRequest, ListRequest},
    respond::{document, json, tagged, unknown_parameters, with_warnings},
    status::ApiError,
    target::{Target, target},
    watching::{self, Lasting},
};

/// What a request was let in as, where somebody was asked.
pub(super) fn attributes(request: &Request) -> Option<Attributes> {
    request.extensions().get().cloned()
}

pub(super) async fn answer_list(
    api: &Api,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    wanted: &ListRequest,
    representation: Representation,
) -> Result<Response, ApiError> {
    let Found {
        target: found,
        warnings,
        question,
        ..
    } = permitted_target(api, caller, catalog, wanted).await?;
    if wanted.options.explain {
        let explained = explain::list(&found, wanted).await?;
        return Ok(with_warnings(
            document(&explained, representation)?,
            &warnings,
        ));
    }
    let representation = narrowed(representation, wanted);
    // Somebody who lists may watch next.
    let _following = api.peers.follow(&found, &wanted.native).await?;
    let response = tagged(list::answer(found, wanted, representation, caller, &api.keys).await?);
    Ok(with_warnings(
        response.map(|body| held(body, question)),
        &warnings,
    ))
}

pub(super) async fn answer_counts(
    api: &Api,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    wanted: &AggregateRequest,
    representation: Representation,
) -> Result<Response, ApiError> {
    let Found {
        target: found,
        warnings,
        question: _question,
        ..
    } = permitted_target(api, caller, catalog, &wanted.list).await?;
    let answer = if wanted.list.options.explain {
        explain::counts(&found, wanted).await?
    } else {
        aggregate::answer(
            &aggregate::count(found, wanted).await?,
            wanted,
            representation.form,
        )?
    };
    Ok(with_warnings(document(&answer, representation)?, &warnings))
}

pub(super) async fn answer_watch(
    api: &Api,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    wanted: &ListRequest,
    representation: Representation,
    let_in_as: Option<Attributes>,
) -> Result<Response, ApiError> {
    let everything = Arc::clone(catalog);
    let Found {
        target: found,
        warnings,
        catalog,
        question,
    } = permitted_target(api, caller, catalog, wanted).await?;
    let representation = narrowed(representation, wanted);
    let lasting = if wanted.rewrites_version {
        Lasting::Long
    } else {
        Lasting::Short
    };
    let following = api.peers.follow(&found, &wanted.native).await?;
    following.check(&catalog)?;
    let standing = standing(&api.gate, caller, wanted, &found.query.permitted, let_in_as);
    let (body, ends) = watching::answer(
        &everything,
        found,
        wanted,
        representation,
        lasting,
        &following,
        api.catalog.clone(),
    )
    .await?;
    let body = match standing {
        Some(standing) => watching::ended_by(body, standing.lost()),
        None => body,
    };
    let mut response = json(StatusCode::OK, held(body, question));
    response.extensions_mut().insert(EndsBy(ends));
    Ok(with_warnings(response, &warnings))
}

/// What answers a caller.
pub(super) struct Found {
    /// The store and what it is asked, restricted to what the caller may see.
    pub(super) target: Target,
    /// What the caller should know about the answer.
    warnings: Vec<String>,
    /// What the caller may know of.
    catalog: Arc<Catalog>,
    /// The memory that the question takes, to be held as long as it is kept.
    question: Vec<UserShare>,
}

/// Finds what answers a caller.
pub(super) async fn permitted_target(
    api: &Api,
    caller: &Caller,
    catalog: &Arc<Catalog>,
    wanted: &ListRequest,
) -> Result<Found, ApiError> {
    let resource = ResourceName::new(&wanted.native.group, &wanted.native.plural);
    // Owners may be of any resource.
    let only = (!wanted.options.owner.is_asked()).then_some(&resource);
    let catalog = sight(&api.gate, caller, catalog, &wanted.clusters, only).await?;
    let permission = permission(&api.gate, caller, &catalog, wanted).await?;
    let mut found = target(&catalog, wanted, permission.permitted)?;
    found.query.requester = Requester::User(caller.name.as_str().into());
    owners::resolve(
        &mut found,
        &wanted.options.owner,
        &Sight {
            gate: &api.gate,
            caller,
            catalog: &catalog,
        },
    )
    .await?;
    // In the query, and in what each store makes of it.
    let question = api.limits.question(
        caller,
        found.query.bytes() * (1 + found.stores.parts().len()),
    )?;
    let warnings = unknown_parameters(&wanted.ignored)
        .into_iter()
        .chain(permission.warnings)
        .chain(found.warnings.clone())
        .collect();
    Ok(Found {
        target: found,
        warnings,
        catalog,
        question,
    })
}

/// The parameter `onlyMetadata` says the same as a media type does, which wins.
fn narrowed(representation: Representation, wanted: &ListRequest) -> Representation {
    match representation.form {
        Form::Whole if wanted.options.only_metadata => Representation {
            form: Form::Metadata(MetaVersion::V1),
            ..representation
        },
        _ => representation,
    }
}

/// The same body, which holds the memory of its question.
fn held(body: Body, question: Vec<UserShare>) -> Body {
    if question.is_empty() {
        body
    } else {
        holding(body, question)
    }
}
