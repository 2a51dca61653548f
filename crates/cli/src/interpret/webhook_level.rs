//! Asks webhooks, at their own address or another one.

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    sync::Arc,
};

use fleetdex_interpreter::{
    Request, Response,
    webhook::configuration::{Webhook, WebhookAddress},
};
use fleetdex_telemetry::metrics::WebhookMetrics;
use fleetdex_webhooks::{
    client::{CallFailure, CallWebhook, WebhookClient},
    service::{ClusterDns, FixedAddress, ResolveService},
};

/// Calls webhooks, at their own address or another one.
#[derive(Clone)]
pub struct WebhookConnector {
    /// The client.
    pub client: Arc<dyn CallWebhook>,
    /// Where it connects instead of to the host of the webhook.
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

/// A client that connects to an address, or else to each webhook's own one.
pub fn client(address: Option<SocketAddr>) -> Arc<dyn CallWebhook> {
    let resolver: Arc<dyn ResolveService> = match address {
        Some(address) => Arc::new(FixedAddress(address)),
        None => Arc::new(ClusterDns),
    };
    Arc::new(WebhookClient::new(resolver, WebhookMetrics::default()))
}

/// The response of a webhook, or what went wrong.
pub async fn ask(
    webhook: &Webhook,
    request: &Request<'_>,
    connector: &WebhookConnector,
) -> Result<Response, String> {
    let called = connector.client.call(webhook, request).await;
    called.map_err(|error| with_remedy(&error.failure, webhook, connector.address))
}

/// A Service has an address inside its cluster only.
fn with_remedy(failure: &CallFailure, webhook: &Webhook, address: Option<SocketAddr>) -> String {
    let endpoint = webhook.endpoint.as_ref().map(|endpoint| &endpoint.address);
    match (endpoint, address, failure) {
        (
            Ok(WebhookAddress::Service {
                namespace,
                name,
                port,
                ..
            }),
            None,
            CallFailure::Connection(_),
        ) => {
            format!(
                "{failure}; outside of its cluster a Service cannot be reached by its name: run \
                 `kubectl port-forward -n {namespace} service/{name} 8443:{port}` and add --webhook-address localhost:8443"
            )
        }
        _ => failure.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_interpreter::webhook::configuration::WebhookConfiguration;
    use serde_json::json;

    use super::*;

    async fn refused(client_config: serde_json::Value) -> String {
        let configuration = WebhookConfiguration::parse(&json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": "hooks"},
            "webhooks": [{
                "name": "a.example.io",
                "clientConfig": client_config,
                "interpreterContextVersions": ["v1alpha1"],
                "timeoutSeconds": 1,
            }],
        }));
        let webhook = configuration.unwrap().webhooks.remove(0);
        let object =
            json!({"apiVersion": "example.io/v1", "kind": "Foo", "metadata": {"name": "a"}});
        // Nothing listens on the port of `tcpmux`.
        let address = "127.0.0.1:1".parse().ok();
        let connector = WebhookConnector {
            client: client(address),
            address,
        };
        ask(&webhook, &Request::Health { object: &object }, &connector)
            .await
            .unwrap_err()
    }

    #[tokio::test]
    async fn every_webhook_is_called_at_the_address_that_is_given() {
        for config in [
            json!({"url": "https://hook.invalid/interpret"}),
            json!({"service": {"namespace": "web", "name": "workloads", "port": 8443}}),
        ] {
            let error = refused(config).await;
            assert!(error.contains("Connection refused"), "{error}");
            assert!(!error.contains("port-forward"), "{error}");
        }
        let error = refused(json!({"url": "http://localhost/"})).await;
        assert!(error.contains("webhooks[0].clientConfig.url"), "{error}");
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        assert_eq!(resolve("127.0.0.1:8443").unwrap().port(), 8443);
        assert!(
            resolve("127.0.0.1")
                .unwrap_err()
                .starts_with("--webhook-address \"127.0.0.1\": ")
        );
    }
}
