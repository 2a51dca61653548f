//! What the views of the page ask: this server's own API and the bindings of the control plane, as
//! the caller of the page.

use async_trait::async_trait;
use axum::{
    body::Body,
    extract::Request,
    http::{StatusCode, header::ACCEPT},
    response::Response,
};
use fleetdex_crds::distribution::Distribution;
use fleetdex_query_api::{question, uri::RequestUri};
use fleetdex_ui::{Accept, BindingsPage, BindingsQuestion, QueryApi, QueryRefusal, QueryReply};

use super::{api_state::ApiState, dispatch::authorize};
use crate::{
    answers::{reply::Reply, response::refusal},
    api_error::ApiError,
    auth::caller::Caller,
    read::bindings::BindingReader,
};

/// Requests to this server's own API, as the caller of the page.
pub(super) struct CallerQueries<'q> {
    pub(super) api: &'q ApiState,
    pub(super) caller: &'q Caller,
}

#[async_trait]
impl QueryApi for CallerQueries<'_> {
    async fn ask(&self, path: &str, accept: Accept) -> QueryReply {
        match Box::pin(self.reply(path, accept)).await {
            Ok(Reply::Answer(unencoded)) => {
                QueryReply::Answer(Box::new(unencoded.answer), unencoded.warnings)
            }
            Ok(Reply::Response(response)) => QueryReply::Response(response),
            Err(error) => QueryReply::Response(refusal(&error)),
        }
    }

    async fn forward(&self, path: &str, accept: Accept) -> Response {
        let response = async { self.reply(path, accept).await?.into_response().await };
        let response = Box::pin(response).await;
        response.unwrap_or_else(|error| refusal(&error))
    }

    fn distributes(&self) -> bool {
        self.api.answers.bindings.is_some()
    }

    async fn bindings(&self, question: BindingsQuestion) -> Result<BindingsPage, QueryRefusal> {
        let mode = &self.api.answers.authentication_mode;
        let read = async {
            self.control_plane()?
                .read(mode, self.caller, &question)
                .await
        };
        Box::pin(read).await.map_err(|error| refused(&error))
    }

    async fn distribution(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Distribution, QueryRefusal> {
        let mode = &self.api.answers.authentication_mode;
        let read = async {
            let reader = self.control_plane()?;
            reader
                .distribution(mode, self.caller, namespace, name)
                .await
        };
        Box::pin(read).await.map_err(|error| refused(&error))
    }
}

impl CallerQueries<'_> {
    /// What reads the bindings of the control plane.
    fn control_plane(&self) -> Result<&BindingReader, ApiError> {
        let reader = self.api.answers.bindings.as_ref();
        reader.ok_or_else(|| ApiError::NotFound("this server distributes nothing".to_owned()))
    }

    async fn reply(&self, target: &str, accept: Accept) -> Result<Reply, ApiError> {
        let mut request = Request::get(target)
            .header(ACCEPT, accept.header())
            .body(Body::empty())
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let target = request.uri().clone();
        let uri = RequestUri::parse(target.path(), target.query())?;
        authorize(self.api, self.caller, &uri, &mut request).await?;
        let question = question::parse(&uri)?;
        let answers = &self.api.answers;
        answers.answer(self.caller, &uri, question, request).await
    }
}

fn refused(error: &ApiError) -> QueryRefusal {
    let status = StatusCode::from_u16(error.code());
    QueryRefusal {
        status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
        message: error.to_string(),
    }
}
