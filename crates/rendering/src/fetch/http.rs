//! Requests to hosts that are allowed.

use std::{sync::Arc, time::Duration};

use reqwest::{
    Certificate, Client, RequestBuilder, Response, StatusCode, Url,
    header::{ACCEPT, HeaderMap, LOCATION},
    redirect, retry,
};

use super::{
    error::FetchError,
    hosts::{BasicCredentials, HostPolicy, RemoteHost},
};

const AGENT: &str = concat!("fleetdex/", env!("CARGO_PKG_VERSION"));
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a server may send nothing.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// How long one answer may take.
const TIMEOUT: Duration = Duration::from_mins(5);
/// Storage behind registries answers blobs by one redirect.
const MAX_REDIRECTS: usize = 5;

/// How servers are spoken to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchSettings {
    /// Certificates in PEM that are trusted beside those of the system.
    pub ca_bundle: Option<Vec<u8>>,
    /// Whether registries are spoken to by http, and addresses with http are accepted.
    pub permits_plain_http: bool,
}

/// How a request is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestAuth<'t> {
    Anonymous,
    /// By the credentials that are bound to each host.
    Basic,
    /// By a token of this host; another one that it redirects to is asked anonymously.
    Bearer(&'t str),
}

/// An answer within its bound.
pub(super) struct BoundedAnswer {
    /// As it was asked, for messages.
    pub(super) url: Url,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Sends requests.
pub(super) struct FetchClient {
    client: Client,
    policy: Arc<dyn HostPolicy>,
    permits_plain_http: bool,
}

impl BoundedAnswer {
    /// The body of a success.
    pub(super) fn success(self) -> Result<Vec<u8>, FetchError> {
        let (url, status) = (self.url.to_string(), self.status);
        match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Err(FetchError::Refused {
                host: RemoteHost::of(&self.url),
                url,
                status,
            }),
            _ if status.is_success() => Ok(self.body),
            _ => Err(FetchError::Status { url, status }),
        }
    }
}

impl FetchClient {
    pub(super) fn new(
        settings: &FetchSettings,
        policy: Arc<dyn HostPolicy>,
    ) -> Result<Self, FetchError> {
        let mut builder = Client::builder()
            .user_agent(AGENT)
            .redirect(redirect::Policy::none())
            .retry(retry::never())
            .referer(false)
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .timeout(TIMEOUT);
        if let Some(pem) = &settings.ca_bundle {
            let certificates = Certificate::from_pem_bundle(pem).map_err(FetchError::Client)?;
            if certificates.is_empty() {
                return Err(FetchError::CaBundle);
            }
            builder = certificates
                .into_iter()
                .fold(builder, reqwest::ClientBuilder::add_root_certificate);
        }
        Ok(Self {
            client: builder.build().map_err(FetchError::Client)?,
            policy,
            permits_plain_http: settings.permits_plain_http,
        })
    }

    /// The scheme of registries.
    pub(super) fn scheme(&self) -> &'static str {
        if self.permits_plain_http {
            "http"
        } else {
            "https"
        }
    }

    /// The credentials that are bound to the host of an address.
    pub(super) fn has_credentials(&self, url: &Url) -> bool {
        self.policy.credentials(&RemoteHost::of(url)).is_some()
    }

    /// An address that may be asked, if its host is allowed.
    pub(super) fn url(&self, address: &str, what: &'static str) -> Result<Url, FetchError> {
        let invalid = |reason: String| FetchError::Address {
            address: address.to_owned(),
            what,
            reason,
        };
        let url: Url = address
            .parse()
            .map_err(|error| invalid(format!("{error}")))?;
        let is_known =
            url.scheme() == "https" || (self.permits_plain_http && url.scheme() == "http");
        if !is_known {
            return Err(invalid("use https".to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("credentials belong into a Secret".to_owned()));
        }
        Ok(url)
    }

    /// Gets what is at an address, at most `limit` bytes. Redirects are followed.
    pub(super) async fn get(
        &self,
        url: &Url,
        accept: &str,
        auth: RequestAuth<'_>,
        limit: u64,
    ) -> Result<BoundedAnswer, FetchError> {
        let mut target = url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let host = RemoteHost::of(&target);
            if !self.policy.is_allowed(&host) {
                return Err(FetchError::Host(host));
            }
            let request = self.client.get(target.clone()).header(ACCEPT, accept);
            let request = self.authenticated(request, auth, url, &target);
            let response = request
                .send()
                .await
                .map_err(|error| unsent(&target, error))?;
            if !response.status().is_redirection() {
                return bounded(url, response, limit).await;
            }
            let location = response.headers().get(LOCATION);
            let location = location.and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| target.join(location).ok());
            let next = next.ok_or_else(|| FetchError::Answer {
                url: target.to_string(),
                reason: "it redirects to no address".to_owned(),
            })?;
            target = self.url(next.as_str(), "a redirect")?;
        }
        Err(FetchError::Answer {
            url: url.to_string(),
            reason: format!("it redirects more than {MAX_REDIRECTS} times"),
        })
    }

    fn authenticated(
        &self,
        request: RequestBuilder,
        auth: RequestAuth<'_>,
        asked: &Url,
        target: &Url,
    ) -> RequestBuilder {
        match auth {
            RequestAuth::Bearer(token) if asked.origin() == target.origin() => {
                request.bearer_auth(token)
            }
            RequestAuth::Basic => match self.policy.credentials(&RemoteHost::of(target)) {
                Some(BasicCredentials { username, password }) => {
                    request.basic_auth(username, Some(password))
                }
                None => request,
            },
            _ => request,
        }
    }
}

fn unsent(url: &Url, error: reqwest::Error) -> FetchError {
    FetchError::Request {
        url: url.to_string(),
        source: error.without_url(),
    }
}

async fn bounded(
    url: &Url,
    mut response: Response,
    limit: u64,
) -> Result<BoundedAnswer, FetchError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unsent(url, error))? {
        body.extend_from_slice(&chunk);
        if body.len() as u64 > limit {
            let url = url.to_string();
            return Err(FetchError::Bytes { url, limit });
        }
    }
    Ok(BoundedAnswer {
        url: url.clone(),
        status: response.status(),
        headers: std::mem::take(response.headers_mut()),
        body,
    })
}
