//! Forwards a request to one member, impersonating the caller, and receives the response.
//!
//! Guarantees: the member sees no more rights than the caller has; a request is sent a second time
//! only if the member has refused the first with 401; every wait has a timeout that fits the kind
//! of request.

mod error;

use std::{error::Error, time::Duration};

use axum::{
    BoxError,
    body::{Body, Bytes},
    extract::Request,
    response::Response,
};
use error::REQUEST_TIMEOUT;
use fleetdex_clusters::{impersonate::Impersonation, request::transport_causes};
use fleetdex_core::model::ClusterName;
use fleetdex_limits::{intake::IntakeError, request::UserRequest};
use fleetdex_query_api::{flag::flag, fleet_request::ResourceInfo, uri::QueryParameters};
use fleetdex_telemetry::traces::{self, Beginning, KeyValue, SpanKind};
use futures::{StreamExt as _, stream::try_unfold};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body as MemberBody;
use serde::Deserialize;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use self::error::ForwardError;
use super::{
    client_cache::ClientCache,
    headers,
    tunnel::{self, Tunnels},
};
use crate::{api_error::ApiError, limits::UserPermit};

/// Bytes that are read of a refusal.
const REFUSAL_BYTES: usize = 64 << 10;

/// Where a request is sent.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The member.
    pub cluster: ClusterName,
    /// The impersonated user.
    pub who: Impersonation,
    /// Path and query.
    pub uri: String,
}

/// How a request is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardingMode {
    /// The response is an object. It is read whole and encoded again.
    Buffered,
    /// The response is passed on while it arrives.
    Stream {
        /// Whether it has no end of its own, such as `log -f`. Only the idle timeout ends it.
        endless: bool,
    },
    /// The connection is upgraded to another protocol.
    Upgrade,
}

impl ForwardingMode {
    /// The mode by subresource, headers and query.
    pub fn of(info: &ResourceInfo, headers: &HeaderMap, query: &QueryParameters<'_>) -> Self {
        let follows = query.first("follow").is_some_and(flag);
        match info.subresource.as_deref() {
            Some("exec" | "attach" | "portforward" | "proxy") if headers::is_upgrade(headers) => {
                Self::Upgrade
            }
            Some("exec" | "attach" | "portforward" | "proxy") => Self::Stream { endless: false },
            Some("log") => Self::Stream { endless: follows },
            _ => Self::Buffered,
        }
    }
}

/// A buffered response of a member.
#[derive(Clone, Debug)]
pub struct MemberResponse {
    /// HTTP status.
    pub status: StatusCode,
    /// The headers that a client may see.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl MemberResponse {
    /// The response for the client, unchanged.
    pub fn into_response(self) -> Response {
        build_response(self.status, self.headers, Body::from(self.body))
    }

    /// Whether the body is JSON.
    pub fn is_json(&self) -> bool {
        let media = self.headers.get(header::CONTENT_TYPE);
        let media = media.and_then(|value| value.to_str().ok());
        media.is_some_and(|media| media.starts_with("application/json"))
    }
}

/// Forwards requests.
#[derive(Debug)]
pub struct Forwarder {
    /// Impersonating clients.
    pub clients: ClientCache,
    /// Upgraded connections.
    pub tunnels: Tunnels,
}

impl Forwarder {
    /// Forwards with these clients; upgraded connections end when `cancel` is cancelled.
    pub fn new(clients: ClientCache, cancel: CancellationToken) -> Self {
        Self {
            clients,
            tunnels: Tunnels::new(cancel),
        }
    }

    /// Sends a request and reads the whole response.
    pub async fn ask(
        &self,
        to: &Destination,
        method: &Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<MemberResponse, ForwardError> {
        let exchange = async {
            let response = self.send(to, method, &headers, &body).await?;
            self.read(to, response).await
        };
        let received = timeout(REQUEST_TIMEOUT, exchange).await;
        let response = received.map_err(|_| ForwardError::TimedOut {
            cluster: to.cluster.clone(),
        })??;
        refuse_impersonation(to, response.status, &response.body)?;
        Ok(response)
    }

    /// Reads a whole response: an object is at most 3 MiB, the `OpenAPI` document of many kinds 10
    /// MiB. Its memory counts against the user's share until the last byte is sent.
    async fn read(
        &self,
        to: &Destination,
        response: http::Response<MemberBody>,
    ) -> Result<MemberResponse, ForwardError> {
        let request = UserRequest::current();
        let intake = request.memory();
        let (head, body) = response.into_parts();
        let body = intake.read(body, intake.limits().answer).await;
        let body = body.map_err(|error| match error {
            IntakeError::ShareExhausted(bytes) => crowded(bytes),
            other => lost(to, &other),
        })?;
        Ok(MemberResponse {
            status: head.status,
            headers: headers::to_client(&head.headers),
            body,
        })
    }

    /// Sends a request and passes the response on while it arrives.
    pub async fn stream(
        &self,
        to: &Destination,
        method: &Method,
        headers: HeaderMap,
        body: Bytes,
        endless: bool,
    ) -> Result<Response, ForwardError> {
        let patience = if endless {
            tunnel::IDLE
        } else {
            REQUEST_TIMEOUT
        };
        let received = timeout(patience, self.send(to, method, &headers, &body)).await;
        let response = received.map_err(|_| ForwardError::TimedOut {
            cluster: to.cluster.clone(),
        })??;
        pass_on(to, response).await
    }

    /// Requests an upgrade, and joins both connections if the member agrees. The session keeps its
    /// share until it ends.
    pub async fn session(
        &self,
        to: &Destination,
        mut request: Request,
        place: UserPermit,
    ) -> Result<Response, ForwardError> {
        let passed = headers::to_member_of_upgrade(request.headers());
        let method = request.method().clone();
        let (empty, patience) = (Bytes::new(), REQUEST_TIMEOUT);
        let received = timeout(patience, self.send(to, &method, &passed, &empty)).await;
        let mut response = received.map_err(|_| ForwardError::TimedOut {
            cluster: to.cluster.clone(),
        })??;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return pass_on(to, response).await;
        }
        let member = hyper::upgrade::on(&mut response);
        self.tunnels
            .join(hyper::upgrade::on(&mut request), member, place);
        Ok(build_response(
            StatusCode::SWITCHING_PROTOCOLS,
            headers::to_client_of_upgrade(response.headers()),
            Body::empty(),
        ))
    }

