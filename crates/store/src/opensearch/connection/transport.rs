//! The tower service under the engine: in production an HTTP client of several nodes.
//!
//! Guarantee: credentials go to the addresses of the settings and nowhere else. No redirect is
//! followed, and no proxy is used but that of the settings. No response is longer than its
//! request's [`Allowance`], and none is decompressed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use fleetdex_core::model::causes;
use fleetdex_limits::intake::IntakeError;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header::ACCEPT_ENCODING};
use reqwest::{Certificate, Client, Identity, Proxy, Url, redirect};
use tokio::time::timeout;
use tower::util::BoxCloneSyncService;

use super::{
    authentication::{Authentication, StoreAuthenticator},
    aws_signer::SigningError,
    connection_fault::{ConnectionSetup, connection_fault, plain_http_fault},
    responses::Allowance,
};

/// Fleetdex's user agent.
const AGENT: &str = concat!("fleetdex/", env!("CARGO_PKG_VERSION"));

/// A request to OpenSearch as the engine makes it; the path carries the query string.
pub type OpenSearchService = BoxCloneSyncService<Request<Bytes>, Response<Bytes>, TransportError>;

/// How long a request may take; an extension of each request.
#[derive(Clone, Copy, Debug)]
pub struct Timeout(pub Duration);

/// No response could be read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TransportError {
    /// No response came, or not all of it.
    #[error("{address}: {reason}")]
    NoAnswer {
        /// The node that was tried last.
        address: String,
        /// What went wrong.
        reason: String,
    },
    /// The response is longer than its limit.
    #[error("{address}: the answer is longer than {limit} bytes")]
    TooLong {
        /// The node that sent it.
        address: String,
        /// The limit.
        limit: usize,
    },
    /// The user has no memory for the response.
    #[error("other requests of this user hold {0} bytes")]
    Crowded(usize),
    /// The request was not sent, as it could not be signed.
    #[error("{address}: {error}")]
    Unsigned {
        /// The node that it was for.
        address: String,
        /// Why.
        error: SigningError,
    },
    /// The request was not sent, as the store may not be asked.
    #[error("{}", .0.message)]
    Closed(StoreClosed),
}

/// Why a store may not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreClosed {
    /// CamelCase.
    pub reason: &'static str,
    /// The cause and what to do.
    pub message: String,
}

/// The settings are invalid.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SettingsError {
    /// No address.
    #[error(
        "backendStore.openSearch.addresses is empty; name at least one URL such as https://opensearch:9200"
    )]
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
    /// The bearer token cannot be sent.
    #[error(
        "the token in the Secret of backendStore.openSearch.secretRef holds characters that a header may not have"
    )]
    Token,
    /// The proxy is no URL.
    #[error("backendStore.openSearch.proxyURL: {0}")]
    Proxy(String),
    /// The client could not be built.
    #[error("cannot build the OpenSearch client: {0}")]
    Client(String),
}

/// Everything that decides how the nodes are reached.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// URLs of the nodes.
    pub addresses: Vec<String>,
    /// The credentials of requests.
    pub authentication: Authentication,
    /// PEM certificate and key to authenticate with.
    pub client_certificate: Option<Vec<u8>>,
    /// PEM certificates to trust.
    pub ca_bundle: Option<Vec<u8>>,
    /// Trust any certificate.
    pub insecure: bool,
    /// The proxy in front of the nodes.
    pub proxy: Option<StoreProxy>,
}

/// A proxy, and the user and password for it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoreProxy {
    /// Its URL: `http`, `https` or `socks5`.
    pub url: String,
    /// User and password.
    pub login: Option<(String, String)>,
}

/// Why a node gave no response.
enum ExchangeError {
    Unsigned(SigningError),
    Unread(IntakeError),
}

/// The nodes of one OpenSearch, used in turn; a node that does not respond is skipped.
#[derive(Clone)]
struct Nodes {
    nodes: Arc<[Node]>,
    turn: Arc<AtomicUsize>,
}

/// One node of an OpenSearch.
struct Node {
    /// As configured, for messages.
    address: String,
    url: Url,
    client: Client,
    authenticator: Arc<StoreAuthenticator>,
    setup: ConnectionSetup,
}

