//! Authenticates the caller of a request, authorizes the request, and hands it to what answers it.

use axum::{extract::Request, response::Response};
use fleetdex_query_api::{class::Asked, rbac_attributes::Attributes, uri::RequestUri};
use http::HeaderMap;

use super::{api_state::ApiState, listen::RequestHandle};
use crate::{
    api_error::ApiError,
    auth::{authentication_mode::AuthenticationMode, caller::Caller, identity::impersonates},
    proxying,
};

/// Whether a browser sends a request because of a page of another site.
pub(super) fn is_from_another_site(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// The caller of a request, from its credentials, which are removed from it.
pub(super) async fn authenticate(
    api: &ApiState,
    request: &mut Request,
) -> Result<Caller, ApiError> {
    let impersonates = impersonates(request.headers());
    let mode = &api.answers.authentication_mode;
    let caller = mode.authenticate(request).await?;
    if let Some(handle) = request.extensions_mut().remove::<RequestHandle>() {
        handle.mark_authenticated();
    }
    if impersonates {
        return Err(ApiError::bad_request(
            "this server does not support impersonation; send the request through the control plane",
        ));
    }
    Ok(caller)
}

/// Authorizes a request, and responds to it.
pub(super) async fn respond(
    api: &ApiState,
    caller: &Caller,
    uri: &RequestUri<'_>,
    mut request: Request,
) -> Result<Response, ApiError> {
    authorize(api, caller, uri, &mut request).await?;
    match Asked::parse(request.method(), uri)? {
        Asked::Fleet(asked) => {
            let (answers, members) = (&api.answers, &*api.members);
            let handled = proxying::handle(answers, members, caller, uri, asked, request);
            Box::pin(handled).await
        }
        Asked::Question(question) => api.answers.respond(caller, uri, question, request).await,
    }
}

/// Refuses a request that the control plane does not allow.
pub(super) async fn authorize(
    api: &ApiState,
    caller: &Caller,
    uri: &RequestUri<'_>,
    request: &mut Request,
) -> Result<(), ApiError> {
    if let AuthenticationMode::Delegated(auth) = &api.answers.authentication_mode {
        let attributes = Attributes::of(request.method(), uri);
        auth.authorizer.check(caller, &attributes).await?;
        request.extensions_mut().insert(attributes);
    }
    Ok(())
}
