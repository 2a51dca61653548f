//! Every way a request can fail, and the `metav1.Status` that tells the client.
//!
//! Source of codes and reasons: <https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/>

use fleetdex_core::model::ClusterName;
use fleetdex_store::StoreError;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusCause, StatusDetails};

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
    /// More requests than the server takes of this user, or at all, at a time.
    #[error("the server has too many requests under way, of this user or altogether; try again")]
    TooManyRequests,
    /// A body that is too long.
    #[error("the body of the request is longer than {0} bytes")]
    TooLarge(usize),
    /// The answer took too long.
    #[error("the request took longer than {0} s; ask for less, or try again")]
    RequestTimeout(u64),
    /// The path leads nowhere in this API.
    #[error("the server has nothing at {path}")]
    NoSuchPath {
        /// The path.
        path: String,
    },
    /// The path leads to nothing that is served; the message says what would be.
    #[error("{0}")]
    NotFound(String),
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
    #[error(
        "{} {name:?} is in several clusters: {}; {remedy}",
        resource(group, plural),
        names(clusters)
    )]
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
    #[error(
        "Operation cannot be fulfilled on {} {name:?}: {problem}",
        resource(group, plural)
    )]
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
    #[error(
        "cluster {cluster} did not answer within {seconds} s; whether a write was carried out is not known"
    )]
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
    /// A continue token of somebody who might see something else.
    #[error(
        "what you may see has changed since the first page; start the list again without the continue token"
    )]
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
            Self::NoSuchPath { .. }
            | Self::NotFound(_)
            | Self::NotRegistered { .. }
            | Self::NoSuchCluster(_)
            | Self::NoSuchObject { .. } => (404, "NotFound"),
            Self::MethodNotAllowed { .. } | Self::NotServed(_) => (405, "MethodNotAllowed"),
            Self::NotAcceptable(_) => (406, "NotAcceptable"),
            Self::Ambiguous { .. } | Self::Conflict { .. } => (409, "Conflict"),
            Self::Expired
            | Self::Superseded(_)
            | Self::PermissionChanged
            | Self::VersionExpired(_) => (410, "Expired"),
            Self::TooLarge(_) => (413, "RequestEntityTooLarge"),
            Self::UnsupportedMediaType(_) => (415, "UnsupportedMediaType"),
            Self::Busy(_) | Self::Crowded(_) | Self::TooManyRequests => (429, "TooManyRequests"),
            Self::Internal(_) => (500, "InternalError"),
            Self::Unavailable(_) => (503, "ServiceUnavailable"),
            Self::Timeout(_)
            | Self::RequestTimeout(_)
            | Self::MemberTimeout { .. }
            | Self::VersionNotReached => (504, "Timeout"),
        }
    }

    fn details(&self) -> Option<StatusDetails> {
        match self {
            Self::NotRegistered { group, plural, .. } => Some(StatusDetails {
                group: Some(group.clone()).filter(|name| !name.is_empty()),
                kind: Some(plural.clone()),
                ..StatusDetails::default()
            }),
            Self::NoSuchObject {
                group,
                plural,
                name,
            }
            | Self::Conflict {
                group,
                plural,
                name,
                ..
            } => Some(object_details(group, plural, name)),
            Self::Ambiguous {
                group,
                plural,
                name,
                clusters,
                ..
            } => Some(StatusDetails {
                causes: Some(clusters.iter().map(cause).collect()),
                ..object_details(group, plural, name)
            }),
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
            Self::Busy(_) | Self::Crowded(_) | Self::TooManyRequests => Some(StatusDetails {
                retry_after_seconds: Some(RETRY_AFTER_SECONDS),
                ..StatusDetails::default()
            }),
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
    if group.is_empty() {
        plural.to_owned()
    } else {
        format!("{plural}.{group}")
    }
}

fn names(clusters: &[ClusterName]) -> String {
    clusters
        .iter()
        .map(ClusterName::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The word that `OpenSearch` has for an error, which names no index: `, too_many_nested_clauses`.
fn kind_of(reason: &str) -> String {
    match reason.split_once(':') {
        Some((kind, _))
            if kind
                .bytes()
                .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) =>
        {
            format!(", {kind}")
        }
        _ => String::new(),
    }
}

/// What a store's error means for a user. Addresses, and OpenSearch's own words, which name indices of clusters that the user may not see, are for
/// those who run the server: they are in its log.
impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        if !matches!(error, StoreError::Expired | StoreError::Invalid(_)) {
            tracing::warn!(%error, "a store did not answer a query");
        }
        match error {
            StoreError::Expired => Self::Expired,
            StoreError::Superseded => Self::Superseded(error.to_string()),
            StoreError::Crowded(message) => Self::Crowded(message),
            StoreError::Invalid(message) => Self::bad_request(message),
            StoreError::Busy { status, .. } => Self::Busy(format!(
                "the store is overloaded or blocked (HTTP {status})"
            )),
            StoreError::Unreachable { .. } => Self::Unavailable(
                "the store cannot be reached; its registry's status says why".to_owned(),
            ),
            StoreError::Unauthorized { .. } => Self::Unavailable(
                "the store refuses the server's credentials; its registry's status says why"
                    .to_owned(),
            ),
            StoreError::Refused { status, reason, .. } => Self::Internal(format!(
                "the store refused the request (HTTP {status}{})",
                kind_of(&reason)
            )),
            StoreError::Garbled { .. } => {
                Self::Internal("the store gave no valid answer".to_owned())
            }
            StoreError::TooLarge { bytes } => Self::Internal(format!(
                "the store refused a request of {bytes} bytes as too large; ask with fewer values"
            )),
            StoreError::AnswerTooLarge { operation, limit } => Self::Internal(format!(
                "the store's answer to {operation} is longer than {limit} bytes, which is all that is read of one; ask for other objects"
            )),
            StoreError::Foreign { .. } | StoreError::Embedded(_) => {
                Self::Internal("the store failed; the server's log says why".to_owned())
            }
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
        let overload = StoreError::Busy {
            status: 429,
            reason: "search queue is full".to_owned(),
        };
        insta::assert_json_snapshot!(ApiError::from(overload).status(), @r#"
        {
          "apiVersion": "v1",
          "kind": "Status",
          "code": 429,
          "details": {
            "retryAfterSeconds": 1
          },
          "message": "the store is overloaded or blocked (HTTP 429); try again",
          "metadata": {},
          "reason": "TooManyRequests",
          "status": "Failure"
        }
        "#);
    }

    #[test]
    fn store_errors_keep_their_meaning() {
        let unreachable = StoreError::Unreachable {
            address: "https://os:9200".to_owned(),
            reason: "refused".to_owned(),
        };
        let password = StoreError::Unauthorized {
            address: "https://os".to_owned(),
            status: 401,
            reason: "no".to_owned(),
        };
        let garbled = StoreError::Garbled {
            operation: "search".to_owned(),
            reason: "no JSON".to_owned(),
        };
        let codes = [unreachable, password, garbled, StoreError::Expired]
            .map(|error| ApiError::from(error).code());
        assert_eq!(codes, [503, 503, 500, 410]);
    }

    #[test]
    fn users_are_not_told_addresses_nor_names_of_indices() {
        let address = || "https://os.internal:9200".to_owned();
        let reason = || {
            "index_not_found_exception: no such index [fleetdex-hidden] at os.internal".to_owned()
        };
        for error in [
            StoreError::Unreachable {
                address: address(),
                reason: reason(),
            },
            StoreError::Unauthorized {
                address: address(),
                status: 403,
                reason: reason(),
            },
            StoreError::Busy {
                status: 503,
                reason: reason(),
            },
            StoreError::Refused {
                operation: reason(),
                status: 404,
                reason: reason(),
            },
            StoreError::Garbled {
                operation: reason(),
                reason: reason(),
            },
            StoreError::Foreign {
                index: "fleetdex-hidden".to_owned(),
                owner: "hidden".to_owned(),
            },
            StoreError::Embedded(reason()),
        ] {
            let told = ApiError::from(error).to_string();
            assert!(
                !told.contains("hidden") && !told.contains("os.internal"),
                "{told}"
            );
        }
        let refused = StoreError::Refused {
            operation: String::new(),
            status: 400,
            reason: "too_many_nested_clauses: 1024".to_owned(),
        };
        assert_eq!(
            ApiError::from(refused).to_string(),
            "the store refused the request (HTTP 400, too_many_nested_clauses)"
        );
    }
}
