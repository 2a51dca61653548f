//! Sends one request and receives its response, directly or through an apiserver.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use fleetdex_clusters::source::read_kubeconfig;
use fleetdex_core::model::causes;
use fleetdex_query_api::{group::FLEET_PATH, percent};
use fleetdex_tls::TlsFailure;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use reqwest::{Client, Url, redirect};
use tokio::time::timeout;

use super::{
    client_config::ClientConfig,
    error::{BoxError, ClientError},
};

/// Connect timeout of a server on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Connect timeout over a network, without the time of a credential plugin.
const REMOTE_CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Timeout of the response headers and of each piece of the body. The server allows its store half
/// of it, and the whole of it for counts.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// The namespace of a context without one.
const DEFAULT_NAMESPACE: &str = "default";

/// The body of a response.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// A connection to a server.
#[derive(Clone)]
pub struct Transport {
    client: HttpClient,
    server: String,
    namespace: String,
}

#[derive(Clone)]
enum HttpClient {
    /// Directly, with the token of a file.
    Direct {
        client: Client,
        url: String,
        token: String,
    },
    /// Through an apiserver, with the credentials of a kubeconfig.
    Apiserver(kube::Client),
}

/// A client of the apiserver of a kubeconfig.
pub struct ApiserverClient {
    /// Sends requests with the credentials of the kubeconfig.
    pub client: kube::Client,
    /// A description of the server for messages.
    pub server: String,
    /// The namespace of the context.
    pub namespace: String,
}

/// A successful response.
pub struct ApiResponse {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its status.
    pub code: StatusCode,
    body: ResponseBody,
    server: String,
    remedy: &'static str,
}

impl Transport {
    /// Reads the token or the kubeconfig; sends no request.
    pub async fn new(config: &ClientConfig) -> Result<Self, ClientError> {
        match config {
            ClientConfig::Direct { server, token_file } => Self::direct(server, token_file),
            ClientConfig::Apiserver {
                kubeconfig,
                context,
            } => {
                let path = kubeconfig.as_deref();
                let apiserver = ApiserverClient::new(path, context.as_deref()).await?;
                Ok(Self {
                    client: HttpClient::Apiserver(apiserver.client),
                    server: apiserver.server,
                    namespace: apiserver.namespace,
                })
            }
        }
    }

    /// Ignores proxies of the environment, so that the token stays on this machine.
    fn direct(server: &str, token_file: &Path) -> Result<Self, ClientError> {
        check_address(server)?;
        let token =
            std::fs::read_to_string(token_file).map_err(|source| ClientError::TokenFile {
                path: token_file.to_owned(),
                source,
            })?;
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| ClientError::Client(error.into()))?;
        let url = server.trim_end_matches('/').to_owned();
        Ok(Self {
            server: format!("the server at {url}"),
            namespace: DEFAULT_NAMESPACE.to_owned(),
            client: HttpClient::Direct {
                client,
                url,
                token: token.trim().to_owned(),
            },
        })
    }

    /// Returns a description of the server for messages.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the URL of the server; `None` behind an apiserver.
    pub fn url(&self) -> Option<&str> {
        match &self.client {
            HttpClient::Direct { url, .. } => Some(url),
            HttpClient::Apiserver(_) => None,
        }
    }

    /// Returns the namespace of the context, or `default`.
    pub fn default_namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request to a path with its query; returns a successful response.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
    ) -> Result<ApiResponse, ClientError> {
        let (server, remedy) = (self.server.clone(), self.remedy());
        let received = in_time(&server, self.client.send(method, path, accept)).await?;
        let response = received.map_err(|source| ClientError::Unreachable {
            server: server.clone(),
            remedy,
            source: described(source),
        })?;
        let (parts, body) = response.into_parts();
        let code = parts.status;
        let response = ApiResponse {
            headers: parts.headers,
            code,
            body,
            server,
            remedy,
        };
        if code.is_success() {
            return Ok(response);
        }
        let is_behind_apiserver = matches!(self.client, HttpClient::Apiserver(_));
        let body = response.bytes().await?;
        Err(ClientError::from_response(
            &self.server,
            is_behind_apiserver,
            path,
            code.as_u16(),
            &body,
        ))
    }

    fn remedy(&self) -> &'static str {
        match self.client {
            HttpClient::Direct { .. } => {
                "; is `fleetdex run` or `fleetdex local` running there? Use another server with --server"
            }
            HttpClient::Apiserver(_) => {
                "; does kubectl reach it? Use another cluster with --context, or a server with --server"
            }
        }
    }
}