/// A service that sends requests to the nodes of `settings`.
pub fn connect(settings: &Settings) -> Result<OpenSearchService, SettingsError> {
    if settings.addresses.is_empty() {
        return Err(SettingsError::NoAddress);
    }
    let client = client(settings)?;
    let authenticator = StoreAuthenticator::new(&settings.authentication);
    let authenticator = Arc::new(authenticator.map_err(|_| SettingsError::Token)?);
    let setup = ConnectionSetup {
        has_ca_bundle: settings.ca_bundle.is_some(),
        has_client_certificate: settings.client_certificate.is_some(),
        is_proxied: settings.proxy.is_some(),
    };
    let node = |address: &String| {
        Ok(Node {
            address: address.clone(),
            url: url(address)?,
            client: client.clone(),
            authenticator: Arc::clone(&authenticator),
            setup,
        })
    };
    let nodes = settings
        .addresses
        .iter()
        .map(node)
        .collect::<Result<Vec<_>, SettingsError>>()?;
    let nodes = Nodes {
        nodes: nodes.into(),
        turn: Arc::default(),
    };
    Ok(BoxCloneSyncService::new(tower::service_fn(
        move |request| {
            let nodes = nodes.clone();
            async move { nodes.send(request).await }
        },
    )))
}

/// Parses an address.
pub fn url(address: &str) -> Result<Url, SettingsError> {
    let invalid = |reason: &str| SettingsError::Address {
        address: address.to_owned(),
        reason: reason.to_owned(),
    };
    if address.contains('@') {
        // Not repeated: it holds a password.
        return Err(SettingsError::Address {
            address: "(hidden)".to_owned(),
            reason: "it holds a user or a password".to_owned(),
        });
    }
    // An address with a path, as behind a proxy, must end in a slash for `join` to keep it.
    let url = Url::parse(&format!("{}/", address.trim_end_matches('/')))
        .map_err(|error| invalid(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid("the scheme is neither http nor https"));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("it has a query or a fragment"));
    }
    Ok(url)
}

/// Parses the URL of a proxy. Names of nodes are resolved by the proxy.
pub fn proxy_url(proxy: &str) -> Result<Url, SettingsError> {
    let invalid = |reason: &str| SettingsError::Proxy(reason.to_owned());
    if proxy.contains('@') {
        return Err(invalid(
            "it holds a user or a password: put them into the Secret of secretRef, as proxyUsername and proxyPassword",
        ));
    }
    // SOCKS leaves it to the client who resolves names; for members it is the proxy, too.
    let resolving = proxy.strip_prefix("socks5://");
    let resolving = resolving.map(|rest| format!("socks5h://{rest}"));
    let url = Url::parse(resolving.as_deref().unwrap_or(proxy))
        .map_err(|error| invalid(&error.to_string()))?;
    let is_known = matches!(url.scheme(), "http" | "https" | "socks5h");
    if !is_known || url.host_str().is_none_or(str::is_empty) {
        return Err(invalid(
            "write it as http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT",
        ));
    }
    Ok(url)
}

fn proxy(settings: &StoreProxy) -> Result<Proxy, SettingsError> {
    let proxy = Proxy::all(proxy_url(&settings.url)?)
        .map_err(|error| SettingsError::Proxy(causes(&error.without_url())))?;
    Ok(match &settings.login {
        Some((user, password)) => proxy.basic_auth(user, password),
        None => proxy,
    })
}

fn client(settings: &Settings) -> Result<Client, SettingsError> {
    let unusable = |error: reqwest::Error| SettingsError::Client(causes(&error));
    let mut builder = Client::builder()
        .user_agent(AGENT)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .no_gzip();
    if let Some(settings) = &settings.proxy {
        builder = builder.proxy(proxy(settings)?);
    }
    if let Some(pem) = &settings.client_certificate {
        builder = builder.identity(Identity::from_pem(pem).map_err(unusable)?);
    }
    if settings.insecure {
        builder = builder.tls_danger_accept_invalid_certs(true);
    } else if let Some(pem) = &settings.ca_bundle {
        let certificates = Certificate::from_pem_bundle(pem)
            .map_err(|error| SettingsError::CaBundle(causes(&error)))?;
        if certificates.is_empty() {
            return Err(SettingsError::CaBundle(
                "there is no -----BEGIN CERTIFICATE----- in it".to_owned(),
            ));
        }
        builder = certificates
            .into_iter()
            .fold(builder, reqwest::ClientBuilder::add_root_certificate);
    }
    builder.build().map_err(unusable)
}

