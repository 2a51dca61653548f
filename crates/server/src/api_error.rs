//! Errors of requests, and their `metav1.Status`.
//!
//! Source of codes and reasons:
//! <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/>

mod store_error;
#[cfg(test)]
mod tests;

use std::fmt;

use fleetdex_core::model::{ClusterName, qualified};
use fleetdex_query_api::{error::QuestionError, question::ResourcePath};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

/// Seconds after which a client should retry.
pub const RETRY_AFTER_SECONDS: i32 = 1;

/// The API group of webhook configurations.
const CONFIGURATION_GROUP: &str = "config.karmada.io";

/// A request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// A part of the request is invalid; the message names it.
    #[error("{0}")]
    BadRequest(String),
    /// No token, or another one than the token file's.
    #[error("Unauthorized: send the server's token as `Authorization: Bearer <token>`")]
    Unauthorized,
    /// The caller could not be authenticated.
    #[error("Unauthorized")]
    Unauthenticated,
    /// The caller is not authorized.
    #[error("{}", .0.message)]
    Forbidden(Box<Forbidden>),
    /// Too many requests in flight, of this user or of all users.
    #[error("too many requests are in flight, of this user or of all users; try again")]
    TooManyRequests,
    /// The body is too large.
    #[error("the body of the request is longer than {0} bytes")]
    TooLarge(usize),
    /// The body takes too much memory when it is parsed.
    #[error("the body of the request takes more than {} MiB of memory when it is parsed; send an object with fewer members", .0 >> 20)]
    TooLargeParsed(usize),
    /// The request timed out.
    #[error("the request took longer than {0} s; ask for less, or try again")]
    RequestTimeout(u64),
    /// The API has no such path.
    #[error("the server could not find {path}")]
    NoSuchPath {
        /// The path.
        path: String,
    },
    /// The path is not served; the message says which paths are.
    #[error("{0}")]
    NotFound(String),
    /// The catalog does not have the resource, or this version of it.
    #[error("{message}")]
    NotRegistered {
        /// API group; empty for the core group.
        group: String,
        /// Plural.
        plural: String,
        /// What is missing, and how to add it.
        message: String,
    },
    /// No member cluster has this name.
    #[error("clusters.search.fleetdex.io {:?} not found: no ResourceRegistry selects a member of this name", .0.as_str())]
    NoSuchCluster(ClusterName),
    /// No member cluster has this object.
    #[error("{0} not found")]
    NoSuchObject(RequestedObject),
    /// Several member clusters have an object of this name, and the request is for one.
    #[error("{object} is in several clusters: {}; {remedy}", names(clusters))]
    Ambiguous {
        /// The object.
        object: RequestedObject,
        /// The clusters that have it.
        clusters: Vec<ClusterName>,
        /// How to choose one.
        remedy: String,
    },
    /// The write is based on a state that is not the current one.
    #[error("Operation cannot be fulfilled on {object}: {problem}")]
    Conflict {
        /// The object.
        object: RequestedObject,

        /// What the conflict is, and what to do.
        problem: String,
    },
    /// A feature of Kubernetes that a fleet does not have; the message says what to do instead.
    #[error("{0}")]
    NotServed(String),
    /// The media type of the body is not supported.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// The body is well-formed, and what it asks for is impossible; the message says why.
    #[error("{0}")]
    Unprocessable(String),
    /// The interpreter webhook that decides has no answer.
    #[error("{}", .0.message)]
    Webhook(Box<WebhookFailure>),
    /// A member cluster did not respond in time.
    #[error(
        "cluster {cluster} did not answer within {seconds} s; whether a write was carried out is not known"
    )]
    MemberTimeout {
        /// The member.
        cluster: ClusterName,
        /// The timeout.
        seconds: u64,
    },
    /// The path is served with other methods.
    #[error("method {method} is not served here; use {allowed}")]
    MethodNotAllowed {
        /// The method of the request.
        method: String,
        /// The methods that are served.
        allowed: &'static str,
    },
    /// None of the accepted media types is served.
    #[error(
        "none of the accepted media types ({0}) is served here; accept application/json or application/yaml"
    )]
    NotAcceptable(String),
    /// A continue token whose snapshot is gone.
    #[error("the continue token has expired; start the list again without it")]
    Expired,
    /// A continue token whose snapshot was closed for other lists of the same user.
    #[error("{0}")]
    Superseded(String),
    /// A continue token from before the caller's rights changed.
    #[error(
        "what you may see has changed since the first page; start the list again without the continue token"
    )]
    PermissionChanged,
    /// A resource version that the log no longer holds, or never held.
    #[error("too old resource version: {0}; list again, and watch from there")]
    VersionExpired(String),
    /// A resource version that the index has not reached yet.
    #[error("Too large resource version: the index does not show it yet; try again")]
    VersionNotReached,
    /// Too many paged lists are open.
    #[error("{0}")]
    Crowded(String),
    /// The store is overloaded.
    #[error("{0}; try again")]
    Busy(String),
    /// The store cannot be reached, or refuses the server's requests.
    #[error("{0}")]
    Unavailable(String),
    /// The store did not respond in time.
    #[error("the store did not answer within {0} s; ask for less, or try again")]
    Timeout(u64),
    /// The response of the store is invalid, or the store refused a request of the server.
    #[error("{0}")]
    Internal(String),
}

