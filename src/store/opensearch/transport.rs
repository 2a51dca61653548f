//! The tower service under the engine: in production an HTTP client over several nodes.
//!
//! Guarantee: credentials go to the addresses of the settings and nowhere else. No redirect is followed, and no proxy of the environment is used.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header::ACCEPT_ENCODING};
use reqwest::{Certificate, Client, Identity, Url, redirect};
use tower::util::BoxCloneSyncService;

use crate::model::causes;

/// How Fleetdex names itself to OpenSearch.
const AGENT: &str = concat!("fleetdex/", env!("CARGO_PKG_VERSION"));

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
    nodes: Arc<[Node]>,
    turn: Arc<AtomicUsize>,
}

/// One node of an OpenSearch.
struct Node {
    /// As it was written, for messages.
    address: String,
    url: Url,
    client: Client,
    basic_auth: Option<(String, String)>,
}

/// A service that sends requests to the nodes of `settings`.
pub fn connect(settings: &Settings) -> Result<OpenSearchService, SettingsError> {
    if settings.addresses.is_empty() {
        return Err(SettingsError::NoAddress);
    }
    let client = client(settings)?;
    let node = |address: &String| {
        let (url, basic_auth) = (url(address)?, settings.basic_auth.clone());
        Ok(Node { address: address.clone(), url, client: client.clone(), basic_auth })
    };
    let nodes = settings.addresses.iter().map(node).collect::<Result<Vec<_>, SettingsError>>()?;
    let nodes = Nodes { nodes: nodes.into(), turn: Arc::default() };
    Ok(BoxCloneSyncService::new(tower::service_fn(move |request| {
        let nodes = nodes.clone();
        async move { nodes.send(request).await }
    })))
}

/// An address that requests can be sent to.
pub fn url(address: &str) -> Result<Url, SettingsError> {
    let invalid = |reason: &str| SettingsError::Address { address: address.to_owned(), reason: reason.to_owned() };
    if address.contains('@') {
        // Not repeated: it is a password.
        return Err(SettingsError::Address {
            address: "(hidden)".to_owned(),
            reason: "it holds a user or a password".to_owned(),
        });
    }
    // A path of its own, as behind a proxy, must end in a slash for `join` to keep it.
    let url = Url::parse(&format!("{}/", address.trim_end_matches('/'))).map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("the scheme is neither http nor https"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("it has a query or a fragment"));
    }
    Ok(url)
}

fn client(settings: &Settings) -> Result<Client, SettingsError> {
    let unusable = |error: reqwest::Error| SettingsError::Client(causes(&error));
    let mut builder = Client::builder().user_agent(AGENT).no_proxy().redirect(redirect::Policy::none()).no_gzip();
    if let Some(pem) = &settings.client_certificate {
        builder = builder.identity(Identity::from_pem(pem).map_err(unusable)?);
    }
    if settings.insecure {
        builder = builder.tls_danger_accept_invalid_certs(true);
    } else if let Some(pem) = &settings.ca_bundle {
        let certificates = Certificate::from_pem_bundle(pem).map_err(|error| SettingsError::CaBundle(causes(&error)))?;
        if certificates.is_empty() {
            return Err(SettingsError::CaBundle("there is no -----BEGIN CERTIFICATE----- in it".to_owned()));
        }
        builder = certificates.into_iter().fold(builder, reqwest::ClientBuilder::add_root_certificate);
    }
    builder.build().map_err(unusable)
}

impl Nodes {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut last_failure = None;
        for offset in 0..self.nodes.len() {
            let node = &self.nodes[(first + offset) % self.nodes.len()];
            match node.send(&request).await {
                Ok(response) => return Ok(response),
                Err(error) => {
                    // Not with the URL, which is that of the request and tells less than the address.
                    let (address, reason) = (node.address.clone(), causes(&error.without_url()));
                    tracing::debug!(address, reason, "no answer from an OpenSearch node");
                    last_failure = Some(TransportError { address, reason });
                }
            }
        }
        Err(last_failure.unwrap_or_else(|| TransportError { address: String::new(), reason: "no node".to_owned() }))
    }
}

impl Node {
    async fn send(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, reqwest::Error> {
        let path = request.uri().path_and_query().map_or("", http::uri::PathAndQuery::as_str);
        let mut url = self.url.clone();
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}{}", url.path(), path.trim_start_matches('/')));
        url.set_query(query);
        let mut headers: HeaderMap = request.headers().clone();
        // Between machines that stand side by side, packing an answer takes longer than sending it, and one core of the store with it.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let mut sent = self.client.request(request.method().clone(), url).headers(headers);
        if let Some((user, password)) = &self.basic_auth {
            sent = sent.basic_auth(user, Some(password));
        }
        if let Some(Timeout(timeout)) = request.extensions().get() {
            sent = sent.timeout(*timeout);
        }
        if !request.body().is_empty() {
            sent = sent.body(request.body().clone());
        }
        let response = sent.send().await?;
        let status = response.status();
        let mut answer = Response::new(response.bytes().await?);
        *answer.status_mut() = status;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    use tower::ServiceExt as _;

    use super::*;

    fn settings(address: &str) -> Settings {
        let login = Some(("admin".to_owned(), "hunter2".to_owned()));
        Settings {
            addresses: vec![address.to_owned()],
            basic_auth: login,
            client_certificate: None,
            ca_bundle: None,
            insecure: false,
        }
    }

    /// Answers one request, and gives what it was.
    async fn serve(listener: TcpListener, answer: String) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 8 << 10];
        let length = stream.read(&mut request).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    }

    async fn ask(address: &str, path: &str) -> StatusCode {
        let request = Request::builder().uri(path).body(Bytes::new()).unwrap();
        connect(&settings(address)).unwrap().oneshot(request).await.unwrap().status()
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let [store, elsewhere] =
            [TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap()];
        let address = format!("http://{}", store.local_addr().unwrap());
        let location = elsewhere.local_addr().unwrap();
        let answer = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{location}/\r\ncontent-length: 0\r\n\r\n");
        let (status, request) = tokio::join!(ask(&address, "/_bulk"), serve(store, answer));
        assert_eq!(status, StatusCode::TEMPORARY_REDIRECT);
        assert!(request.starts_with("GET /_bulk HTTP/1.1") && request.contains("authorization: Basic"), "{request}");
        let asked = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
        assert!(asked.is_err(), "the redirect was followed");
    }

    #[tokio::test]
    async fn an_address_may_have_a_path_and_the_query_stays() {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/behind/proxy/", store.local_addr().unwrap());
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned();
        let (status, request) = tokio::join!(ask(&address, "/%3Cfleetdex%3E-a_2fb/_search?q=%2B1&x"), serve(store, answer));
        assert_eq!(status, StatusCode::OK);
        assert!(request.starts_with("GET /behind/proxy/%3Cfleetdex%3E-a_2fb/_search?q=%2B1&x HTTP/1.1"), "{request}");
    }

    #[test]
    fn an_address_shows_no_password() {
        for address in ["https://user:hunter2@os:9200", "https://os:9200?a", "https://os:9200#a", "ftp://os", "os:9200", ""] {
            let error = url(address).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert_eq!(url("https://os:9200/").unwrap().as_str(), "https://os:9200/");
    }
}
