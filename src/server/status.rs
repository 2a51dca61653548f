//! Every way a request can fail, and the `metav1.Status` that tells the client.
//!
//! Source of codes and reasons: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/>

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

use crate::{model::ClusterName, store::StoreError};

/// Seconds after which a client that was told to wait should ask again.
pub const RETRY_AFTER_SECONDS: i32 = 1;

/// A request that cannot be answered with what was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The request is not understood; the message names the part.
    #[error("{0}")]
    BadRequest(String),
    /// No token, or not ours.
    #[error("Unauthorized: send the server's token as `Authorization: Bearer <token>`")]
    Unauthorized,
    /// Nobody that the server knows.
    #[error("Unauthorized")]
    Unauthenticated,
    /// Somebody who may not do it.
    #[error("{}", .0.message)]
    Forbidden(Box<Forbidden>),
    /// More requests than the server takes at a time.
    #[error("the server has too many requests under way; try again")]
    TooManyRequests,
    /// A body that is too long.
    #[error("the body of the request is longer than {0} bytes")]
    TooLarge(usize),
    /// A request's line that is not read to its end.
    #[error(
        "the URI of the request is too long: line and headers may have {0} bytes together; ask with fewer values in selectors and parameters, in several requests if need be, or select by a label that the objects share"
    )]
    UriTooLong(usize),
    /// Headers that are not read to their end.
    #[error("the headers of the request are too long or too many: line and headers may have {0} bytes together, in 100 headers")]
    HeadersTooLarge(usize),
    /// The answer took too long.
    #[error("the request took longer than {0} s; ask for less, or try again")]
    RequestTimeout(u64),
    /// The path leads nowhere in this API.
    #[error("the server has nothing at {path}")]
    NoSuchPath {
        /// The path.
        path: String,
    },
    /// A resource, or a version of it, that the catalog does not hold.
    #[error("{message}")]
    NotRegistered {
        /// API group; empty for the core group.
        group: String,
        /// Plural.
        plural: String,
        /// What is missing, and what would change it.
        message: String,
    },
    /// No member has this name.
    #[error("clusters.search.fleetdex.io {:?} not found: no ResourceRegistry selects a member of this name", .0.as_str())]
    NoSuchCluster(ClusterName),
    /// No member has this object.
    #[error("{} {name:?} not found", resource(group, plural))]
    NoSuchObject {
        /// API group; empty for the core group.
        group: String,
        /// Plural.
        plural: String,
        /// The object's name.
        name: String,
    },
    /// Several members have an object of this name, and only one can be meant.
    #[error("{} {name:?} is in several clusters: {}; {remedy}", resource(group, plural), names(clusters))]
    Ambiguous {
        /// API group; empty for the core group.
        group: String,
        /// Plural.
        plural: String,
        /// The object's name.
        name: String,
        /// Those that have it.
        clusters: Vec<ClusterName>,
        /// How to say which.
        remedy: String,
    },
    /// What is to be written is not made from what is there.
    #[error("Operation cannot be fulfilled on {} {name:?}: {problem}", resource(group, plural))]
    Conflict {
        /// API group; empty for the core group.
        group: String,
        /// Plural.
        plural: String,
        /// The object's name.
        name: String,
        /// What is the matter, and what to do.
        problem: String,
    },
    /// Something that Kubernetes has, and a fleet cannot have; the message says what to do instead.
    #[error("{0}")]
    NotServed(String),
    /// A body that is not understood as it is encoded.
    #[error("{0}")]
    UnsupportedMediaType(String),
    /// A member did not answer in time.
    #[error("cluster {cluster} did not answer within {seconds} s; whether a write was carried out is not known")]
    MemberTimeout {
        /// The member.
        cluster: ClusterName,
        /// How long was waited.
        seconds: u64,
    },
    /// The path is there for another method.
    #[error("method {method} is not served here; use {allowed}")]
    MethodNotAllowed {
        /// The request's.
        method: String,
        /// The one that is served.
        allowed: &'static str,
    },
    /// No media type that the client accepts is served.
    #[error("none of the accepted media types ({0}) is served here; accept application/json or application/yaml")]
    NotAcceptable(String),
    /// A continue token whose snapshot is gone.
    #[error("the continue token has expired; start the list again without it")]
    Expired,
    /// A continue token whose snapshot was closed for other lists of the same user.
    #[error("{0}")]
    Superseded(String),
    /// A continue token of somebody who might see something else.
    #[error("what you may see has changed since the first page; start the list again without the continue token")]
    PermissionChanged,
    /// A version that the log does not hold any more, or never held.
    #[error("too old resource version: {0}; list again, and go on from there")]
    VersionExpired(String),
    /// A version that answers do not show yet.
    #[error("Too large resource version: the index does not show it yet; try again")]
    VersionNotReached,
    /// As many lists in pages are open as may be.
    #[error("{0}")]
    Crowded(String),
    /// The store is overloaded.
    #[error("{0}; try again")]
    Busy(String),
    /// The store does not answer, or refuses us.
    #[error("{0}")]
    Unavailable(String),
    /// The store did not answer in time.
    #[error("the store did not answer within {0} s; ask for less, or try again")]
    Timeout(u64),
    /// The store's answer makes no sense, or it refused a request that we made.
    #[error("{0}")]
    Internal(String),
}

