//! `SelfSubjectAccessReview` and `SelfSubjectRulesReview`: what the caller may do with the fleet.
//!
//! Clients such as k9s ask before each list, and Headlamp when it opens a cluster; without an
//! answer they show nothing. A review of `get`, `list` or `watch` is decided as such a request is.
//! About changes and connections the members decide when they get the request; of these a review is
//! a forecast: the decision of the control plane, or, where the members authorize, of any member
//! that has the resource.

use axum::{body::Body, extract::Request, response::Response};
use fleetdex_core::{model::ClusterName, query::ResourceName};
use fleetdex_query_api::{
    fleet_request::{ResourceInfo, Verb},
    question::list_of_fleet,
    rbac_attributes::{Attributes, ResourceAccess, WATCH_VERB},
    uri::RequestUri,
};
use http::{StatusCode, header};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SelfSubjectAccessReview, SelfSubjectRulesReview,
    SubjectAccessReviewStatus, SubjectRulesReviewStatus,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    super::catalog::{Catalog, RegisteredResource},
    context::ProxyContext,
    protobuf::{self, MalformedProtobuf},
};
use crate::{
    answers::{
        request_body::{json_body, read_body},
        response,
    },
    api_error::ApiError,
    auth::{authentication_mode::AuthenticationMode, reviews::Decision},
    read::permitted::permitted_objects,
};

const GROUP: &str = "authorization.k8s.io";
/// Reviews of clients have some hundred bytes.
const MAX_REVIEW_BYTES: usize = 16 << 10;
/// Fields of reviews in protobuf.
const SPEC: u64 = 2;
const RESOURCE_ATTRIBUTES: u64 = 1;
const NON_RESOURCE_ATTRIBUTES: u64 = 2;
/// What a client is to do instead of asking for all of its rights at once.
const NOT_ENUMERATED: &str =
    "the rights over a fleet are not enumerated; review one access at a time";

/// A kind of review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReviewKind {
    /// May the caller do this?
    Access,
    /// What may the caller do in a namespace?
    Rules,
}

/// The review that a request asks for, if it asks for one.
pub(super) fn review_of(info: &ResourceInfo) -> Option<ReviewKind> {
    let is_review = info.group == GROUP
        && info.version == "v1"
        && info.verb == Verb::Create
        && info.name.is_none()
        && info.namespace.is_none();
    match info.plural.as_str() {
        "selfsubjectaccessreviews" if is_review => Some(ReviewKind::Access),
        "selfsubjectrulesreviews" if is_review => Some(ReviewKind::Rules),
        _ => None,
    }
}

/// Answers a review.
pub(super) async fn handle(
    context: &ProxyContext<'_>,
    cluster: Option<ClusterName>,
    kind: ReviewKind,
    request: Request,
) -> Result<Response, ApiError> {
    match kind {
        ReviewKind::Access => {
            let mut review = body_of(context, request, access_review).await?;
            review.status = Some(decide(context, cluster, &review).await?);
            created(&review)
        }
        ReviewKind::Rules => {
            let mut review = body_of(context, request, rules_review).await?;
            review.status = Some(SubjectRulesReviewStatus {
                incomplete: true,
                evaluation_error: Some(NOT_ENUMERATED.to_owned()),
                ..SubjectRulesReviewStatus::default()
            });
            created(&review)
        }
    }
}

/// The review in a body: JSON, or protobuf as kubectl sends it.
async fn body_of<R: DeserializeOwned>(
    context: &ProxyContext<'_>,
    request: Request,
    in_protobuf: impl Fn(&[u8]) -> Result<R, MalformedProtobuf>,
) -> Result<R, ApiError> {
    let unreadable =
        |problem: String| ApiError::bad_request(format!("the review cannot be read: {problem}"));
    let limits = &context.answers.limits;
    let media_type = request.headers().get(header::CONTENT_TYPE);
    if media_type.is_some_and(|media_type| media_type == protobuf::MEDIA_TYPE) {
        let body = read_body(limits, request.into_body()).await?;
        check_length(&body)?;
        return in_protobuf(&body).map_err(|error| unreadable(error.to_string()));
    }
    let body = json_body(limits, request).await?;
    check_length(&body)?;
    serde_json::from_slice(&body).map_err(|error| unreadable(error.to_string()))
}

/// A review is parsed, which takes several times its text.
fn check_length(body: &[u8]) -> Result<(), ApiError> {
    if body.len() > MAX_REVIEW_BYTES {
        return Err(ApiError::TooLarge(MAX_REVIEW_BYTES));
    }
    Ok(())
}

/// Source of the numbers: `generated.proto` of <https://pkg.go.dev/k8s.io/api/authorization/v1>
fn access_review(body: &[u8]) -> Result<SelfSubjectAccessReview, MalformedProtobuf> {
    let mut review = SelfSubjectAccessReview::default();
    if let Some(mut texts) = protobuf::texts(body, &[SPEC, RESOURCE_ATTRIBUTES])? {
        review.spec.resource_attributes = Some(ResourceAttributes {
            namespace: texts.remove(&1),
            verb: texts.remove(&2),
            group: texts.remove(&3),
            version: texts.remove(&4),
            resource: texts.remove(&5),
            subresource: texts.remove(&6),
            name: texts.remove(&7),
            ..ResourceAttributes::default()
        });
    }
    if let Some(mut texts) = protobuf::texts(body, &[SPEC, NON_RESOURCE_ATTRIBUTES])? {
        review.spec.non_resource_attributes = Some(NonResourceAttributes {
            path: texts.remove(&1),
            verb: texts.remove(&2),
        });
    }
    Ok(review)
}