    /// Sends a request, and once more with new credentials if the cached ones are refused.
    async fn send(
        &self,
        to: &Destination,
        method: &Method,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<http::Response<MemberBody>, ForwardError> {
        for _ in 0..2 {
            let client = self.clients.get(&to.cluster, &to.who).await?;
            let mut request = http::Request::new(MemberBody::from(body.clone()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = to
                .uri
                .parse()
                .map_err(|error| ApiError::bad_request(format!("path: {error}")))?;
            *request.headers_mut() = headers.clone();
            let span = traces::child(Beginning::now("forward", SpanKind::Client), || {
                vec![
                    KeyValue::new("k8s.cluster.name", to.cluster.as_str().to_owned()),
                    KeyValue::new("http.request.method", method.to_string()),
                ]
            });
            if let Some(span) = &span {
                span.propagate(request.headers_mut());
            }
            let response = client.send(request).await.map_err(|error| {
                if let Some(span) = &span {
                    span.fail("unreachable");
                }
                lost(to, &error)
            })?;
            if let Some(span) = &span {
                span.set_status_code(response.status());
            }
            if response.status() != StatusCode::UNAUTHORIZED {
                return Ok(response);
            }
            self.clients.forget(&to.cluster, &to.who);
        }
        Err(ForwardError::Credentials {
            cluster: to.cluster.clone(),
        })
    }
}

/// Passes a response on while it arrives. Of a 403 only the beginning is inspected: the API
/// server's own ones are short.
async fn pass_on(
    to: &Destination,
    response: http::Response<MemberBody>,
) -> Result<Response, ForwardError> {
    let (head, mut body) = response.into_parts();
    let mut read = Vec::new();
    if head.status == StatusCode::FORBIDDEN {
        let reading = timeout(REQUEST_TIMEOUT, beginning(&mut body, REFUSAL_BYTES)).await;
        read = reading
            .map_err(|_| ForwardError::TimedOut {
                cluster: to.cluster.clone(),
            })?
            .map_err(|error| lost(to, &*error))?;
        refuse_impersonation(to, head.status, &read.concat())?;
    }
    let begun = futures::stream::iter(read.into_iter().map(Ok));
    let passed = headers::to_client(&head.headers);
    Ok(build_response(
        head.status,
        passed,
        Body::from_stream(begun.chain(until_idle(body, tunnel::IDLE))),
    ))
}

/// Reads the beginning of a body: at least `limit` bytes, unless it ends before.
async fn beginning(body: &mut MemberBody, limit: usize) -> Result<Vec<Bytes>, BoxError> {
    let (mut read, mut length) = (Vec::new(), 0);
    while length < limit
        && let Some(frame) = body.frame().await
    {
        if let Ok(data) = frame?.into_data() {
            length += data.len();
            read.push(data);
        }
    }
    Ok(read)
}

/// What is read of the `Status` of a refusal.
#[derive(Default, Deserialize)]
struct RefusalMessage {
    #[serde(default)]
    message: String,
}

/// Recognizes a refusal of our own account, so that it does not read as if the caller lacked a
/// right.
fn refuse_impersonation(
    to: &Destination,
    status: StatusCode,
    body: &[u8],
) -> Result<(), ForwardError> {
    if status != StatusCode::FORBIDDEN {
        return Ok(());
    }
    // A member sends 32 MiB at most, which a tree of values would multiply.
    let RefusalMessage { message } = serde_json::from_slice(body).unwrap_or_default();
    if !message.contains("cannot impersonate resource") {
        return Ok(());
    }
    Err(ForwardError::MayNotImpersonate {
        cluster: to.cluster.clone(),
        message,
    })
}

fn crowded(bytes: usize) -> ForwardError {
    ApiError::Busy(format!(
        "{bytes} bytes of responses of members wait for this user already; read them first"
    ))
    .into()
}

fn lost(to: &Destination, error: &(dyn Error + 'static)) -> ForwardError {
    ForwardError::Unreachable {
        cluster: to.cluster.clone(),
        cause: transport_causes(error),
    }
}

fn build_response(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The frames of a body, until none arrives for `idle`.
fn until_idle(
    body: MemberBody,
    idle: Duration,
) -> impl futures::Stream<Item = Result<Bytes, BoxError>> {
    try_unfold(body, move |mut body| async move {
        loop {
            let Some(frame) = timeout(idle, body.frame()).await? else {
                return Ok(None);
            };
            if let Ok(data) = frame?.into_data() {
                return Ok(Some((data, body)));
            }
        }
    })
}

/// `Accept` of a request whose response is parsed here.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