impl Nodes {
    async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, TransportError> {
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut last_failure = None;
        for offset in 0..self.nodes.len() {
            let node = &self.nodes[(first + offset) % self.nodes.len()];
            let address = node.address.clone();
            let reason = match node.exchange(&request).await {
                Ok(response) => match plain_http_fault(&response, &node.url) {
                    None => return Ok(response),
                    Some(fault) => fault,
                },
                // Requests for another node would have the same credentials.
                Err(ExchangeError::Unsigned(error)) => {
                    return Err(TransportError::Unsigned { address, error });
                }
                // Another node would send the same response.
                Err(ExchangeError::Unread(
                    IntakeError::TooLarge(limit) | IntakeError::RequestTooLarge(limit),
                )) => return Err(TransportError::TooLong { address, limit }),
                Err(ExchangeError::Unread(IntakeError::ShareExhausted(bytes))) => {
                    return Err(TransportError::Crowded(bytes));
                }
                Err(ExchangeError::Unread(IntakeError::Broken(error))) => {
                    connection_fault(&*error, &node.url, node.setup)
                }
                Err(ExchangeError::Unread(error @ IntakeError::Slow)) => error.to_string(),
            };
            tracing::debug!(address, reason, "no response from an OpenSearch node");
            last_failure = Some(TransportError::NoAnswer { address, reason });
        }
        Err(last_failure.unwrap_or_else(|| TransportError::NoAnswer {
            address: String::new(),
            reason: "no node".to_owned(),
        }))
    }
}

impl Node {
    /// Sends a request and reads the response, within the request's [`Timeout`].
    async fn exchange(&self, request: &Request<Bytes>) -> Result<Response<Bytes>, ExchangeError> {
        let answered = async {
            let (status, body) = self.send(request).await?;
            let allowance = request
                .extensions()
                .get::<Allowance>()
                .cloned()
                .unwrap_or_default();
            let body = allowance.read(status, body).await;
            let mut answer = Response::new(body.map_err(ExchangeError::Unread)?);
            *answer.status_mut() = status;
            Ok(answer)
        };
        match request.extensions().get() {
            None => answered.await,
            // The client's own timeout does not run while a response waits for room.
            Some(Timeout(limit)) => timeout(*limit, answered).await.unwrap_or_else(|_| {
                let problem = format!("no whole answer within {} s", limit.as_secs());
                Err(ExchangeError::Unread(IntakeError::Broken(problem.into())))
            }),
        }
    }

    async fn send(
        &self,
        request: &Request<Bytes>,
    ) -> Result<(StatusCode, reqwest::Body), ExchangeError> {
        let path = request
            .uri()
            .path_and_query()
            .map_or("", http::uri::PathAndQuery::as_str);
        let mut url = self.url.clone();
        let (path, query) = path
            .split_once('?')
            .map_or((path, None), |(path, query)| (path, Some(query)));
        url.set_path(&format!("{}{}", url.path(), path.trim_start_matches('/')));
        url.set_query(query);
        let mut headers: HeaderMap = request.headers().clone();
        // Between machines side by side, compressing a response takes longer than sending it, and
        // occupies a core of the store.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        self.authenticator
            .authenticate(request.method(), &url, request.body(), &mut headers)
            .await
            .map_err(ExchangeError::Unsigned)?;
        let mut sent = self
            .client
            .request(request.method().clone(), url)
            .headers(headers);
        if !request.body().is_empty() {
            sent = sent.body(request.body().clone());
        }
        let response = sent.send().await.map_err(unread)?;
        Ok((response.status(), response.into()))
    }
}