/// What may not be done, and by whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forbidden {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural; empty for a path that is no resource.
    pub resource: String,
    /// The object, if one was named.
    pub name: String,
    /// The whole sentence.
    pub message: String,
}

impl From<Forbidden> for ApiError {
    fn from(forbidden: Forbidden) -> Self {
        Self::Forbidden(Box::new(forbidden))
    }
}

impl ApiError {
    /// A request of which one part is not understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::BadRequest(message.into())
    }

    /// The HTTP status.
    pub fn code(&self) -> u16 {
        self.code_and_reason().0
    }

    /// The body that tells the client.
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
            Self::NoSuchPath { .. } | Self::NotRegistered { .. } | Self::NoSuchCluster(_) | Self::NoSuchObject { .. } => {
                (404, "NotFound")
            }
            Self::MethodNotAllowed { .. } | Self::NotServed(_) => (405, "MethodNotAllowed"),
            Self::NotAcceptable(_) => (406, "NotAcceptable"),
            Self::Ambiguous { .. } | Self::Conflict { .. } => (409, "Conflict"),
            Self::Expired | Self::Superseded(_) | Self::PermissionChanged | Self::VersionExpired(_) => (410, "Expired"),
            Self::TooLarge(_) => (413, "RequestEntityTooLarge"),
            Self::UriTooLong(_) => (414, "RequestURITooLong"),
            Self::UnsupportedMediaType(_) => (415, "UnsupportedMediaType"),
            Self::Busy(_) | Self::Crowded(_) | Self::TooManyRequests => (429, "TooManyRequests"),
            Self::HeadersTooLarge(_) => (431, "RequestHeaderFieldsTooLarge"),
            Self::Internal(_) => (500, "InternalError"),
            Self::Unavailable(_) => (503, "ServiceUnavailable"),
            Self::Timeout(_) | Self::RequestTimeout(_) | Self::MemberTimeout { .. } | Self::VersionNotReached => (504, "Timeout"),
        }
    }

    fn details(&self) -> Option<StatusDetails> {
        match self {
            Self::NotRegistered { group, plural, .. } => Some(StatusDetails {
                group: Some(group.clone()).filter(|name| !name.is_empty()),
                kind: Some(plural.clone()),
                ..StatusDetails::default()
            }),
            Self::NoSuchObject { group, plural, name } | Self::Conflict { group, plural, name, .. } => {
                Some(object_details(group, plural, name))
            }
            Self::Ambiguous { group, plural, name, clusters, .. } => {
                Some(StatusDetails { causes: Some(clusters.iter().map(cause).collect()), ..object_details(group, plural, name) })
            }
            Self::NoSuchCluster(cluster) => Some(StatusDetails {
                group: Some("search.fleetdex.io".to_owned()),
                kind: Some("clusters".to_owned()),
                name: Some(cluster.to_string()),
                ..StatusDetails::default()
            }),
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
                group: Some(forbidden.group.clone()).filter(|name| !name.is_empty()),
                kind: Some(forbidden.resource.clone()).filter(|name| !name.is_empty()),
                name: Some(forbidden.name.clone()).filter(|name| !name.is_empty()),
                ..StatusDetails::default()
            }),
            Self::Busy(_) | Self::Crowded(_) | Self::TooManyRequests => {
                Some(StatusDetails { retry_after_seconds: Some(RETRY_AFTER_SECONDS), ..StatusDetails::default() })
            }
            _ => None,
        }
    }
}

