//! One request and its answer, whichever way leads to the server.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use fleetdex_clusters::source::read_kubeconfig;
use fleetdex_core::model::causes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};
use kube::config::{KubeConfigOptions, Kubeconfig};
use reqwest::{Client, Url, redirect};
use tokio::time::timeout;

use super::{
    error::{ApiError, BoxError},
    place::Place,
};

/// How long the server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The same over a network, a credential plugin aside.
const FAR_CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an answer may take to begin, and each piece of it to come. The server gives its store half of that, counts the whole of it.
const SILENCE_TIMEOUT: Duration = Duration::from_mins(1);

/// Where kubectl looks unless told otherwise.
const DEFAULT_NAMESPACE: &str = "default";

/// What is to come of an answer.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// A way to a server.
#[derive(Clone)]
pub struct Transport {
    way: Way,
    place: String,
    namespace: String,
}

#[derive(Clone)]
enum Way {
    /// With the token of a file.
    Direct {
        client: Client,
        server: String,
        token: String,
    },
    /// Through an apiserver, with the credentials of a kubeconfig.
    Apiserver(kube::Client),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Call<'c> {
    /// `GET` or `POST`.
    pub method: Method,
    /// Path and query.
    pub path: &'c str,
    /// The header `Accept`.
    pub accept: &'static str,
}

/// A good answer.
pub struct Answer {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its status.
    pub code: StatusCode,
    body: Body,
    place: String,
    remedy: &'static str,
}

impl Transport {
    /// Reads the token or the kubeconfig; asks nothing yet.
    pub async fn new(place: &Place) -> Result<Self, ApiError> {
        match place {
            Place::Direct { server, token_file } => Self::direct(server, token_file),
            Place::Apiserver {
                kubeconfig,
                context,
            } => Self::apiserver(kubeconfig.as_deref(), context.as_deref()).await,
        }
    }

    /// Proxies from the environment are not used: the token stays on this machine.
    fn direct(server: &str, token_file: &Path) -> Result<Self, ApiError> {
        check_address(server)?;
        let token = std::fs::read_to_string(token_file).map_err(|source| ApiError::TokenFile {
            path: token_file.to_owned(),
            source,
        })?;
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .build()
            .map_err(|error| ApiError::Client(error.into()))?;
        let server = server.trim_end_matches('/').to_owned();
        let place = format!("the server at {server}");
        let way = Way::Direct {
            client,
            server,
            token: token.trim().to_owned(),
        };
        Ok(Self {
            way,
            place,
            namespace: DEFAULT_NAMESPACE.to_owned(),
        })
    }

    async fn apiserver(path: Option<&Path>, context: Option<&str>) -> Result<Self, ApiError> {
        let kubeconfig = read_kubeconfig(path).await.map_err(ApiError::Kubeconfig)?;
        let place = named(&kubeconfig, path, context);
        let unusable = |source: BoxError| ApiError::Context {
            place: place.clone(),
            source,
        };
        let options = KubeConfigOptions {
            context: context.map(str::to_owned),
            ..KubeConfigOptions::default()
        };
        let read = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = read.map_err(|error| unusable(error.into()))?;
        config.connect_timeout = Some(FAR_CONNECT_TIMEOUT);
        // Silence is bounded here, for each piece of an answer.
        config.read_timeout = None;
        config.default_retry = false;
        let namespace = config.default_namespace.clone();
        let client = kube::Client::try_from(config).map_err(|error| unusable(error.into()))?;
        Ok(Self {
            way: Way::Apiserver(client),
            place,
            namespace,
        })
    }

    /// Who is asked, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The namespace to look in unless another is named: that of the context.
    pub fn default_namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends a request. Gives the answer if it is a good one.
    pub async fn send(&self, call: &Call<'_>) -> Result<Answer, ApiError> {
        let sending = async {
            match &self.way {
                Way::Direct {
                    client,
                    server,
                    token,
                } => direct(client, &format!("{server}{}", call.path), token, call).await,
                Way::Apiserver(client) => through(client, call).await,
            }
        };
        let (place, remedy) = (self.place.clone(), self.remedy());
        let answered = timeout(SILENCE_TIMEOUT, sending)
            .await
            .map_err(|_| silent(&place))?;
        let response = answered.map_err(|source| ApiError::Unreachable {
            place: place.clone(),
            remedy,
            source,
        })?;
        let (parts, body) = response.into_parts();
        let answer = Answer {
            headers: parts.headers,
            code: parts.status,
            body,
            place,
            remedy,
        };
        if answer.code.is_success() {
            return Ok(answer);
        }
        let (code, is_behind_apiserver) =
            (answer.code.as_u16(), matches!(self.way, Way::Apiserver(_)));
        let body = answer.bytes().await?;
        Err(ApiError::of_answer(
            &self.place,
            is_behind_apiserver,
            call.path,
            code,
            &body,
        ))
    }

