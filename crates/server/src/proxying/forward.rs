//! Sends a request on to the one member that it is for, as the caller, and takes its answer.
//!
//! Guarantees: a member never sees more rights than the caller has; nothing is sent twice unless the member has refused the first; every
//! wait has a limit, of the kind that the request calls for.

use std::{error::Error, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    response::Response,
};
use fleetdex_clusters::{
    impersonate::{ImpersonateError, Impersonation},
    request::causes,
};
use fleetdex_core::model::{self, ClusterName};
use fleetdex_limits::intake::{Budget, Limits, ReadError};
use futures::{StreamExt as _, stream::try_unfold};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body as MemberBody;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{
    super::{flag::flag, front::limits::UserShare, status::ApiError},
    clients::Clients,
    headers,
    request::{ResourceInfo, pairs},
    tunnel::{self, Tunnels},
};

/// A little longer than an apiserver itself takes for a request (60 s), so that its own answer comes first.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// 96 MiB for answers of members to users, the reserve included, of which one user has room for the largest one and some small ones.
const ANSWERS: Limits = Limits {
    page: 0,
    line: 0,
    answer: 32 << 20,
    refusal: 64 << 10,
    share: 40 << 20,
    shared: 64 << 20,
};

type BoxError = Box<dyn Error + Send + Sync>;

/// Where a request goes.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The member.
    pub cluster: ClusterName,
    /// As whom it is asked.
    pub who: Impersonation,
    /// Path and query there.
    pub uri: String,
}

/// How a request is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// The answer is an object, which is read and told anew.
    Object,
    /// The answer is passed on while it comes. Where it may be silent for long, only idleness ends it.
    Stream {
        /// Whether it goes on until somebody ends it, such as `log -f`.
        endless: bool,
    },
    /// Both sides agree on another protocol.
    Session,
}

impl Manner {
    /// By what is asked for and how.
    pub fn of(info: &ResourceInfo, headers: &HeaderMap, query: &str) -> Self {
        let follows = pairs(Some(query)).any(|(key, value)| key == "follow" && flag(value));
        match info.subresource.as_deref() {
            Some("exec" | "attach" | "portforward" | "proxy") if headers::is_upgrade(headers) => {
                Self::Session
            }
            Some("exec" | "attach" | "portforward" | "proxy") => Self::Stream { endless: false },
            Some("log") => Self::Stream { endless: follows },
            _ => Self::Object,
        }
    }
}

/// A member did not do what it was asked, and said nothing that could be passed on.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// There is no client for the caller.
    #[error("{}", model::causes(.0))]
    Client(#[from] ImpersonateError),
    /// The connection failed, or broke.
    #[error("cluster {cluster} cannot be reached: {cause}")]
    Unreachable {
        /// The member.
        cluster: ClusterName,
        /// Why.
        cause: String,
    },
    /// No answer in time.
    #[error("cluster {cluster} did not answer within {} s", REQUEST_TIMEOUT.as_secs())]
    TimedOut {
        /// The member.
        cluster: ClusterName,
    },
    /// The member does not accept our credentials. That is no business of the caller's own.
    #[error(
        "cluster {cluster} refuses the credentials that requests of users are sent on with; renew those of its impersonator"
    )]
    Credentials {
        /// The member.
        cluster: ClusterName,
    },
    /// Our account may not ask as the caller.
    #[error(
        "cluster {cluster} does not let its impersonator ask as this user; give that account the right to impersonate: {message}"
    )]
    MayNotImpersonate {
        /// The member.
        cluster: ClusterName,
        /// What it said.
        message: String,
    },
    /// The request cannot be sent, or its answer not be taken.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

impl ForwardError {
    /// Whether the member could not be asked, so that the index is the next best.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::TimedOut { .. })
    }
}

