//! Error responses, with the texts of a kube-apiserver.

use std::fmt;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use serde_json::{Value, json};

use super::{
    body::{self, Body},
    name::Name,
};

/// A `Status` with status `Failure`: the error response of an API server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Status {
    /// The HTTP status.
    pub code: u16,
    /// The machine-readable reason.
    pub reason: &'static str,
    /// The human-readable message.
    pub message: String,
    /// The object that it is about.
    pub details: Option<Box<Value>>,
    /// The token to continue an expired list at the current revision.
    pub continue_token: Option<String>,
}

impl fmt::Display for Status {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
        }
    }

    fn about(mut self, resource: &Name, name: &str) -> Self {
        let mut details = json!({ "name": name });
        if !resource.group.is_empty() {
            details["group"] = (*resource.group).into();
        }
        details["kind"] = (*resource.plural).into();
        self.details = Some(details.into());
        self
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    pub(super) fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    pub(super) fn forbidden(resource: &Name) -> Self {
        let message = format!(
            "{resource} is forbidden: User \"fleetdex\" cannot read resource \"{}\"",
            resource.plural
        );
        Self::new(403, "Forbidden", message).about(resource, "")
    }

    pub(super) fn not_found(resource: &Name, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} \"{name}\" not found")).about(resource, name)
    }

    pub(super) fn not_served() -> Self {
        let status = Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        );
        Self {
            details: Some(json!({}).into()),
            ..status
        }
    }

    pub(super) fn method_not_allowed() -> Self {
        let status = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        Self {
            details: Some(json!({}).into()),
            ..status
        }
    }

    pub(super) fn unsupported_media_type(given: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format ({given}) - accepted media types \
                 include: application/merge-patch+json, application/apply-patch+yaml"
            ),
        )
    }

    pub(super) fn apply_conflict(owners: &[String]) -> Self {
        let owners = owners.join("\", \"");
        Self::new(
            409,
            "Conflict",
            format!("Apply failed with conflicts: conflicts with \"{owners}\""),
        )
    }

    /// The object is not the one that a deletion is meant for.
    pub(super) fn other_object(kind: &str, group: &str, name: &str, cause: &str) -> Self {
        let resource = Name {
            plural: kind.into(),
            group: group.into(),
        };
        Self::conflict(&resource, name, cause)
    }

    pub(super) fn already_exists(resource: &Name, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{resource} \"{name}\" already exists"),
        )
        .about(resource, name)
    }

    pub(super) fn conflict(resource: &Name, name: &str, cause: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {cause}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    pub(super) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    pub(super) fn too_old(from: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {from} ({oldest})"))
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    pub(super) fn throttled(retry_after_seconds: u32) -> Self {
        let status = Self::new(429, "TooManyRequests", "storage is (re)initializing");
        Self {
            details: Some(json!({ "retryAfterSeconds": retry_after_seconds }).into()),
            ..status
        }
    }

    pub(super) fn internal() -> Self {
        let cause = "etcdserver: leader changed";
        let status = Self::new(
            500,
            "InternalError",
            format!("Internal error occurred: {cause}"),
        );
        Self {
            details: Some(json!({ "causes": [{ "message": cause }] }).into()),
            ..status
        }
    }

    pub(super) fn timeout() -> Self {
        Self::new(
            504,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
        )
    }

    pub(super) fn too_large_version(requested: u64, current: u64) -> Self {
        let status = Self::new(
            504,
            "Timeout",
            format!("Timeout: Too large resource version: {requested}, current: {current}"),
        );
        let cause =
            json!({ "reason": "ResourceVersionTooLarge", "message": "Too large resource version" });
        Self {
            details: Some(json!({ "causes": [cause], "retryAfterSeconds": 1 }).into()),
            ..status
        }
    }

    /// Returns the `Status` as JSON.
    pub fn to_json(&self) -> Value {
        let metadata = match &self.continue_token {
            Some(token) => json!({ "continue": token }),
            None => json!({}),
        };
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "reason": self.reason,
        });
        if let Some(details) = &self.details {
            status["details"] = (**details).clone();
        }
        status["code"] = self.code.into();
        status
    }

    pub(super) fn response(&self) -> Response<Body> {
        let mut response = body::json(self.code, Bytes::from(self.to_json().to_string()));
        let retry_after = self
            .details
            .as_ref()
            .and_then(|details| details["retryAfterSeconds"].as_u64());
        if let Some(seconds) = retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }
}

/// Returns a plain-text response, as of a proxy in front of the API.
pub(super) fn plain(code: u16, text: &'static str) -> Response<Body> {
    let mut response = Response::new(body::whole(Bytes::from_static(text.as_bytes())));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    response
}