    fn remedy(&self) -> &'static str {
        match self.way {
            Way::Direct { .. } => {
                "; is `fleetdex run` or `fleetdex local` at work there? Name another with --server"
            }
            Way::Apiserver(_) => {
                "; does kubectl reach it? Name another with --context, or a server with --server"
            }
        }
    }
}

impl Answer {
    /// Everything that is left of it.
    pub async fn bytes(mut self) -> Result<Vec<u8>, ApiError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece(Some(SILENCE_TIMEOUT)).await? {
            bytes.extend_from_slice(&piece);
        }
        Ok(bytes)
    }

    /// The next piece; nothing at the end. Silence of a minute is an error.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiError> {
        self.piece(Some(SILENCE_TIMEOUT)).await
    }

    async fn piece(&mut self, silence: Option<Duration>) -> Result<Option<Bytes>, ApiError> {
        loop {
            let coming = self.body.frame();
            let frame = match silence {
                Some(limit) => timeout(limit, coming)
                    .await
                    .map_err(|_| silent(&self.place))?,
                None => coming.await,
            };
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|source| ApiError::Unreachable {
                place: self.place.clone(),
                remedy: self.remedy,
                source,
            })?;
            // Trailers say nothing that anybody here needs.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }
}

fn silent(place: &str) -> ApiError {
    ApiError::Silent {
        place: place.to_owned(),
        seconds: SILENCE_TIMEOUT.as_secs(),
    }
}

async fn direct(
    client: &Client,
    url: &str,
    token: &str,
    call: &Call<'_>,
) -> Result<http::Response<Body>, BoxError> {
    let request = client
        .request(call.method.clone(), url)
        .bearer_auth(token)
        .header(header::ACCEPT, call.accept);
    let response = http::Response::<reqwest::Body>::from(request.send().await?);
    Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
}

async fn through(client: &kube::Client, call: &Call<'_>) -> Result<http::Response<Body>, BoxError> {
    let request = Request::builder()
        .method(call.method.clone())
        .uri(call.path)
        .header(header::ACCEPT, call.accept);
    let response = client
        .send(request.body(kube::client::Body::empty())?)
        .await?;
    Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
}

/// The context and its file, for messages.
fn named(kubeconfig: &Kubeconfig, path: Option<&Path>, context: Option<&str>) -> String {
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

fn check_address(server: &str) -> Result<(), ApiError> {
    let invalid = |reason: String| ApiError::Address {
        server: server.to_owned(),
        reason,
    };
    let url = Url::parse(server).map_err(|error| invalid(causes(&error)))?;
    match (url.scheme(), url.host_str()) {
        ("https", Some(_)) => Ok(()),
        ("http", Some(host)) if is_this_machine(host) => Ok(()),
        ("http", Some(_)) => Err(ApiError::Exposed(server.to_owned())),
        (scheme, _) => Err(invalid(format!("its scheme is {scheme}"))),
    }
}

fn is_this_machine(host: &str) -> bool {
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
    fn the_token_is_never_sent_in_the_clear_to_another_machine() {
        for allowed in [
            "http://127.0.0.1:8443",
            "http://localhost:1",
            "http://[::1]:8443/",
            "https://fleetdex.example.com",
        ] {
            assert!(check_address(allowed).is_ok(), "{allowed}");
        }
        let exposed = check_address("http://fleetdex.example.com:8443").unwrap_err();
        assert!(matches!(exposed, ApiError::Exposed(_)), "{exposed}");
        for invalid in ["", "127.0.0.1:8443", "ftp://127.0.0.1", "unix:/run/x"] {
            assert!(
                matches!(check_address(invalid), Err(ApiError::Address { .. })),
                "{invalid}"
            );
        }
    }

    #[tokio::test]
    async fn what_is_missing_is_told_with_the_flags_that_name_another() {
        let direct = Place::Direct {
            server: "http://127.0.0.1:1".to_owned(),
            token_file: "/nowhere/token".into(),
        };
        let error = Transport::new(&direct).await.err().unwrap().to_string();
        assert!(
            error.contains("/nowhere/token") && error.contains("--token-file"),
            "{error}"
        );
        let apiserver = Place::Apiserver {
            kubeconfig: Some("/nowhere/config".into()),
            context: None,
        };
        let error = causes(&Transport::new(&apiserver).await.err().unwrap());
        assert!(
            error.contains("/nowhere/config") && error.contains("--kubeconfig"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_context_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        std::fs::write(
            &path,
            "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: []\n",
        )
        .unwrap();
        let place = Place::Apiserver {
            kubeconfig: Some(path.clone()),
            context: Some("prod".to_owned()),
        };
        let error = causes(&Transport::new(&place).await.err().unwrap());
        assert!(
            error.contains(&format!(
                "cannot use context prod of kubeconfig {}",
                path.display()
            )),
            "{error}"
        );
    }
}
