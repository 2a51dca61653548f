//! Calls for users who wait for the answer.
//!
//! Guarantee: a webhook that calls of the queue found to be away is not called. The user is not
//! shown how those calls failed, as the cause may name objects that the user may not see. What
//! users ask never opens the breaker: their objects may be such that the webhook takes too long for
//! them, and others must not lose its answers by that.

use std::sync::Arc;

use async_trait::async_trait;
use fleetdex_interpreter::{Request, Response, webhook::configuration::Webhook};

use crate::{
    client::{CallError, CallFailure, CallWebhook},
    queue::{Enrich, EnrichmentQueue},
};

/// Calls webhooks beside a queue, with respect to its breakers.
pub struct DirectCalls<E> {
    client: Arc<dyn CallWebhook>,
    queue: EnrichmentQueue<E>,
}

impl<E: Enrich> DirectCalls<E> {
    /// Calls with this client, unless the queue says that a webhook is away.
    pub fn new(client: Arc<dyn CallWebhook>, queue: EnrichmentQueue<E>) -> Self {
        Self { client, queue }
    }
}

#[async_trait]
impl<E: Enrich> CallWebhook for DirectCalls<E> {
    async fn call(&self, webhook: &Webhook, request: &Request<'_>) -> Result<Response, CallError> {
        if !self.queue.permits(&webhook.id) {
            return Err(CallError::new(&webhook.id, CallFailure::Outage));
        }
        self.client.call(webhook, request).await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use fleetdex_interpreter::webhook::configuration::WebhookConfiguration;
    use fleetdex_telemetry::metrics::WebhookMetrics;
    use serde_json::json;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{
        breaker::{Contact, FAILURES_TO_OPEN, LONGEST_BACKOFF},
        queue::{Delivery, EnrichmentJob, QueueLimits, Unanswered},
    };

    /// A webhook that is away, and a document about which it is asked.
    #[derive(Default)]
    struct Away(AtomicUsize);

    #[async_trait]
    impl CallWebhook for Away {
        async fn call(&self, webhook: &Webhook, _: &Request<'_>) -> Result<Response, CallError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            let failure = CallFailure::Timeout(webhook.timeout);
            Err(CallError::new(&webhook.id, failure))
        }
    }

    impl Enrich for Away {
        type Answer = ();

        async fn ask(&self, _: &str) -> Result<(), Unanswered> {
            Err(Unanswered {
                text: "gone".into(),
                contact: Contact::Unreachable { retry_after: None },
                again: false,
            })
        }

        async fn deliver(&self, _: &str, _: Delivery<()>) {}
    }

    #[tokio::test(start_paused = true)]
    async fn what_users_ask_respects_the_breaker_of_the_queue_and_never_opens_it() {
        let configuration = WebhookConfiguration::parse(&json!({
            "apiVersion": "config.karmada.io/v1alpha1",
            "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": {"name": "a"},
            "webhooks": [{"name": "b", "timeoutSeconds": 3}],
        }));
        let webhook = configuration.unwrap().webhooks.remove(0);
        let (away, object) = (Arc::new(Away::default()), json!({}));
        let queue: EnrichmentQueue<Away> =
            EnrichmentQueue::new(QueueLimits::default(), WebhookMetrics::default());
        let direct = DirectCalls::new(Arc::clone(&away) as _, queue.clone());
        let ask = async || {
            let request = Request::Health { object: &object };
            let called = direct.call(&webhook, &request).await;
            called.unwrap_err().to_string()
        };
        for _ in 0..3 * FAILURES_TO_OPEN {
            assert_eq!(
                ask().await,
                "interpreter webhook a/b: no whole answer within 3 s"
            );
        }
        let called = away.0.load(Ordering::Relaxed);
        let stop = CancellationToken::new();
        let running = tokio::spawn({
            let (queue, stop) = (queue.clone(), stop.clone());
            async move { queue.run(stop).await }
        });
        for number in 0..FAILURES_TO_OPEN {
            let job = EnrichmentJob {
                key: number.to_string().into(),
                version: "1".parse().unwrap(),
                webhooks: vec!["a/b".into()],
                bytes: 1,
                payload: Arc::new(Away::default()),
            };
            queue.submit(&job).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(
            ask().await,
            "interpreter webhook a/b: not called: earlier calls failed, and it is not called again yet"
        );
        assert_eq!(away.0.load(Ordering::Relaxed), called);
        tokio::time::sleep(LONGEST_BACKOFF).await;
        ask().await;
        assert_eq!(away.0.load(Ordering::Relaxed), called + 1);
        stop.cancel();
        running.await.unwrap();
    }
}
