//! The response to a request for one object.

use http::Response;

use super::{
    body::{self, Body},
    object::{Form, Object},
};

/// Returns a response with one object.
pub(super) fn object_response(
    code: u16,
    form: &Form,
    object: &Object,
    revision: u64,
) -> Response<Body> {
    let mut text = String::new();
    form.object(object, revision, &mut text);
    body::json(code, text.into())
}
