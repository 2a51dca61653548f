//! The query API, as `fleetdex get` and `fleetdex verify` use it.

use std::{io, path::PathBuf, time::Duration};

use http::{HeaderMap, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions, ListMeta, Status};
use reqwest::{Client, RequestBuilder, Response, Url, redirect};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::get::resolve::Held;
use crate::server::{
    auth::{TOKEN_FILE_VARIABLE, default_token_file},
    percent,
    report::Line,
    request::{GROUPS, VERSION},
};

/// How long the server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one page may take; the server itself gives its store half of that.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);
/// How long an answer without a bound of its own may be silent. A verification says every ten seconds how far it is.
const SILENCE_TIMEOUT: Duration = Duration::from_mins(1);

/// Where the server is, and what opens it.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerFlags {
    /// The server to ask
    #[arg(long, env = "FLEETDEX_SERVER", default_value = "http://127.0.0.1:8443")]
    pub server: String,

    /// The file that the server wrote its token to
    #[arg(long, env = TOKEN_FILE_VARIABLE, default_value_os_t = default_token_file())]
    pub token_file: PathBuf,
}

/// The server cannot be asked, or did not answer as asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The token is not there.
    #[error("cannot read the token file {}; is `fleetdex run` or `fleetdex local` at work on this machine, as this user? Name another file with --token-file", .path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The server's address is none.
    #[error("--server {server:?} is no http or https URL: {reason}")]
    Address {
        /// The address.
        server: String,
        /// What is wrong.
        reason: String,
    },
    /// The token would be readable on the network.
    #[error("--server {0:?} is not on this machine, and over plain http the token would be readable on the way; use https")]
    Exposed(String),
    /// The client could not be built.
    #[error("cannot set up the HTTP client")]
    Client(#[source] reqwest::Error),
    /// No answer.
    #[error(
        "cannot reach the server at {server}; is `fleetdex run` or `fleetdex local` at work there? Name another with --server"
    )]
    Unreachable {
        /// The address.
        server: String,
        /// What the client said.
        source: reqwest::Error,
    },
    /// The server refused.
    #[error("{}", refusal(.0))]
    Refused(Box<Status>),
    /// The answer is not what the API promises.
    #[error("the server answered {path} with something that is no answer (HTTP {code}): {reason}")]
    Garbled {
        /// What was asked for.
        path: String,
        /// HTTP status.
        code: u16,
        /// What is wrong.
        reason: String,
    },
    /// The last line of a report is missing.
    #[error("the server at {server} ended its report before it was complete; was it stopped?")]
    CutOff {
        /// The address.
        server: String,
    },
}

/// As kubectl words it.
fn refusal(status: &Status) -> String {
    let reason = status.reason.as_deref().unwrap_or("Unknown");
    format!("Error from server ({reason}): {}", status.message.as_deref().unwrap_or("no message"))
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub struct ListPage {
    /// `continue`, above all.
    #[serde(default)]
    pub metadata: ListMeta,
    /// The objects.
    pub items: Vec<Box<RawValue>>,
    /// What the server warned of.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// A server and the token that it wants.
#[derive(Debug)]
pub struct Api {
    client: Client,
    server: String,
    token: String,
}

impl Api {
    /// Reads the token; asks nothing yet. Proxies from the environment are not used: the token stays on this machine.
    pub fn new(flags: &ServerFlags) -> Result<Self, ApiError> {
        let ServerFlags { server, token_file } = flags;
        check_address(server)?;
        let token =
            std::fs::read_to_string(token_file).map_err(|source| ApiError::TokenFile { path: token_file.clone(), source })?;
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(SILENCE_TIMEOUT)
            .build()
            .map_err(ApiError::Client)?;
        Ok(Self { client, server: server.trim_end_matches('/').to_owned(), token: token.trim().to_owned() })
    }

    /// Every resource that the server holds, the preferred version of each group first.
    pub async fn held(&self) -> Result<Vec<Held>, ApiError> {
        let core: APIVersions = self.fleet("api").await?;
        let mut group_versions: Vec<(String, String)> =
            core.versions.into_iter().map(|version| (String::new(), version)).collect();
        let groups: APIGroupList = self.fleet("apis").await?;
        for group in groups.groups {
            let versions = group.versions.into_iter().map(|entry| (group.name.clone(), entry.version));
            group_versions.extend(versions);
        }
        let mut held = Vec::new();
        for (group, version) in group_versions {
            let path = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let list: APIResourceList = self.fleet(&path).await?;
            let entry = |resource| Held { group: group.clone(), version: version.clone(), resource };
            held.extend(list.resources.into_iter().map(entry));
        }
        Ok(held)
    }

    /// One page of a list; `path` is the collection's native path.
    pub async fn list(&self, path: &str, parameters: &[(&str, String)]) -> Result<ListPage, ApiError> {
        let pairs: Vec<String> = parameters.iter().map(|(key, value)| format!("{key}={}", percent::encode(value))).collect();
        let (mut page, headers): (ListPage, HeaderMap) = self.get(&format!("search/{path}?{}", pairs.join("&"))).await?;
        page.warnings = warnings(&headers);
        Ok(page)
    }

    async fn fleet<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        Ok(self.get(&format!("proxying/karmada/proxy/{path}")).await?.0)
    }

    async fn get<T: DeserializeOwned>(&self, below_group: &str) -> Result<(T, HeaderMap), ApiError> {
        let path = path(below_group);
        let request = self.client.get(format!("{}{path}", self.server)).timeout(REQUEST_TIMEOUT);
        let response = self.send(request, &path).await?;
        let code = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await.map_err(|source| self.unreachable(source))?;
        Ok((serde_json::from_slice(&body).map_err(|error| garbled(&path, code, &error))?, headers))
    }

    /// Sends a request with the token. Gives the answer if it is a good one.
    async fn send(&self, request: RequestBuilder, path: &str) -> Result<Response, ApiError> {
        let request = request.bearer_auth(&self.token).header(header::ACCEPT, "application/json");
        let response = request.send().await.map_err(|source| self.unreachable(source))?;
        let code = response.status();
        if code.is_success() {
            return Ok(response);
        }
        let body = response.bytes().await.map_err(|source| self.unreachable(source))?;
        let status = serde_json::from_slice(&body).map_err(|error| garbled(path, code.as_u16(), &error))?;
        Err(ApiError::Refused(Box::new(status)))
    }

    fn unreachable(&self, source: reqwest::Error) -> ApiError {
        ApiError::Unreachable { server: self.server.clone(), source }
    }

    /// Verifies these clusters, or all; `take` is given every line but the last. It may take hours, so only silence is bounded.
    pub async fn verify(&self, clusters: &[String], mut take: impl FnMut(Line)) -> Result<(), ApiError> {
        let parameter =
            if clusters.is_empty() { String::new() } else { format!("?clusters={}", percent::encode(&clusters.join(","))) };
        let path = path(&format!("verify{parameter}"));
        let mut response = self.send(self.client.post(format!("{}{path}", self.server)), &path).await?;
        let code = response.status().as_u16();
        let mut unread: Vec<u8> = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|source| self.unreachable(source))? {
            unread.extend_from_slice(&chunk);
            while let Some(end) = memchr::memchr(b'\n', &unread) {
                let line = serde_json::from_slice(&unread[..end]).map_err(|error| garbled(&path, code, &error))?;
                if let Line::End { .. } = line {
                    return Ok(());
                }
                take(line);
                unread.drain(..=end);
            }
        }
        Err(ApiError::CutOff { server: self.server.clone() })
    }
}

