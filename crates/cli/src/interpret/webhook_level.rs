//! Asks webhooks: from a request to a response.

use std::net::{SocketAddr, ToSocketAddrs as _};

use fleetdex_core::model::{causes, uuid};
use fleetdex_interpreter::{
    Request, Response,
    webhook::{
        configuration::{Webhook, WebhookAddress, WebhookEndpoint},
        decode, encode,
    },
};
use reqwest::Url;

use super::webhook_call::{WebhookCall, WebhookCallError, WebhookCaller};

/// Calls webhooks, at their own address or another one.
#[derive(Clone, Debug)]
pub struct WebhookConnector<C> {
    /// The client.
    pub caller: C,
    /// Where to connect instead of the host of the webhook.
    pub address: Option<SocketAddr>,
}

/// Resolves the address of `--webhook-address`.
pub fn resolve(address: &str) -> Result<SocketAddr, String> {
    let unusable = |reason: String| format!("--webhook-address {address:?}: {reason}");
    let mut addresses = address
        .to_socket_addrs()
        .map_err(|error| unusable(error.to_string()))?;
    addresses
        .next()
        .ok_or_else(|| unusable("the host has no address".to_owned()))
}

/// The response of a webhook, or what went wrong.
pub async fn ask(
    webhook: &Webhook,
    request: &Request<'_>,
    connector: &WebhookConnector<impl WebhookCaller>,
) -> Result<Response, String> {
    let endpoint = webhook.endpoint.as_ref().map_err(ToString::to_string)?;
    let uid = uid();
    let call = WebhookCall {
        url: url(&endpoint.address)?,
        ca_bundle: endpoint.ca_bundle.clone(),
        address: connector.address,
        timeout: webhook.timeout,
        body: encode(webhook.dialect, &uid, request).map_err(|error| causes(&error))?,
    };
    let answer = connector
        .caller
        .call(call)
        .await
        .map_err(|error| with_remedy(&error, endpoint, connector.address))?;
    decode(webhook.dialect, &uid, request, &answer).map_err(|error| causes(&error))
}

/// A random UUID, by which an answer is recognized.
fn uid() -> String {
    let mut bytes = fastrand::u128(..).to_be_bytes();
    // Version 4, and the variant of RFC 9562.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    uuid::text(bytes)
}

fn url(address: &WebhookAddress) -> Result<Url, String> {
    let text = match address {
        WebhookAddress::Url(url) => url.clone(),
        WebhookAddress::Service {
            namespace,
            name,
            path,
            port,
        } => format!("https://{name}.{namespace}.svc:{port}{path}"),
    };
    Url::parse(&text).map_err(|error| format!("{text:?} is not a URL: {error}"))
}

/// A Service has an address inside its cluster only.
fn with_remedy(
    error: &WebhookCallError,
    endpoint: &WebhookEndpoint,
    address: Option<SocketAddr>,
) -> String {
    match (&endpoint.address, address, error) {
        (
            WebhookAddress::Service {
                namespace,
                name,
                port,
                ..
            },
            None,
            WebhookCallError::Connect(_),
        ) => {
            format!(
                "{error}; outside of its cluster a Service cannot be reached by its name: run \
                 `kubectl port-forward -n {namespace} service/{name} 8443:{port}` and add --webhook-address localhost:8443"
            )
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
