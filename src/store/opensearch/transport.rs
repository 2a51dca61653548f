//! The tower service under the engine: in production the `opensearch` client's transport over several nodes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response};
use opensearch::{
    auth::{ClientCertificate, Credentials},
    cert::{Certificate, CertificateValidation},
    http::{
        Url,
        headers::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue},
        transport::{SingleNodeConnectionPool, Transport, TransportBuilder},
    },
};
use tower::util::BoxCloneSyncService;

use crate::model::causes;

/// A request to OpenSearch as the engine makes it; the path carries the query string.
pub type OpenSearchService = BoxCloneSyncService<Request<Bytes>, Response<Bytes>, TransportError>;

/// How long a request may take; an extension of each request.
#[derive(Clone, Copy, Debug)]
pub struct Timeout(pub Duration);

/// No answer came.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{address}: {reason}")]
pub struct TransportError {
    /// The node that was asked last.
    pub address: String,
    /// What went wrong.
    pub reason: String,
}

/// The settings do not make a connection.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SettingsError {
    /// No address.
    #[error("backendStore.openSearch.addresses is empty; name at least one URL such as https://opensearch:9200")]
    NoAddress,
    /// An address is no URL.
    #[error("backendStore.openSearch.addresses: {address:?} is no http(s) URL: {reason}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The CA is no PEM certificate.
    #[error("backendStore.openSearch.caBundle holds no PEM certificate: {0}")]
    CaBundle(String),
    /// The client could not be built.
    #[error("cannot build the OpenSearch client: {0}")]
    Client(String),
}

/// Everything that decides how the nodes are reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// URLs of the nodes.
    pub addresses: Vec<String>,
    /// User name and password; absent: no authentication.
    pub basic_auth: Option<(String, String)>,
    /// PEM certificate and key to authenticate with.
    pub client_certificate: Option<Vec<u8>>,
    /// PEM certificates to trust.
    pub ca_bundle: Option<Vec<u8>>,
    /// Trust any certificate.
    pub insecure: bool,
}

/// The nodes of one OpenSearch, asked in turn; a node that gives no answer is passed over.
#[derive(Clone)]
struct Nodes {
    nodes: Arc<[(String, Transport)]>,
    turn: Arc<AtomicUsize>,
}

/// A service that sends requests to the nodes of `settings`.
pub fn connect(settings: &Settings) -> Result<OpenSearchService, SettingsError> {
    if settings.addresses.is_empty() {
        return Err(SettingsError::NoAddress);
    }
    let nodes = settings
        .addresses
        .iter()
        .map(|address| Ok((address.clone(), transport(address, settings)?)))
        .collect::<Result<Vec<_>, SettingsError>>()?;
    let nodes = Nodes { nodes: nodes.into(), turn: Arc::default() };
    Ok(BoxCloneSyncService::new(tower::service_fn(move |request| {
        let nodes = nodes.clone();
        async move { nodes.send(request).await }
    })))
}

fn transport(address: &str, settings: &Settings) -> Result<Transport, SettingsError> {
    // A path of its own, as behind a proxy, must end in a slash for `join` to keep it.
    let url = Url::parse(&format!("{}/", address.trim_end_matches('/')))
        .map_err(|error| SettingsError::Address { address: address.to_owned(), reason: error.to_string() })?;
    let mut builder = TransportBuilder::new(SingleNodeConnectionPool::new(url)).disable_proxy();
    if let Some((user, password)) = &settings.basic_auth {
        builder = builder.auth(Credentials::Basic(user.clone(), password.clone()));
    }
    if let Some(pem) = &settings.client_certificate {
        builder = builder.auth(Credentials::Certificate(ClientCertificate::Pem(pem.clone())));
    }
    if settings.insecure {
        builder = builder.cert_validation(CertificateValidation::None);
    } else if let Some(pem) = &settings.ca_bundle {
        let certificate = Certificate::from_pem(pem).map_err(|error| SettingsError::CaBundle(error.to_string()))?;
        builder = builder.cert_validation(CertificateValidation::Full(certificate));
    }
    builder.build().map_err(|error| SettingsError::Client(error.to_string()))
}

impl Nodes {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut last_failure = None;
        for offset in 0..self.nodes.len() {
            let (address, transport) = &self.nodes[(first + offset) % self.nodes.len()];
            match send_to(transport, &request).await {
                Ok(response) => return Ok(response),
                Err(error) => {
                    let reason = causes(&error);
                    tracing::debug!(%address, %reason, "no answer from an OpenSearch node");
                    last_failure = Some(TransportError { address: address.clone(), reason });
                }
            }
        }
        Err(last_failure.unwrap_or_else(|| TransportError { address: String::new(), reason: "no node".to_owned() }))
    }
}

async fn send_to(transport: &Transport, request: &Request<Bytes>) -> Result<Response<Bytes>, opensearch::Error> {
    let method = match *request.method() {
        Method::PUT => opensearch::http::Method::Put,
        Method::POST => opensearch::http::Method::Post,
        Method::DELETE => opensearch::http::Method::Delete,
        Method::HEAD => opensearch::http::Method::Head,
        _ => opensearch::http::Method::Get,
    };
    let timeout = request.extensions().get::<Timeout>().map(|timeout| timeout.0);
    let mut headers = HeaderMap::new();
    // Between machines that stand side by side, packing an answer takes longer than sending it, and one core of the store with it.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    if let Some(content_type) = request.headers().get(CONTENT_TYPE)
        && let Ok(content_type) = HeaderValue::from_bytes(content_type.as_bytes())
    {
        headers.insert(CONTENT_TYPE, content_type);
    }
    let body = Some(request.body().clone()).filter(|body| !body.is_empty());
    let path = request.uri().path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let response = transport.send(method, path, headers, None::<&()>, body, timeout).await?;
    let status = response.status_code().as_u16();
    let body = response.bytes().await?;
    let mut answer = Response::new(body);
    if let Ok(status) = http::StatusCode::from_u16(status) {
        *answer.status_mut() = status;
    }
    Ok(answer)
}
