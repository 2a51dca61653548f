//! Sends a message to a webhook over TLS and reads its answer.

use std::{net::SocketAddr, time::Duration};

use fleetdex_core::model::causes;
use http::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Certificate, Client, Url, redirect};

/// The most bytes of an answer.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A message to a webhook.
#[derive(Clone, Debug)]
pub struct WebhookCall {
    /// Where it goes. The host is what the certificate must be for.
    pub url: Url,
    /// The authorities, as PEM; without them, those of the system.
    pub ca_bundle: Option<Vec<u8>>,
    /// Where to connect instead of the host of the URL.
    pub address: Option<SocketAddr>,
    /// The time for connecting, sending and the whole answer.
    pub timeout: Duration,
    /// The message.
    pub body: Vec<u8>,
}

/// A webhook has not answered.
#[derive(Debug, thiserror::Error)]
pub enum WebhookCallError {
    /// Its authorities are unusable.
    #[error("caBundle: {0}")]
    CaBundle(String),
    /// It cannot be reached.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// It did not answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    /// The answer broke off, or is not HTTP.
    #[error("{0}")]
    Transport(String),
    /// It answered with an error.
    #[error("the server answered {0}")]
    Status(http::StatusCode),
    /// The answer is too long.
    #[error("the answer has more than {limit} MiB", limit = MAX_ANSWER_BYTES >> 20)]
    TooLong,
}

/// Sends messages to webhooks.
pub trait WebhookCaller {
    /// Returns the body of a successful answer.
    async fn call(&self, call: WebhookCall) -> Result<Vec<u8>, WebhookCallError>;
}

/// Sends messages over HTTP/1.1, once, without following redirects.
#[derive(Clone, Copy, Debug)]
pub struct HttpsCaller;

impl WebhookCaller for HttpsCaller {
    async fn call(&self, call: WebhookCall) -> Result<Vec<u8>, WebhookCallError> {
        let limit = call.timeout;
        tokio::time::timeout(limit, exchange(call))
            .await
            .unwrap_or(Err(WebhookCallError::Timeout(limit)))
    }
}

async fn exchange(call: WebhookCall) -> Result<Vec<u8>, WebhookCallError> {
    let client = client(&call)?;
    let mut url = call.url;
    if let Some(address) = call.address {
        // The client takes the port of the URL only. The scheme is https, so the port can be set.
        let _is_set = url.set_port(Some(address.port()));
    }
    let timeout = call.timeout.as_secs_f64().ceil();
    url.query_pairs_mut()
        .append_pair("timeout", &format!("{timeout}s"));
    let mut response = client
        .post(url)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .body(call.body)
        .send()
        .await
        .map_err(unsent)?;
    if !response.status().is_success() {
        return Err(WebhookCallError::Status(response.status()));
    }
    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unsent)? {
        if answer.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(WebhookCallError::TooLong);
        }
        answer.extend_from_slice(&chunk);
    }
    Ok(answer)
}

fn client(call: &WebhookCall) -> Result<Client, WebhookCallError> {
    let mut builder = Client::builder()
        .no_proxy()
        .http1_only()
        .redirect(redirect::Policy::none());
    if let Some(pem) = &call.ca_bundle {
        let unusable = |error: reqwest::Error| WebhookCallError::CaBundle(causes(&error));
        let certificates = Certificate::from_pem_bundle(pem).map_err(unusable)?;
        if certificates.is_empty() {
            return Err(WebhookCallError::CaBundle(
                "there is no certificate in it".to_owned(),
            ));
        }
        builder = builder.tls_certs_only(certificates);
    }
    if let (Some(host), Some(address)) = (call.url.host_str(), call.address) {
        builder = builder.resolve(host, address);
    }
    builder
        .build()
        .map_err(|error| WebhookCallError::Transport(causes(&error)))
}

/// Removes the URL, which the caller names.
fn unsent(error: reqwest::Error) -> WebhookCallError {
    let is_connect = error.is_connect();
    let reason = causes(&error.without_url());
    if is_connect {
        WebhookCallError::Connect(reason)
    } else {
        WebhookCallError::Transport(reason)
    }
}