impl ApiserverClient {
    /// Reads the kubeconfig; sends no request.
    pub async fn new(path: Option<&Path>, context: Option<&str>) -> Result<Self, ClientError> {
        let kubeconfig = read_kubeconfig(path)
            .await
            .map_err(ClientError::Kubeconfig)?;
        let server = describe_context(&kubeconfig, path, context);
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        match kube::Config::from_custom_kubeconfig(kubeconfig, &options).await {
            Ok(config) => Self::of_config(config, server),
            Err(error) => Err(ClientError::Context {
                server,
                source: error.into(),
            }),
        }
    }

    /// As [`new`](Self::new); without a kubeconfig, and with none named, the apiserver of the Pod
    /// that this runs in.
    pub async fn of_kubeconfig_or_pod(
        path: Option<&Path>,
        context: Option<&str>,
    ) -> Result<Self, ClientError> {
        let result = Self::new(path, context).await;
        if path.is_some() || context.is_some() {
            return result;
        }
        match (result, kube::Config::incluster()) {
            (Err(ClientError::Kubeconfig(_)), Ok(config)) => {
                Self::of_config(config, "the apiserver of this Pod".to_owned())
            }
            (result, _) => result,
        }
    }

    fn of_config(mut config: kube::Config, server: String) -> Result<Self, ClientError> {
        let unusable = |source: BoxError| ClientError::Context {
            server: server.clone(),
            source,
        };
        config.connect_timeout = Some(REMOTE_CONNECT_TIMEOUT);
        // The timeouts here apply to each piece of a response.
        config.read_timeout = None;
        config.default_retry = false;
        config.cluster_url = without_fleet_path(config.cluster_url);
        use_login_of_url(&mut config).map_err(unusable)?;
        let namespace = config.default_namespace.clone();
        let client = kube::Client::try_from(config).map_err(|error| unusable(error.into()))?;
        Ok(Self {
            client,
            server,
            namespace,
        })
    }
}

impl ApiResponse {
    /// Reads the rest of the body.
    pub async fn bytes(mut self) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// Returns the next piece of the body, or `None` at its end. Fails if none comes within a
    /// minute.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            let Some(frame) = in_time(&self.server, self.body.frame()).await? else {
                return Ok(None);
            };
            let frame = frame.map_err(|source| ClientError::Unreachable {
                server: self.server.clone(),
                remedy: self.remedy,
                source,
            })?;
            // Trailers are ignored.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

async fn in_time<T>(server: &str, answer: impl Future<Output = T>) -> Result<T, ClientError> {
    let result = timeout(IDLE_TIMEOUT, answer).await;
    result.map_err(|_| ClientError::Timeout {
        server: server.to_owned(),
        seconds: IDLE_TIMEOUT.as_secs(),
    })
}

