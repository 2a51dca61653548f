//! The body of a request for one object, on its way to a member.

use fleetdex_query_api::fleet_request::ResourceInfo;
use http::{Method, header, request::Parts};

use super::body::{self, BodyError, BodyKind, VersionLookup};
use crate::api_error::{ApiError, RequestedObject};

/// The body of a client's request.
pub(super) struct RequestBody<'w> {
    kind: BodyKind,
    media_type: &'w str,
    bytes: &'w [u8],
}

impl<'w> RequestBody<'w> {
    pub(super) fn new(head: &'w Parts, info: &ResourceInfo, bytes: &'w [u8]) -> Self {
        let media_type = head.headers.get(header::CONTENT_TYPE);
        let media_type = media_type
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        Self {
            kind: body_kind(&head.method, info, media_type),
            media_type,
            bytes,
        }
    }

    /// The body for the member.
    pub(super) fn for_member(&self, lookup: VersionLookup<'_>) -> Result<Vec<u8>, BodyError> {
        body::rewrite(self.kind, self.media_type, self.bytes, lookup)
    }
}

fn body_kind(method: &Method, info: &ResourceInfo, media_type: &str) -> BodyKind {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    match (method.as_str(), essence) {
        ("PATCH", "application/json-patch+json") => BodyKind::JsonPatch,
        ("PATCH", "application/merge-patch+json" | "application/strategic-merge-patch+json") => {
            BodyKind::MergePatch
        }
        ("PATCH", "application/apply-patch+yaml") => BodyKind::Apply,
        ("DELETE", _) => BodyKind::DeleteOptions,
        ("POST", _) if info.subresource.is_some() => BodyKind::Opaque,
        ("POST", _) => BodyKind::NewObject,
        ("GET" | "HEAD", _) => BodyKind::Opaque,
        _ => BodyKind::Object,
    }
}

/// The refusal of a body that cannot be translated for the member.
pub(super) fn refused_body(info: &ResourceInfo, error: &BodyError) -> ApiError {
    match error {
        BodyError::Malformed(_) => ApiError::bad_request(error.to_string()),
        BodyError::MediaType(_) | BodyError::Yaml(_) => {
            ApiError::UnsupportedMediaType(error.to_string())
        }
        BodyError::Redacted(_) | BodyError::FromIndex(_) | BodyError::UnknownVersion(_) => {
            ApiError::Conflict {
                object: RequestedObject::new(&info.group, &info.plural, info.name.as_deref()),
                problem: error.to_string(),
            }
        }
    }
}
