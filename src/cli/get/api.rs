//! The query API, as `fleetdex get` uses it.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use http::{HeaderMap, header};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{APIGroupList, APIResourceList, APIVersions, ListMeta, Status};
use reqwest::{Client, Url, redirect};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::resolve::Held;
use crate::server::{
    percent,
    request::{GROUPS, VERSION},
};

/// How long the server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one page may take; the server itself gives its store half of that.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(1);

/// The server cannot be asked, or did not answer as asked.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The token is not there.
    #[error("cannot read the token file {}; is `fleetdex run` at work on this machine, as this user? Name another file with --token-file", .path.display())]
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
    #[error("cannot reach the server at {server}; is `fleetdex run` at work there? Name another with --server")]
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
    pub fn new(server: &str, token_file: &Path) -> Result<Self, ApiError> {
        check_address(server)?;
        let token =
            std::fs::read_to_string(token_file).map_err(|source| ApiError::TokenFile { path: token_file.to_owned(), source })?;
        let client = Client::builder()
            .no_proxy()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(REQUEST_TIMEOUT)
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
        let path = format!("/apis/{}/{VERSION}/{below_group}", GROUPS[0]);
        let unreachable = |source| ApiError::Unreachable { server: self.server.clone(), source };
        let request = self.client.get(format!("{}{path}", self.server)).bearer_auth(&self.token);
        let response = request.header(header::ACCEPT, "application/json").send().await.map_err(unreachable)?;
        let code = response.status();
        let headers = response.headers().clone();
        let body = response.bytes().await.map_err(unreachable)?;
        let garbled =
            |error: serde_json::Error| ApiError::Garbled { path: path.clone(), code: code.as_u16(), reason: error.to_string() };
        if !code.is_success() {
            return Err(ApiError::Refused(Box::new(serde_json::from_slice(&body).map_err(garbled)?)));
        }
        Ok((serde_json::from_slice(&body).map_err(garbled)?, headers))
    }
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
        let error = Api::new("http://127.0.0.1:1", Path::new("/nowhere/token")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/token") && error.to_string().contains("--token-file"), "{error}");
    }
}