impl From<ForwardError> for ApiError {
    fn from(error: ForwardError) -> Self {
        match error {
            ForwardError::Refused(error) => error,
            ForwardError::TimedOut { cluster } => Self::MemberTimeout {
                cluster,
                seconds: REQUEST_TIMEOUT.as_secs(),
            },
            ForwardError::Client(ImpersonateError::NotAMember { cluster }) => {
                Self::NoSuchCluster(cluster)
            }
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// A member's answer, read as a whole.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// What a client may see of its headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// For the client, as it is.
    pub fn into_response(self) -> Response {
        response(self.status, self.headers, Body::from(self.body))
    }

    /// Whether the body is an object in JSON.
    pub fn is_json(&self) -> bool {
        let media = self
            .headers
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        media.is_some_and(|media| media.starts_with("application/json"))
    }
}

/// What sends requests on.
#[derive(Debug)]
pub struct Forwarder {
    /// As whom members are asked.
    pub clients: Clients,
    /// Sessions that are open.
    pub tunnels: Tunnels,
    /// The memory for answers that are read as a whole. What users leave unread takes nothing from what is read of members for the index.
    answers: Budget,
}

impl Forwarder {
    /// Sends on with these clients until `cancel` is cancelled.
    pub fn new(clients: Clients, cancel: CancellationToken) -> Self {
        Self {
            clients,
            tunnels: Tunnels::new(cancel),
            answers: Budget::new(ANSWERS),
        }
    }

    /// Asks for something small, and reads the answer as a whole.
    pub async fn ask(
        &self,
        to: &Destination,
        method: &Method,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Answer, ForwardError> {
        let exchange = async {
            let response = self.send(to, method, &headers, &body).await?;
            self.read(to, response).await
        };
        let answered = timeout(REQUEST_TIMEOUT, exchange).await;
        let answer = answered.map_err(|_| ForwardError::TimedOut {
            cluster: to.cluster.clone(),
        })??;
        refuse_impersonation(to, answer.status, &answer.body)?;
        Ok(answer)
    }

    /// An answer that is read as a whole: an object is at most 3 MiB, the `OpenAPI` document of many kinds 10 MiB. It counts among the answers of the
    /// user until its last byte is taken.
    async fn read(
        &self,
        to: &Destination,
        answer: http::Response<MemberBody>,
    ) -> Result<Answer, ForwardError> {
        let intake = self
            .answers
            .share(to.who.user.as_deref().unwrap_or_default());
        let (head, body) = answer.into_parts();
        let body =
            intake
                .read(body, intake.limits().answer)
                .await
                .map_err(|error| match error {
                    ReadError::Crowded(bytes) => crowded(bytes),
                    other => lost(to, &other),
                })?;
        Ok(Answer {
            status: head.status,
            headers: headers::to_client(&head.headers),
            body,
        })
    }

    /// Asks for what is passed on while it comes.
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
        let answered = timeout(patience, self.send(to, method, &headers, &body)).await;
        let answer = answered.map_err(|_| ForwardError::TimedOut {
            cluster: to.cluster.clone(),
        })??;
        pass_on(to, answer).await
    }

    /// Asks for another protocol, and joins both connections if the member agrees. The session has its place as long as it lasts.
    pub async fn session(
        &self,
        to: &Destination,
        mut request: Request,
        place: UserShare,
    ) -> Result<Response, ForwardError> {
        let passed = headers::to_member_of_upgrade(request.headers());
        let method = request.method().clone();
        let answered = timeout(
            REQUEST_TIMEOUT,
            self.send(to, &method, &passed, &Bytes::new()),
        )
        .await;
        let mut answer = answered.map_err(|_| ForwardError::TimedOut {
            cluster: to.cluster.clone(),
        })??;
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
            return pass_on(to, answer).await;
        }
        let member = hyper::upgrade::on(&mut answer);
        self.tunnels
            .join(hyper::upgrade::on(&mut request), member, place);
        Ok(response(
            StatusCode::SWITCHING_PROTOCOLS,
            headers::to_client_of_upgrade(answer.headers()),
            Body::empty(),
        ))
    }

    /// Sends once, and once more with new credentials if those that were kept are refused.
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
            let answer = client
                .send(request)
                .await
                .map_err(|error| lost(to, &error))?;
            if answer.status() != StatusCode::UNAUTHORIZED {
                return Ok(answer);
            }
            self.clients.forget(&to.cluster, &to.who);
        }
        Err(ForwardError::Credentials {
            cluster: to.cluster.clone(),
        })
    }
}

/// Passes an answer on while it comes. Only the beginning of a refusal is looked at: the API server's own ones are short.
async fn pass_on(
    to: &Destination,
    answer: http::Response<MemberBody>,
) -> Result<Response, ForwardError> {
    let (head, mut body) = answer.into_parts();
    let mut read = Vec::new();
    if head.status == StatusCode::FORBIDDEN {
        let reading = timeout(REQUEST_TIMEOUT, beginning(&mut body, ANSWERS.refusal)).await;
        read = reading
            .map_err(|_| ForwardError::TimedOut {
                cluster: to.cluster.clone(),
            })?
            .map_err(|error| lost(to, &*error))?;
        refuse_impersonation(to, head.status, &read.concat())?;
    }
    let begun = futures::stream::iter(read.into_iter().map(Ok));
    let passed = headers::to_client(&head.headers);
    Ok(response(
        head.status,
        passed,
        Body::from_stream(begun.chain(until_idle(body, tunnel::IDLE))),
    ))
}

/// What comes first of a body: at least `limit` bytes, unless it ends before.
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

/// A refusal of ours, not of the caller's: it must not read as if the caller lacked a right.
fn refuse_impersonation(
    to: &Destination,
    status: StatusCode,
    body: &[u8],
) -> Result<(), ForwardError> {
    if status != StatusCode::FORBIDDEN {
        return Ok(());
    }
    let status: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = status
        .as_ref()
        .and_then(|status| status["message"].as_str())
        .unwrap_or_default();
    if !message.contains("cannot impersonate resource") {
        return Ok(());
    }
    Err(ForwardError::MayNotImpersonate {
        cluster: to.cluster.clone(),
        message: message.to_owned(),
    })
}

fn crowded(bytes: usize) -> ForwardError {
    ApiError::Busy(format!(
        "{bytes} bytes of answers of members wait for this user already; read them first"
    ))
    .into()
}

fn lost(to: &Destination, error: &(dyn Error + 'static)) -> ForwardError {
    ForwardError::Unreachable {
        cluster: to.cluster.clone(),
        cause: causes(error),
    }
}

fn response(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// What comes of a body, until nothing has come for `idle`.
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

/// `Accept` of a request whose answer has to be understood here.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