fn rules_review(body: &[u8]) -> Result<SelfSubjectRulesReview, MalformedProtobuf> {
    let mut review = SelfSubjectRulesReview::default();
    let texts = protobuf::texts(body, &[SPEC])?;
    review.spec.namespace = texts.and_then(|mut texts| texts.remove(&1));
    Ok(review)
}

fn created(review: &impl Serialize) -> Result<Response, ApiError> {
    let text = serde_json::to_string(review)
        .map_err(|error| ApiError::Internal(format!("cannot write the review: {error}")))?;
    Ok(response::json(StatusCode::CREATED, Body::from(text)))
}

async fn decide(
    context: &ProxyContext<'_>,
    cluster: Option<ClusterName>,
    review: &SelfSubjectAccessReview,
) -> Result<SubjectAccessReviewStatus, ApiError> {
    let decision = match (
        &review.spec.resource_attributes,
        &review.spec.non_resource_attributes,
    ) {
        (Some(attributes), None) => of_resource(context, cluster, attributes).await?,
        (None, Some(attributes)) => of_path(attributes),
        _ => {
            return Err(ApiError::bad_request(
                "a review needs either spec.resourceAttributes or spec.nonResourceAttributes",
            ));
        }
    };
    Ok(match decision {
        Decision::Allowed => SubjectAccessReviewStatus {
            allowed: true,
            ..SubjectAccessReviewStatus::default()
        },
        Decision::Denied(reason) => SubjectAccessReviewStatus {
            reason: Some(reason),
            ..SubjectAccessReviewStatus::default()
        },
    })
}

/// Discovery, the version and `OpenAPI` are there for all callers, and nothing else is.
fn of_path(attributes: &NonResourceAttributes) -> Decision {
    match attributes.verb.as_deref() {
        Some("get" | "head") => Decision::Allowed,
        _ => Decision::Denied("non-resource paths of a fleet can only be read".to_owned()),
    }
}

async fn of_resource(
    context: &ProxyContext<'_>,
    cluster: Option<ClusterName>,
    attributes: &ResourceAttributes,
) -> Result<Decision, ApiError> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let resource = ResourceName::new(&text(&attributes.group), &text(&attributes.resource));
    let named: Vec<ClusterName> = cluster.iter().cloned().collect();
    let catalog = context.visible_catalog(&named, Some(&resource)).await?;
    let Some(registered) = catalog.find(&resource) else {
        let reason = format!("no ResourceRegistry selects {}", resource.plural);
        return Ok(Decision::Denied(reason));
    };
    let info = resource_info(attributes, registered)?;
    let verb = text(&attributes.verb);
    let is_read = matches!(verb.as_str(), "get" | "list" | WATCH_VERB);
    if !is_read || info.subresource.is_some() {
        return forecast(context, &catalog, &info, &verb, &named).await;
    }
    let path = info.path();
    let query = (verb == WATCH_VERB).then_some("watch=true");
    let uri = RequestUri::parse(&path, query)?;
    let list = list_of_fleet(&uri, &info.segments(), cluster)?;
    let mode = &context.answers.authentication_mode;
    match permitted_objects(mode, context.caller, &catalog, &list).await {
        Ok(_) => Ok(Decision::Allowed),
        Err(ApiError::Forbidden(forbidden)) => Ok(Decision::Denied(forbidden.message)),
        Err(error) => Err(error),
    }
}

/// The resource of a review; a version that is not named is the first that clusters are read in.
fn resource_info(
    attributes: &ResourceAttributes,
    registered: &RegisteredResource,
) -> Result<ResourceInfo, ApiError> {
    let given = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
    let namespace = given(&attributes.namespace).filter(|_| registered.namespaced);
    let namespace = namespace.map(|name| name.parse()).transpose();
    let version = given(&attributes.version).filter(|version| version != "*");
    Ok(ResourceInfo {
        verb: Verb::Get,
        group: attributes.group.clone().unwrap_or_default(),
        version: version
            .or_else(|| registered.versions.first().map(ToString::to_string))
            .unwrap_or_default(),
        plural: attributes.resource.clone().unwrap_or_default(),
        namespace: namespace.map_err(|error| {
            ApiError::bad_request(format!("spec.resourceAttributes.namespace: {error}"))
        })?,
        name: given(&attributes.name),
        subresource: given(&attributes.subresource),
        rest: Vec::new(),
        ends_with_slash: false,
    })
}

async fn forecast(
    context: &ProxyContext<'_>,
    catalog: &Catalog,
    info: &ResourceInfo,
    verb: &str,
    named: &[ClusterName],
) -> Result<Decision, ApiError> {
    let AuthenticationMode::Delegated(auth) = &context.answers.authentication_mode else {
        return Ok(Decision::Allowed);
    };
    let attributes = Attributes::Resource(ResourceAccess {
        verb: verb.to_owned(),
        group: info.group.clone(),
        version: info.version.clone(),
        resource: info.plural.clone(),
        subresource: info.subresource.clone(),
        name: info.name.clone(),
        namespace: info.namespace.as_ref().map(ToString::to_string),
    });
    let clusters: Vec<ClusterName> = match named {
        [] => catalog.clusters().iter().cloned().collect(),
        named => named.to_vec(),
    };
    let authorizer = &auth.authorizer;
    Ok(authorizer
        .forecast(context.caller, &attributes, &clusters)
        .await?)
}