/// An object that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedObject {
    group: String,
    plural: String,
    name: String,
}

impl RequestedObject {
    /// The object of this name of a resource.
    pub fn new(group: &str, plural: &str, name: Option<&str>) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
            name: name.unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for RequestedObject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = qualified(&self.plural, &self.group);
        write!(out, "{resource} {:?}", self.name)
    }
}

/// A refusal by the authorizer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forbidden {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural; empty for a non-resource path.
    pub resource: String,
    /// The object, if the request names one.
    pub name: String,
    /// The whole message.
    pub message: String,
}

/// An interpreter webhook without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookFailure {
    /// The kind of the configuration.
    pub kind: &'static str,
    /// The name of the configuration.
    pub configuration: String,
    /// The name of the webhook in it.
    pub webhook: String,
    /// Whether it was reached: then it says why there is no answer, or its answer is invalid.
    pub was_reached: bool,
    /// Why there is no answer.
    pub cause: String,
    /// The whole message.
    pub message: String,
}

impl From<WebhookFailure> for ApiError {
    fn from(failure: WebhookFailure) -> Self {
        Self::Webhook(Box::new(failure))
    }
}

impl From<QuestionError> for ApiError {
    fn from(error: QuestionError) -> Self {
        match error {
            QuestionError::Invalid(message) => Self::BadRequest(message),
            QuestionError::NoSuchPath { path } => Self::NoSuchPath { path },
            QuestionError::NotFound(message) => Self::NotFound(message),
            QuestionError::MethodNotAllowed { method, allowed } => {
                Self::MethodNotAllowed { method, allowed }
            }
        }
    }
}

impl From<Forbidden> for ApiError {
    fn from(forbidden: Forbidden) -> Self {
        Self::Forbidden(Box::new(forbidden))
    }
}