impl HttpClient {
    async fn send(
        &self,
        method: Method,
        path: &str,
        accept: &'static str,
    ) -> Result<http::Response<ResponseBody>, BoxError> {
        match self {
            Self::Direct { client, url, token } => {
                let request = client
                    .request(method, format!("{url}{path}"))
                    .bearer_auth(token)
                    .header(header::ACCEPT, accept);
                let response = http::Response::<reqwest::Body>::from(request.send().await?);
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
            Self::Apiserver(client) => {
                let request = Request::builder()
                    .method(method)
                    .uri(path)
                    .header(header::ACCEPT, accept);
                let empty = kube::client::Body::empty();
                let response = client.send(request.body(empty)?).await?;
                Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
        }
    }
}

/// Removes the path of the fleet, which a context of `fleetdex kubeconfig` has, from the URL of the
/// apiserver.
fn without_fleet_path(url: http::Uri) -> http::Uri {
    let text = url.to_string();
    let server = text.trim_end_matches('/').strip_suffix(FLEET_PATH);
    server.and_then(|server| server.parse().ok()).unwrap_or(url)
}

/// Moves the user and password of the URL to the credentials: kube does not send them, and its
/// errors contain the URL. Other credentials take precedence, as in kubectl.
fn use_login_of_url(config: &mut kube::Config) -> Result<(), BoxError> {
    let mut url = Url::parse(&config.cluster_url.to_string())?;
    let Some(password) = url.password().map(decoded) else {
        return Ok(());
    };
    if !has_authorization(&config.auth_info) {
        config.auth_info.username = Some(decoded(url.username()));
        config.auth_info.password = Some(password.into());
    }
    // Neither fails for a URL with a host, which a URL with a password has.
    let _result = url.set_username("");
    let _result = url.set_password(None);
    config.cluster_url = url.as_str().parse()?;
    Ok(())
}

/// Returns the text itself if it is not percent-encoded; an error would quote the password.
fn decoded(text: &str) -> String {
    percent::decode_segment(text).map_or_else(|_| text.to_owned(), Into::into)
}

/// Whether the user of the context authenticates with the header `Authorization`.
fn has_authorization(user: &AuthInfo) -> bool {
    user.username.is_some()
        || user.token.is_some()
        || user.token_file.is_some()
        || user.exec.is_some()
        || user.auth_provider.is_some()
}

/// Describes the context and its file for messages.
fn describe_context(kubeconfig: &Kubeconfig, path: Option<&Path>, context: Option<&str>) -> String {
    let file = path.map_or_else(
        || "your kubeconfig".to_owned(),
        |path| format!("kubeconfig {}", path.display()),
    );
    let current = kubeconfig
        .current_context
        .as_deref()
        .filter(|name| !name.is_empty());
    match context.or(current) {
        Some(name) => format!("context {name} of {file}"),
        None => format!("the current context of {file}"),
    }
}

fn check_address(server: &str) -> Result<(), ClientError> {
    let invalid = |reason: String| ClientError::Address {
        server: server.to_owned(),
        reason,
    };
    let url = Url::parse(server).map_err(|error| invalid(causes(&error)))?;
    match (url.scheme(), url.host_str()) {
        ("https", Some(_)) => Ok(()),
        ("http", Some(host)) if is_loopback_host(host) => Ok(()),
        ("http", Some(_)) => Err(ClientError::Exposed(server.to_owned())),
        (scheme, _) => Err(invalid(format!("the scheme is {scheme}"))),
    }
}

/// The error of a connection, with an invalid certificate as a sentence.
fn described(source: BoxError) -> BoxError {
    match TlsFailure::of(&*source) {
        Some(failure) if failure.is_of_certificate() => Box::new(failure),
        _ => source,
    }
}

fn is_loopback_host(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || address
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_never_sent_unencrypted_to_another_machine() {
        for allowed in [
            "http://127.0.0.1:8443",
            "http://localhost:1",
            "http://[::1]:8443/",
            "https://fleetdex.example.com",
        ] {
            assert!(check_address(allowed).is_ok(), "{allowed}");
        }
        let exposed = check_address("http://fleetdex.example.com:8443").unwrap_err();
        assert!(matches!(exposed, ClientError::Exposed(_)), "{exposed}");
        for invalid in ["", "127.0.0.1:8443", "ftp://127.0.0.1", "unix:/run/x"] {
            assert!(
                matches!(check_address(invalid), Err(ClientError::Address { .. })),
                "{invalid}"
            );
        }
    }

    #[tokio::test]
    async fn a_missing_file_is_named_with_its_flag() {
        let direct = ClientConfig::Direct {
            server: "http://127.0.0.1:1".to_owned(),
            token_file: "/nowhere/token".into(),
        };
        let error = Transport::new(&direct).await.err().unwrap().to_string();
        assert!(
            error.contains("/nowhere/token") && error.contains("--token-file"),
            "{error}"
        );
        let apiserver = ClientConfig::Apiserver {
            kubeconfig: Some("/nowhere/config".into()),
            context: None,
        };
        let error = causes(&Transport::new(&apiserver).await.err().unwrap());
        assert!(
            error.contains("/nowhere/config") && error.contains("--kubeconfig"),
            "{error}"
        );
    }

    #[test]
    fn the_login_of_a_url_becomes_credentials_unless_there_are_others() {
        let configured = |user: AuthInfo| {
            let url = "http://me%40x:p%20w@127.0.0.1:8443";
            let mut config = kube::Config::new(url.parse().unwrap());
            config.auth_info = user;
            use_login_of_url(&mut config).unwrap();
            assert_eq!(config.cluster_url, "http://127.0.0.1:8443/");
            serde_json::to_value(config.auth_info).unwrap()
        };
        assert_eq!(
            configured(AuthInfo::default()),
            serde_json::json!({ "username": "me@x", "password": "p w" })
        );
        let token = AuthInfo {
            token_file: Some("/token".to_owned()),
            ..AuthInfo::default()
        };
        assert_eq!(
            configured(token),
            serde_json::json!({ "tokenFile": "/token" })
        );
    }

    #[tokio::test]
    async fn an_unknown_context_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(
            &path,
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: []\n",
        )
        .unwrap();
        let config = ClientConfig::Apiserver {
            kubeconfig: Some(path.clone()),
            context: Some("prod".to_owned()),
        };
        let error = causes(&Transport::new(&config).await.err().unwrap());
        assert!(
            error.contains(&format!(
                "cannot use context prod of kubeconfig {}",
                path.display()
            )),
            "{error}"
        );
    }
}