/// Removes the URL, which is that of the request and says less than the address.
fn unread(error: reqwest::Error) -> ExchangeError {
    ExchangeError::Unread(IntakeError::Broken(error.without_url().into()))
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
    };
    use tower::ServiceExt as _;

    use super::*;
    use crate::opensearch::connection::responses::{Purpose, ResponseBudget};

    fn settings(address: &str) -> Settings {
        let login = Authentication::Basic {
            user: "admin".to_owned(),
            password: "hunter2".to_owned(),
        };
        Settings {
            addresses: vec![address.to_owned()],
            authentication: login,
            client_certificate: None,
            ca_bundle: None,
            insecure: false,
            proxy: None,
        }
    }

    /// Responds to one request, and returns that request.
    async fn serve(listener: TcpListener, answer: String) -> String {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 8 << 10];
        let length = stream.read(&mut request).await.unwrap();
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8_lossy(&request[..length]).into_owned()
    }

    async fn ask(address: &str, path: &str) -> StatusCode {
        let request = Request::builder().uri(path).body(Bytes::new()).unwrap();
        connect(&settings(address))
            .unwrap()
            .oneshot(request)
            .await
            .unwrap()
            .status()
    }

    #[tokio::test]
    async fn a_redirect_is_not_followed() {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let [store, elsewhere] = [
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        ];
        let address = format!("http://{}", store.local_addr().unwrap());
        let location = elsewhere.local_addr().unwrap();
        let answer = format!(
            "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{location}/\r\ncontent-length: 0\r\n\r\n"
        );
        let (status, request) = tokio::join!(ask(&address, "/_bulk"), serve(store, answer));
        assert_eq!(status, StatusCode::TEMPORARY_REDIRECT);
        assert!(
            request.starts_with("GET /_bulk HTTP/1.1") && request.contains("authorization: Basic"),
            "{request}"
        );
        let asked = tokio::time::timeout(Duration::from_millis(50), elsewhere.accept()).await;
        assert!(asked.is_err(), "the redirect was followed");
    }

    #[tokio::test]
    async fn an_address_may_have_a_path_and_the_query_stays() {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/behind/proxy/", store.local_addr().unwrap());
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned();
        let (status, request) = tokio::join!(
            ask(&address, "/%3Cfleetdex%3E-a_2fb/_search?q=%2B1&x"),
            serve(store, answer)
        );
        assert_eq!(status, StatusCode::OK);
        assert!(
            request.starts_with("GET /behind/proxy/%3Cfleetdex%3E-a_2fb/_search?q=%2B1&x HTTP/1.1"),
            "{request}"
        );
    }

    #[tokio::test]
    async fn a_bearer_token_is_sent_as_it_is() {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = settings(&format!("http://{}", store.local_addr().unwrap()));
        settings.authentication = Authentication::Bearer("a.b.c".to_owned());
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned();
        let request = Request::builder().body(Bytes::new()).unwrap();
        let asked = connect(&settings).unwrap().oneshot(request);
        let (answer, request) = tokio::join!(asked, serve(store, answer));
        assert_eq!(answer.unwrap().status(), StatusCode::OK);
        assert!(
            request.contains("\r\nauthorization: Bearer a.b.c\r\n"),
            "{request}"
        );
    }

    #[tokio::test]
    async fn a_proxy_is_asked_for_an_address_without_tls() {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut settings = settings("http://store.example:9200/x");
        settings.proxy = Some(StoreProxy {
            url: format!("http://{}", proxy.local_addr().unwrap()),
            login: Some(("us@er".to_owned(), "wo:rd".to_owned())),
        });
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned();
        let request = Request::builder()
            .uri("/_search?q=%2B1")
            .body(Bytes::new())
            .unwrap();
        let asked = connect(&settings).unwrap().oneshot(request);
        let (answer, request) = tokio::join!(asked, serve(proxy, answer));
        assert_eq!(answer.unwrap().status(), StatusCode::OK);
        let line = "GET http://store.example:9200/x/_search?q=%2B1 HTTP/1.1\r\n";
        assert!(request.starts_with(line), "{request}");
        assert!(
            request.contains("proxy-authorization: Basic dXNAZXI6d286cmQ=\r\n"),
            "{request}"
        );
    }

    #[test]
    fn a_proxy_is_a_url_without_a_login() {
        for (proxy, expected) in [
            ("http://p:3128", "http://p:3128/"),
            ("https://p", "https://p/"),
            ("socks5://p:1080", "socks5h://p:1080"),
        ] {
            assert_eq!(proxy_url(proxy).unwrap().as_str(), expected);
        }
        for refused in [
            "http://user:hunter2@p",
            "ftp://p",
            "p:3128",
            "socks5://",
            "",
        ] {
            let error = proxy_url(refused).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(
                error.starts_with("backendStore.openSearch.proxyURL: "),
                "{error}"
            );
        }
    }

    /// Sends a request with room for this many bytes.
    async fn ask_for_at_most(
        bytes: usize,
        settings: &Settings,
    ) -> Result<Response<Bytes>, TransportError> {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let allowance = ResponseBudget::of_at_most(bytes).allowance(Purpose::Question);
        let request = Request::builder()
            .uri("/a/_search")
            .extension(Timeout(Duration::from_secs(30)))
            .extension(allowance);
        connect(settings)
            .unwrap()
            .oneshot(request.body(Bytes::new()).unwrap())
            .await
    }

    /// Responds to one request with a head and then chunks of 8 KiB for as long as they are read.
    /// Returns how many bytes that were.
    async fn flood(listener: TcpListener, head: &str) -> usize {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 8 << 10];
        let _asked = stream.read(&mut request).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = [b"2000\r\n".as_slice(), &[b' '; 0x2000], b"\r\n"].concat();
        let mut sent = 0;
        while stream.write_all(&chunk).await.is_ok() {
            sent += 0x2000;
        }
        sent
    }

    const LIMIT: usize = 64 << 10;
    /// What the kernel and hyper buffer besides what is read.
    const BUFFERED: usize = 16 << 20;

    #[tokio::test]
    async fn an_answer_is_read_to_its_limit_and_no_other_node_is_asked_for_it() {
        let [store, other] = [
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
        ];
        let address = |listener: &TcpListener| format!("http://{}", listener.local_addr().unwrap());
        let both = Settings {
            addresses: vec![address(&store), address(&other)],
            ..settings("")
        };
        let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let (answer, sent) = tokio::join!(ask_for_at_most(LIMIT, &both), flood(store, endless));
        assert!(
            matches!(answer, Err(TransportError::TooLong { limit: LIMIT, .. })),
            "{answer:?}"
        );
        assert!(sent < BUFFERED, "{sent} bytes were taken");
        assert!(
            tokio::time::timeout(Duration::from_millis(50), other.accept())
                .await
                .is_err(),
            "another node was asked"
        );
    }

    #[tokio::test]
    async fn an_answer_that_announces_to_be_too_long_is_not_read() {
        let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", store.local_addr().unwrap());
        // Nothing of it ever comes.
        let announced = "HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n".to_owned();
        let settings = settings(&address);
        let (answer, _) = tokio::join!(ask_for_at_most(LIMIT, &settings), serve(store, announced));
        assert!(
            matches!(answer, Err(TransportError::TooLong { .. })),
            "{answer:?}"
        );
    }

    #[tokio::test]
    async fn of_an_error_the_beginning_is_read() {
        let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = settings(&format!("http://{}", store.local_addr().unwrap()));
        let endless = "HTTP/1.1 503 Service Unavailable\r\ntransfer-encoding: chunked\r\n\r\n";
        let (answer, sent) = tokio::join!(ask_for_at_most(LIMIT, &settings), flood(store, endless));
        let answer = answer.unwrap();
        assert_eq!(
            (answer.status(), answer.body().len()),
            (StatusCode::SERVICE_UNAVAILABLE, LIMIT)
        );
        assert!(sent < BUFFERED, "{sent} bytes were taken");
    }

    #[tokio::test]
    async fn a_bomb_is_not_unpacked() {
        let store = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let settings = settings(&format!("http://{}", store.local_addr().unwrap()));
        let mut compressor = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut compressor, &vec![b' '; 16 << 20]).unwrap();
        let bomb = compressor.finish().unwrap();
        let length = bomb.len();
        let answering = async move {
            let (mut stream, _) = store.accept().await.unwrap();
            let _asked = stream.read(&mut vec![0; 8 << 10]).await.unwrap();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n"
            );
            stream
                .write_all(&[head.as_bytes(), &bomb].concat())
                .await
                .unwrap();
        };
        let (answer, ()) = tokio::join!(ask_for_at_most(LIMIT, &settings), answering);
        assert_eq!(answer.unwrap().body().len(), length);
    }

    #[test]
    fn an_address_shows_no_password() {
        for address in [
            "https://user:hunter2@os:9200",
            "https://os:9200?a",
            "https://os:9200#a",
            "ftp://os",
            "os:9200",
            "",
        ] {
            let error = url(address).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        assert_eq!(
            url("https://os:9200/").unwrap().as_str(),
            "https://os:9200/"
        );
    }
}
