//! Answers `SubjectAccessReview`s, which ask what a user may do.

use bytes::Bytes;
use http::Response;
use serde_json::{Value, json};

use super::{
    body::{self, Body},
    resource::Target,
    state::State,
    status::Status,
};

const GROUP: &str = "authorization.k8s.io";
const PLURAL: &str = "subjectaccessreviews";

/// Whether a request asks what a user may do.
pub(super) fn is_review(target: &Target) -> bool {
    *target.resource.group == *GROUP && *target.resource.plural == *PLURAL
}

/// Says whether the user may do it.
pub(super) fn answer(state: &State, body: &Bytes) -> Result<Response<Body>, Status> {
    let review: Value =
        serde_json::from_slice(body).map_err(|error| Status::bad_request(error.to_string()))?;
    let user = review["spec"]["user"].as_str().unwrap_or_default();
    let answer = json!({
        "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {}, "spec": review["spec"],
        "status": { "allowed": !state.denied.contains(user) },
    });
    Ok(body::json(201, answer.to_string().into()))
}
