//! The metrics of interpreter webhooks.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};

use super::{
    families::{Description, LabelSet, LabelValues, MetricLabel, families},
    gauges::saturating,
    labels::{label_sets, label_values},
};

/// Webhooks with series of their own. Fleets have a handful; further ones share the series of
/// `other`.
const MAX_WEBHOOKS: usize = 200;
const OTHER: &str = "other";

label_values! {
    /// How a call of a webhook ended.
    CallEnd {
        /// With a result.
        Answered => "answered",
        /// The webhook says that it has no result.
        Unsuccessful => "unsuccessful",
        /// The answer is no valid one.
        Invalid => "invalid",
        /// The answer has another HTTP status than 2xx.
        Status => "status",
        /// There was no whole answer in time.
        Timeout => "timeout",
        /// There was no connection, or it broke.
        Connection => "connection",
        /// There was no call: too many others were under way, or it could not be made.
        NotMade => "not_made",
    }

    /// How a queued question to a webhook ended.
    JobEnd {
        /// The answer was delivered.
        Answered => "answered",
        /// A failure was delivered.
        Failed => "failed",
        /// There is a newer version of the document.
        Superseded => "superseded",
        /// The document or its webhook is gone.
        Cancelled => "cancelled",
        /// There was no room in the queue.
        Refused => "refused",
    }
}

label_sets! {
    WebhookLabels { webhook: Arc<str> }
    CallLabels { webhook: Arc<str>, result: CallEnd }
    EndLabels { end: JobEnd }
}

families! {
    WebhookFamilies {
        calls: Family<CallLabels, Counter> = Family::default(), "webhook_calls", Count,
            "Calls of interpreter webhooks, for documents and for users of /interpret and /merged, by result: answered; the webhook says that it has no result (unsuccessful); an answer that is not valid (invalid); an HTTP status other than 2xx (status); no whole answer in time (timeout); no connection, or it broke (connection); no call, because too many others were under way or its address cannot be used (not_made)";
        seconds: Family<WebhookLabels, Histogram, fn() -> Histogram> = Family::new_with_constructor(call_seconds), "webhook_call", Seconds,
            "Duration of calls of interpreter webhooks";
        queued: Gauge = Gauge::default(), "webhook_queue_jobs", Count,
            "Questions to interpreter webhooks that are queued or under way: one for each document and webhook";
        queued_bytes: Gauge = Gauge::default(), "webhook_queue", Bytes,
            "Size of the documents in these questions, by estimate";
        jobs: Family<EndLabels, Counter> = Family::default(), "webhook_jobs", Count,
            "Questions to interpreter webhooks that ended: with an answer (answered), with a failure that was delivered (failed), by a newer version (superseded), by the end of the document or its webhook (cancelled); or that found no room in the queue and are left to a later pass (refused)";
        postponed: Counter = Counter::default(), "webhook_jobs_postponed", Count,
            "Questions to interpreter webhooks that failed for the first time and wait to be asked again";
    }
}

/// The metrics of interpreter webhooks. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct WebhookMetrics {
    known: Arc<Mutex<BTreeSet<Arc<str>>>>,
    families: WebhookFamilies,
}

/// Upper bounds of 1 ms to 33 s, doubling: a webhook in the same cluster answers in a few
/// milliseconds, and none may take longer than 30 s.
fn call_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 16))
}

impl WebhookMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        self.families.register(registry);
    }

    pub(super) fn descriptions() -> Vec<Description> {
        WebhookFamilies::descriptions()
    }

    /// Counts a call of a webhook, by the id of the webhook.
    pub fn called(&self, webhook: &str, end: CallEnd, took: Duration) {
        let label = self.label(webhook);
        let of_webhook = WebhookLabels::new(Arc::clone(&label));
        let seconds = self.families.seconds.get_or_create(&of_webhook);
        seconds.observe(took.as_secs_f64());
        let labels = CallLabels::new(label, end);
        self.families.calls.get_or_create(&labels).inc();
    }

    /// Calls of a webhook that ended like this.
    pub fn calls(&self, webhook: &str, end: CallEnd) -> u64 {
        let calls = self.families.calls.get(&CallLabels::new(webhook, end));
        calls.map_or(0, |counter| counter.get())
    }

    fn label(&self, webhook: &str) -> Arc<str> {
        let mut known = self.known.lock();
        if let Some(label) = known.get(webhook) {
            return Arc::clone(label);
        }
        if known.len() >= MAX_WEBHOOKS {
            return OTHER.into();
        }
        let label: Arc<str> = webhook.into();
        known.insert(Arc::clone(&label));
        label
    }

    /// Counts questions that came to an end.
    pub fn ended(&self, end: JobEnd, count: usize) {
        if count > 0 {
            let jobs = self.families.jobs.get_or_create(&EndLabels::new(end));
            jobs.inc_by(u64::try_from(count).unwrap_or(u64::MAX));
        }
    }

    /// Questions that ended like this.
    pub fn ends(&self, end: JobEnd) -> u64 {
        let jobs = self.families.jobs.get(&EndLabels::new(end));
        jobs.map_or(0, |counter| counter.get())
    }

    /// Counts a question that waits to be asked again.
    pub fn postponed(&self) {
        self.families.postponed.inc();
    }

    /// Sets what is queued or under way.
    pub fn set_queued(&self, jobs: usize, bytes: usize) {
        self.families.queued.set(saturating(jobs));
        self.families.queued_bytes.set(saturating(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_beyond_the_bound_share_one_series() {
        let metrics = WebhookMetrics::default();
        for number in 0..MAX_WEBHOOKS + 100 {
            let webhook = format!("configuration/webhook-{number}.example.com");
            metrics.called(&webhook, CallEnd::Answered, Duration::from_millis(3));
        }
        assert_eq!(metrics.calls(OTHER, CallEnd::Answered), 100);
        assert_eq!(
            metrics.calls("configuration/webhook-7.example.com", CallEnd::Answered),
            1
        );
        let mut registry = Registry::with_prefix("fleetdex");
        metrics.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert_eq!(
            text.matches("fleetdex_webhook_calls_total{").count(),
            MAX_WEBHOOKS + 1
        );
    }
}