fn object_details(group: &str, plural: &str, name: &str) -> StatusDetails {
    StatusDetails {
        group: Some(group.to_owned()).filter(|name| !name.is_empty()),
        kind: Some(plural.to_owned()),
        name: Some(name.to_owned()),
        ..StatusDetails::default()
    }
}

/// One of several clusters, for programs to choose from.
fn cause(cluster: &ClusterName) -> StatusCause {
    StatusCause {
        field: Some("cluster".to_owned()),
        message: Some(cluster.to_string()),
        reason: Some("FieldValueDuplicate".to_owned()),
    }
}

/// `deployments.apps`, as the apiserver writes it.
fn resource(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

fn names(clusters: &[ClusterName]) -> String {
    clusters.iter().map(ClusterName::as_str).collect::<Vec<_>>().join(", ")
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Expired => Self::Expired,
            StoreError::Superseded => Self::Superseded(error.to_string()),
            StoreError::Crowded(message) => Self::Crowded(message),
            StoreError::Busy { .. } => Self::Busy(error.to_string()),
            StoreError::Unreachable { .. } | StoreError::Unauthorized { .. } => Self::Unavailable(error.to_string()),
            StoreError::Invalid(message) => Self::bad_request(message),
            StoreError::Foreign { .. }
            | StoreError::Refused { .. }
            | StoreError::Garbled { .. }
            | StoreError::Embedded(_)
            | StoreError::TooLarge { .. } => Self::Internal(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_code_reason_message_and_what_it_is_about() {
        let missing = ApiError::NotRegistered {
            group: "apps".to_owned(),
            plural: "deployments".to_owned(),
            message: "no ResourceRegistry selects deployments.apps".to_owned(),
        };
        insta::assert_json_snapshot!(missing.status(), @r#"
        {
          "apiVersion": "v1",
          "kind": "Status",
          "code": 404,
          "details": {
            "group": "apps",
            "kind": "deployments"
          },
          "message": "no ResourceRegistry selects deployments.apps",
          "metadata": {},
          "reason": "NotFound",
          "status": "Failure"
        }
        "#);
    }

    #[test]
    fn a_client_that_meets_an_overload_is_told_when_to_come_back() {
        let overload = StoreError::Busy { status: 429, reason: "search queue is full".to_owned() };
        insta::assert_json_snapshot!(ApiError::from(overload).status(), @r#"
        {
          "apiVersion": "v1",
          "kind": "Status",
          "code": 429,
          "details": {
            "retryAfterSeconds": 1
          },
          "message": "OpenSearch is overloaded or blocked (HTTP 429): search queue is full; try again",
          "metadata": {},
          "reason": "TooManyRequests",
          "status": "Failure"
        }
        "#);
    }

    #[test]
    fn store_errors_keep_their_meaning() {
        let unreachable = StoreError::Unreachable { address: "https://os:9200".to_owned(), reason: "refused".to_owned() };
        let password = StoreError::Unauthorized { address: "https://os".to_owned(), status: 401, reason: "no".to_owned() };
        let garbled = StoreError::Garbled { operation: "search".to_owned(), reason: "no JSON".to_owned() };
        let codes = [unreachable, password, garbled, StoreError::Expired].map(|error| ApiError::from(error).code());
        assert_eq!(codes, [503, 503, 500, 410]);
    }
}