fn path(below_group: &str) -> String {
    format!("/apis/{}/{VERSION}/{below_group}", GROUPS[0])
}

fn garbled(path: &str, code: u16, error: &serde_json::Error) -> ApiError {
    ApiError::Garbled { path: path.to_owned(), code, reason: error.to_string() }
}

fn check_address(server: &str) -> Result<(), ApiError> {
    let invalid = |reason: String| ApiError::Address { server: server.to_owned(), reason };
    let url = Url::parse(server).map_err(|error| invalid(error.to_string()))?;
    match (url.scheme(), url.host_str()) {
        ("https", Some(_)) => Ok(()),
        ("http", Some(host)) if is_this_machine(host) => Ok(()),
        ("http", Some(_)) => Err(ApiError::Exposed(server.to_owned())),
        (scheme, _) => Err(invalid(format!("its scheme is {scheme}"))),
    }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|ip: std::net::IpAddr| ip.to_canonical().is_loopback())
}

/// The texts of `Warning: 299 - "text"` headers.
fn warnings(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::WARNING).iter().filter_map(|value| value.to_str().ok());
    values.filter_map(warning_text).collect()
}

fn warning_text(value: &str) -> Option<String> {
    let (_, quoted) = value.split_once('"')?;
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => text.extend(letters.next()),
            plain => text.push(plain),
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_never_sent_in_the_clear_to_another_machine() {
        for allowed in ["http://127.0.0.1:8443", "http://localhost:1", "http://[::1]:8443/", "https://fleetdex.example.com"] {
            assert!(check_address(allowed).is_ok(), "{allowed}");
        }
        let exposed = check_address("http://fleetdex.example.com:8443").unwrap_err();
        assert!(matches!(exposed, ApiError::Exposed(_)), "{exposed}");
        for invalid in ["", "127.0.0.1:8443", "ftp://127.0.0.1", "unix:/run/x"] {
            assert!(matches!(check_address(invalid), Err(ApiError::Address { .. })), "{invalid}");
        }
    }

    #[test]
    fn warnings_are_read_without_their_quotes() {
        assert_eq!(warning_text(r#"299 - "cluster \"a\\b\" is old""#).as_deref(), Some(r#"cluster "a\b" is old"#));
        assert_eq!(warning_text("299 - none"), None);
    }

    #[test]
    fn a_missing_token_file_says_where_it_was_looked_for() {
        let flags = ServerFlags { server: "http://127.0.0.1:1".to_owned(), token_file: "/nowhere/token".into() };
        let error = Api::new(&flags).unwrap_err();
        assert!(error.to_string().contains("/nowhere/token") && error.to_string().contains("--token-file"), "{error}");
    }
}