impl ApiError {
    /// A [`BadRequest`](Self::BadRequest).
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::BadRequest(message.into())
    }

    /// The refusal of an object that no cluster has.
    pub fn no_such_object(resource: &ResourcePath) -> Self {
        let name = resource.name.as_deref();
        Self::NoSuchObject(RequestedObject::new(
            &resource.group,
            &resource.plural,
            name,
        ))
    }

    /// The HTTP status.
    pub fn code(&self) -> u16 {
        self.code_and_reason().0
    }

    /// The body for the client.
    pub fn status(&self) -> Status {
        let (code, reason) = self.code_and_reason();
        Status {
            code: Some(i32::from(code)),
            details: self.details(),
            message: Some(self.to_string()),
            reason: Some(reason.to_owned()),
            status: Some("Failure".to_owned()),
            ..Status::default()
        }
    }

    fn code_and_reason(&self) -> (u16, &'static str) {
        match self {
            Self::BadRequest(_) => (400, "BadRequest"),
            Self::Unauthorized | Self::Unauthenticated => (401, "Unauthorized"),
            Self::Forbidden(_) => (403, "Forbidden"),
            Self::NoSuchPath { .. }
            | Self::NotFound(_)
            | Self::NotRegistered { .. }
            | Self::NoSuchCluster(_)
            | Self::NoSuchObject(_) => (404, "NotFound"),
            Self::MethodNotAllowed { .. } | Self::NotServed(_) => (405, "MethodNotAllowed"),
            Self::NotAcceptable(_) => (406, "NotAcceptable"),
            Self::Ambiguous { .. } | Self::Conflict { .. } => (409, "Conflict"),
            Self::Expired
            | Self::Superseded(_)
            | Self::PermissionChanged
            | Self::VersionExpired(_) => (410, "Expired"),
            Self::TooLarge(_) | Self::TooLargeParsed(_) => (413, "RequestEntityTooLarge"),
            Self::UnsupportedMediaType(_) => (415, "UnsupportedMediaType"),
            Self::Unprocessable(_) => (422, "Invalid"),
            Self::Busy(_) | Self::Crowded(_) | Self::TooManyRequests => (429, "TooManyRequests"),
            Self::Webhook(failure) if failure.was_reached => (422, "Invalid"),
            Self::Internal(_) => (500, "InternalError"),
            Self::Unavailable(_) | Self::Webhook(_) => (503, "ServiceUnavailable"),
            Self::Timeout(_)
            | Self::RequestTimeout(_)
            | Self::MemberTimeout { .. }
            | Self::VersionNotReached => (504, "Timeout"),
        }
    }

    fn details(&self) -> Option<StatusDetails> {
        match self {
            Self::NotRegistered { group, plural, .. } => Some(StatusDetails {
                group: given(group),
                kind: Some(plural.clone()),
                ..StatusDetails::default()
            }),
            Self::NoSuchObject(object) | Self::Conflict { object, .. } => {
                Some(object_details(&object.group, &object.plural, &object.name))
            }
            Self::Ambiguous {
                object, clusters, ..
            } => Some(StatusDetails {
                causes: Some(clusters.iter().map(cause).collect()),
                ..object_details(&object.group, &object.plural, &object.name)
            }),
            Self::Webhook(failure) => Some(failure.details()),
            Self::NoSuchCluster(cluster) => Some(object_details(
                "search.fleetdex.io",
                "clusters",
                cluster.as_str(),
            )),
            Self::VersionNotReached => Some(StatusDetails {
                causes: Some(vec![StatusCause {
                    reason: Some("ResourceVersionTooLarge".to_owned()),
                    message: Some("Too large resource version".to_owned()),
                    field: None,
                }]),
                retry_after_seconds: Some(RETRY_AFTER_SECONDS),
                ..StatusDetails::default()
            }),
            Self::Forbidden(forbidden) => Some(StatusDetails {
                group: given(&forbidden.group),
                kind: given(&forbidden.resource),
                name: given(&forbidden.name),
                ..StatusDetails::default()
            }),
            Self::Busy(_) | Self::Crowded(_) | Self::TooManyRequests => Some(StatusDetails {
                retry_after_seconds: Some(RETRY_AFTER_SECONDS),
                ..StatusDetails::default()
            }),
            _ => None,
        }
    }
}

impl WebhookFailure {
    fn details(&self) -> StatusDetails {
        StatusDetails {
            causes: Some(vec![StatusCause {
                field: Some(format!("webhooks[{}]", self.webhook)),
                message: Some(self.cause.clone()),
                reason: Some("WebhookFailed".to_owned()),
            }]),
            ..object_details(CONFIGURATION_GROUP, self.kind, &self.configuration)
        }
    }
}

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn object_details(group: &str, plural: &str, name: &str) -> StatusDetails {
    StatusDetails {
        group: given(group),
        kind: Some(plural.to_owned()),
        name: Some(name.to_owned()),
        ..StatusDetails::default()
    }
}

/// One of several clusters, as a cause that programs can read.
fn cause(cluster: &ClusterName) -> StatusCause {
    StatusCause {
        field: Some("cluster".to_owned()),
        message: Some(cluster.to_string()),
        reason: Some("FieldValueDuplicate".to_owned()),
    }
}

fn names(clusters: &[ClusterName]) -> String {
    let names = clusters.iter().map(ClusterName::as_str);
    names.collect::<Vec<_>>().join(", ")
}
