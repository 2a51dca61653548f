//! Asks webhooks, at their own address or another one.

use std::{
    net::{SocketAddr, ToSocketAddrs as _},
    sync::Arc,
    time::Duration,
};

use fleetdex_interpreter::{
    Request, Response,
    webhook::configuration::{Webhook, WebhookAddress},
};
use fleetdex_telemetry::metrics::WebhookMetrics;
use fleetdex_webhooks::{
    client::{CallError, CallFailure, CallWebhook, WebhookClient},
    service::{ClusterDns, FixedAddress, ResolveService},
};
use tokio::time::{Instant, sleep};

/// How often a webhook is called again that asks for it with a `Retry-After`. Source: `maxRetries`
/// of Kubernetes' REST client.
const MAX_RETRIES: usize = 10;

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
    let called = call_patiently(webhook, request, &*connector.client).await;
    called.map_err(|error| with_remedy(&error.failure, webhook, connector.address))
}

/// Calls a webhook, and again after the pause that it asks for, as long as it may take for one
/// call.
async fn call_patiently(
    webhook: &Webhook,
    request: &Request<'_>,
    client: &dyn CallWebhook,
) -> Result<Response, CallError> {
    let deadline = Instant::now() + webhook.timeout;
    for _ in 0..MAX_RETRIES {
        let called = client.call(webhook, request).await;
        let pause = called.as_ref().err().and_then(pause_before_retry);
        match pause.filter(|pause| *pause < deadline.duration_since(Instant::now())) {
            Some(pause) => sleep(pause).await,
            None => return called,
        }
    }
    client.call(webhook, request).await
}

fn pause_before_retry(error: &CallError) -> Option<Duration> {
    match error.failure {
        CallFailure::Status { retry_after, .. } => retry_after,
        _ => None,
    }
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use fleetdex_interpreter::webhook::configuration::WebhookConfiguration;
    use serde_json::{Value, json};

    use super::*;

    fn webhook(client_config: &Value, timeout_seconds: u32) -> Webhook {
        let configuration = WebhookConfiguration::parse(&json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": "hooks"},
            "webhooks": [{
                "name": "a.example.io",
                "clientConfig": client_config,
                "interpreterContextVersions": ["v1alpha1"],
                "timeoutSeconds": timeout_seconds,
            }],
        }));
        configuration.unwrap().webhooks.remove(0)
    }

    async fn refused(client_config: Value) -> String {
        let webhook = webhook(&client_config, 1);
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

    /// Refuses some calls with a status and a pause, and answers the next one.
    struct Overloaded {
        refusals: usize,
        pause: Option<Duration>,
        calls: AtomicUsize,
    }

    #[async_trait::async_trait]
    impl CallWebhook for Overloaded {
        async fn call(&self, webhook: &Webhook, _: &Request<'_>) -> Result<Response, CallError> {
            if self.calls.fetch_add(1, Ordering::Relaxed) < self.refusals {
                let failure = CallFailure::Status {
                    code: 503,
                    retry_after: self.pause,
                    reason: String::new(),
                };
                return Err(CallError::new(&webhook.id, failure));
            }
            Ok(Response::Status(json!({})))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_webhook_that_asks_for_a_pause_is_called_again_within_its_timeout() {
        let second = Duration::from_secs(1);
        for (refusals, pause, calls, is_answered) in [
            (0, None, 1, true),
            (2, Some(second), 3, true),
            (10, Some(Duration::ZERO), 11, true),
            (11, Some(Duration::ZERO), 11, false),
            (1, None, 1, false),
            (9, Some(4 * second), 3, false),
            (1, Some(10 * second), 1, false),
        ] {
            let client = Overloaded {
                refusals,
                pause,
                calls: AtomicUsize::new(0),
            };
            let object = json!({"apiVersion": "example.io/v1", "kind": "Foo"});
            let webhook = webhook(&json!({"url": "https://hook.invalid/"}), 10);
            let request = Request::Status { object: &object };
            let result = call_patiently(&webhook, &request, &client).await;
            let case = (refusals, pause);
            assert_eq!(result.is_ok(), is_answered, "{case:?}");
            assert_eq!(client.calls.into_inner(), calls, "{case:?}");
        }
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
