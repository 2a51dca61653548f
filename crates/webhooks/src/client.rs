//! Calls interpreter webhooks.
//!
//! Guarantee: an answer comes from the server that the configuration's certificates vouch for, over
//! TLS. No redirect is followed, no proxy of the environment is used, and no credentials are sent.
//! Each call ends within the time that its webhook has, and waits no longer than that for its turn.
//! No answer is longer than its bound, and all together stay within a budget.
//!
//! Source: the client of Karmada's `customizedinterpreter`, which is that of Kubernetes' admission
//! webhooks.

mod connections;
mod endpoint;
mod error;
mod exchange;
mod refusal;
mod slots;

pub use connections::MAX_CLIENTS;
pub use error::{CallError, CallFailure};
pub use slots::{MAX_CALLS, MAX_CALLS_OF_WEBHOOK};

use std::sync::Arc;

use async_trait::async_trait;
use fleetdex_interpreter::{
    Request, Response,
    webhook::{
        MAX_ANSWER_BYTES,
        configuration::{Webhook, WebhookEndpoint},
        decode, encode,
    },
};
use fleetdex_limits::intake::{Budget, MemoryLimits};
use fleetdex_telemetry::metrics::{CallEnd, WebhookMetrics};
use tokio::time::{Instant, timeout};

use self::{
    connections::Connections,
    endpoint::{WebhookDestination, destination},
    exchange::{exchange, request_uid},
    slots::Slots,
};
use crate::service::ResolveService;

/// What all answers under way may occupy, beside one of the greatest size: another one, and
/// thousands of usual ones.
const ANSWERS: usize = MAX_ANSWER_BYTES;
/// What those of one webhook may occupy: one of the greatest size.
const ANSWERS_OF_WEBHOOK: usize = MAX_ANSWER_BYTES;
/// Bytes to read of the answer with an HTTP error: a reason has a few hundred.
const REFUSAL_BYTES: usize = 64 << 10;

/// Asks interpreter webhooks.
#[async_trait]
pub trait CallWebhook: Send + Sync + 'static {
    /// Asks a webhook for one operation on one object, once.
    async fn call(&self, webhook: &Webhook, request: &Request<'_>) -> Result<Response, CallError>;
}

/// Asks interpreter webhooks over the network.
pub struct WebhookClient {
    resolver: Arc<dyn ResolveService>,
    connections: Connections,
    slots: Slots,
    answers: Budget,
    metrics: WebhookMetrics,
}

impl WebhookClient {
    /// A client that reaches Services where `resolver` says.
    pub fn new(resolver: Arc<dyn ResolveService>, metrics: WebhookMetrics) -> Self {
        // All clients of the process use one TLS provider; a second installation is refused, which
        // does no harm.
        let _installed_before = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Self {
            resolver,
            connections: Connections::default(),
            slots: Slots::default(),
            answers: Budget::new(answer_limits()),
            metrics,
        }
    }

    async fn answer(
        &self,
        webhook: &Webhook,
        request: &Request<'_>,
    ) -> Result<Response, CallFailure> {
        let endpoint = webhook
            .endpoint
            .as_ref()
            .map_err(|problem| CallFailure::Endpoint(problem.to_string()))?;
        let uid = request_uid();
        let body = encode(webhook.dialect, &uid, request)
            .map_err(|error| CallFailure::Request(fleetdex_core::model::causes(&error)))?;
        let Ok(_slot) = timeout(webhook.timeout, self.slots.acquire(&webhook.id)).await else {
            return Err(CallFailure::Busy(webhook.timeout));
        };
        let called = self.exchange(webhook, endpoint, body);
        let Ok(answered) = timeout(webhook.timeout, called).await else {
            return Err(CallFailure::Timeout(webhook.timeout));
        };
        Ok(decode(webhook.dialect, &uid, request, &answered?)?)
    }

    async fn exchange(
        &self,
        webhook: &Webhook,
        endpoint: &WebhookEndpoint,
        body: Vec<u8>,
    ) -> Result<bytes::Bytes, CallFailure> {
        let destination: WebhookDestination =
            destination(&endpoint.address, &*self.resolver).await?;
        let ca_bundle = endpoint.ca_bundle.as_deref();
        let client = self.connections.client(&destination, ca_bundle)?;
        let intake = self.answers.share(&webhook.id);
        exchange(&client, destination, webhook.timeout, body, &intake).await
    }
}

#[async_trait]
impl CallWebhook for WebhookClient {
    async fn call(&self, webhook: &Webhook, request: &Request<'_>) -> Result<Response, CallError> {
        let begun = Instant::now();
        let result = self.answer(webhook, request).await;
        let end = result
            .as_ref()
            .err()
            .map_or(CallEnd::Answered, CallFailure::end);
        self.metrics.called(&webhook.id, end, begun.elapsed());
        result.map_err(|failure| CallError::new(&webhook.id, failure))
    }
}

fn answer_limits() -> MemoryLimits {
    MemoryLimits {
        page: MAX_ANSWER_BYTES,
        line: 0,
        answer: MAX_ANSWER_BYTES,
        refusal: REFUSAL_BYTES,
        small: 0,
        request: 0,
        share: ANSWERS_OF_WEBHOOK,
        shared: ANSWERS,
    }
}

#[cfg(test)]
mod tests;
