//! The edge of a domain of the OpenSearch Service: a reverse proxy that checks each signature with
//! AWS's own implementation, and refuses as AWS does.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result};
use aws_credential_types::Credentials;
use aws_sigv4::{
    http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign},
    sign::v4,
};
use axum::{
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, Method, Request, StatusCode, Uri, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use e2e::http;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};

pub const REGION: &str = "eu-central-1";
pub const ACCESS_KEY_ID: &str = "AKIAIOSFODNN7EXAMPLE";
pub const SECRET_ACCESS_KEY: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
pub const SESSION_TOKEN: &str = "AQoDYXdzEPT//////////wEXAMPLE==";
/// The path below which the domain is reached.
const PREFIX: &str = "/behind/a/proxy";
/// AWS allows this difference of clocks.
const SKEW: Duration = Duration::from_mins(5);
const LIMIT: usize = 64 << 20;

/// It runs as long as the runtime of the test that started it.
pub struct AwsDomain {
    address: String,
    edge: Arc<Edge>,
    _task: JoinSet<()>,
}

struct Edge {
    server: String,
    client: reqwest::Client,
    state: Mutex<EdgeState>,
}

struct EdgeState {
    /// The access key that it knows.
    access_key: String,
    /// How far its clock is ahead.
    ahead: Duration,
    accepted: usize,
    refusals: Vec<String>,
}

impl AwsDomain {
    /// Starts it in front of the OpenSearch at `server`.
    pub async fn start(server: &str) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}{PREFIX}", listener.local_addr()?);
        let edge = Arc::new(Edge {
            server: server.to_owned(),
            client: http::plain_client(None)?,
            state: Mutex::new(EdgeState {
                access_key: ACCESS_KEY_ID.to_owned(),
                ahead: Duration::ZERO,
                accepted: 0,
                refusals: Vec::new(),
            }),
        });
        let router = axum::Router::new()
            .fallback(serve)
            .with_state(Arc::clone(&edge));
        let mut task = JoinSet::new();
        task.spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                eprintln!("the domain ended: {error}");
            }
        });
        Ok(Self {
            address,
            edge,
            _task: task,
        })
    }

    /// Its address, with a path.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many requests had a valid signature.
    pub fn accepted(&self) -> usize {
        self.edge.state.lock().accepted
    }

    /// Why requests were refused.
    pub fn refusals(&self) -> Vec<String> {
        self.edge.state.lock().refusals.clone()
    }

    /// Knows another access key, with the same secret, and the former one no more.
    pub fn set_access_key(&self, id: &str) {
        id.clone_into(&mut self.edge.state.lock().access_key);
    }

    /// Sets its clock ahead.
    pub fn set_ahead(&self, ahead: Duration) {
        self.edge.state.lock().ahead = ahead;
    }
}

async fn serve(State(edge): State<Arc<Edge>>, request: Request<Body>) -> Response {
    match edge.forward(request).await {
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, format!("{error:#}")).into_response(),
    }
}

impl Edge {
    async fn forward(&self, request: Request<Body>) -> Result<Response> {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, LIMIT).await?;
        let (now, access_key) = {
            let state = self.state.lock();
            (SystemTime::now() + state.ahead, state.access_key.clone())
        };
        let request = (&parts.method, &parts.uri, &parts.headers, &*body);
        if let Some(message) = refusal(request, &access_key, now)? {
            self.state.lock().refusals.push(message.clone());
            let refusal = json!({ "message": message }).to_string();
            let content_type = [(CONTENT_TYPE, "application/json")];
            return Ok((StatusCode::FORBIDDEN, content_type, refusal).into_response());
        }
        self.state.lock().accepted += 1;
        let path = parts.uri.path_and_query().context("no path")?.as_str();
        let path = path.strip_prefix(PREFIX).context("another path")?;
        let mut sent = self
            .client
            .request(parts.method, format!("{}{path}", self.server));
        if let Some(content_type) = parts.headers.get(CONTENT_TYPE) {
            sent = sent.header(CONTENT_TYPE, content_type);
        }
        let answer = sent.body(body).send().await?;
        let status = answer.status();
        let content_type = answer.headers().get(CONTENT_TYPE).cloned();
        let mut response = Response::new(Body::from(answer.bytes().await?));
        *response.status_mut() = status;
        if let Some(content_type) = content_type {
            response.headers_mut().insert(CONTENT_TYPE, content_type);
        }
        Ok(response)
    }
}

/// What AWS answers to a request that it refuses; `None` if its signature is valid.
fn refusal(
    (method, uri, headers, body): (&Method, &Uri, &HeaderMap, &[u8]),
    access_key: &str,
    now: SystemTime,
) -> Result<Option<String>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let Some(authorization) = text("authorization") else {
        return Ok(Some(
            "User: anonymous is not authorized to perform: es:ESHttpGet".to_owned(),
        ));
    };
    let part = |name: &str| {
        let (_, rest) = authorization.split_once(&format!("{name}="))?;
        rest.split(',').next()
    };
    let credential = part("Credential").context("no credential")?;
    let signed_headers = part("SignedHeaders").context("no signed headers")?;
    let signature = part("Signature").context("no signature")?;
    let unknown = "The security token included in the request is invalid.";
    let (id, scope) = credential.split_once('/').context("no scope")?;
    if id != access_key || text("x-amz-security-token") != Some(SESSION_TOKEN) {
        return Ok(Some(unknown.to_owned()));
    }
    if !scope.ends_with(&format!("/{REGION}/es/aws4_request")) {
        let message = format!("Credential should be scoped to a valid region, not {scope}");
        return Ok(Some(message));
    }
    let date = text("x-amz-date").context("no date")?;
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", date)?;
    let time = SystemTime::from(time.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp());
    if now.duration_since(time).is_ok_and(|age| age > SKEW) {
        let message = format!("Signature expired: {date} is now earlier than the present");
        return Ok(Some(message));
    }
    let host = text("host").context("no host")?;
    let content_type = text("content-type").filter(|_| {
        let mut names = signed_headers.split(';');
        names.any(|name| name == "content-type")
    });
    let content_type = content_type.map(|value| ("content-type", value));
    let url = format!("http://{host}{uri}");
    let expected = expected_signature(method, &url, content_type, body, (access_key, time))?;
    let mismatch = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.";
    Ok((expected != signature).then(|| mismatch.to_owned()))
}

fn expected_signature(
    method: &Method,
    url: &str,
    content_type: Option<(&str, &str)>,
    body: &[u8],
    (access_key, time): (&str, SystemTime),
) -> Result<String> {
    let session_token = Some(SESSION_TOKEN.to_owned());
    let credentials =
        Credentials::new(access_key, SECRET_ACCESS_KEY, session_token, None, "a test");
    let identity = credentials.into();
    let mut settings = SigningSettings::default();
    settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
    let parameters = v4::SigningParams::builder()
        .identity(&identity)
        .region(REGION)
        .name("es")
        .time(time)
        .settings(settings)
        .build()?;
    let request = SignableRequest::new(
        method.as_str(),
        url,
        content_type.into_iter(),
        SignableBody::Bytes(body),
    )?;
    let (_, signature) = sign(request, &parameters.into())?.into_parts();
    Ok(signature)
}
