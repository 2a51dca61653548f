//! Decides which traces are recorded.
//!
//! Guarantee: callers that ask for their traces to be recorded get at most [`CALLERS_PER_SECOND`]
//! of them; the others are recorded like those that begin here.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use opentelemetry::{
    Context, KeyValue,
    trace::{Link, SpanContext, SpanKind, TraceContextExt as _, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{Sampler, SamplingDecision, SamplingResult, ShouldSample};
use parking_lot::Mutex;

use super::settings::Sampling;

/// Traces of callers that are recorded in a second, because the callers ask for it. A person who
/// looks at single requests needs less; a client that sets the flag in every request must not fill
/// the queue.
pub(super) const CALLERS_PER_SECOND: u32 = 10;

/// The sampler of this process.
#[derive(Clone, Debug)]
pub(super) struct FleetSampler {
    root: Sampler,
    follows_callers: bool,
    callers: Arc<Mutex<CallerLimit>>,
}

/// Counts the traces of callers in the current second.
#[derive(Debug)]
struct CallerLimit {
    since: Instant,
    recorded: u32,
}

impl CallerLimit {
    fn new(since: Instant) -> Self {
        Self { since, recorded: 0 }
    }

    fn admits(&mut self, now: Instant) -> bool {
        if now.duration_since(self.since) >= Duration::from_secs(1) {
            *self = Self::new(now);
        }
        self.recorded += 1;
        self.recorded <= CALLERS_PER_SECOND
    }
}

impl FleetSampler {
    pub(super) fn new(sampling: Sampling) -> Self {
        let root = if sampling.ratio >= 1.0 {
            Sampler::AlwaysOn
        } else if sampling.ratio <= 0.0 {
            Sampler::AlwaysOff
        } else {
            Sampler::TraceIdRatioBased(sampling.ratio)
        };
        Self {
            root,
            follows_callers: sampling.follows_callers,
            callers: Arc::new(Mutex::new(CallerLimit::new(Instant::now()))),
        }
    }

    /// The decision of the parent, if it counts.
    fn by_parent(&self, parent: &SpanContext) -> Option<bool> {
        if !parent.is_valid() {
            return None;
        }
        if !parent.is_remote() {
            return Some(parent.is_sampled());
        }
        if !self.follows_callers {
            return None;
        }
        if !parent.is_sampled() {
            return Some(false);
        }
        self.callers.lock().admits(Instant::now()).then_some(true)
    }
}

impl ShouldSample for FleetSampler {
    fn should_sample(
        &self,
        parent_context: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        span_kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let by_parent =
            parent_context.and_then(|context| self.by_parent(context.span().span_context()));
        let Some(is_sampled) = by_parent else {
            return self
                .root
                .should_sample(None, trace_id, name, span_kind, attributes, links);
        };
        SamplingResult {
            decision: if is_sampled {
                SamplingDecision::RecordAndSample
            } else {
                SamplingDecision::Drop
            },
            attributes: Vec::new(),
            trace_state: TraceState::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::trace::{SpanId, TraceFlags};

    use super::*;

    fn parent(flags: TraceFlags, is_remote: bool) -> Context {
        let context = SpanContext::new(
            TraceId::from(7_u128),
            SpanId::from(7_u64),
            flags,
            is_remote,
            TraceState::default(),
        );
        Context::new().with_remote_span_context(context)
    }

    fn sampled(sampler: &FleetSampler, parent: &Context) -> bool {
        let result = sampler.should_sample(
            Some(parent),
            TraceId::from(7_u128),
            "a",
            &SpanKind::Server,
            &[],
            &[],
        );
        result.decision == SamplingDecision::RecordAndSample
    }

    fn sampler(ratio: f64, follows_callers: bool) -> FleetSampler {
        FleetSampler::new(Sampling {
            ratio,
            follows_callers,
        })
    }

    #[test]
    fn a_caller_decides_only_if_it_is_followed() {
        let asks = parent(TraceFlags::SAMPLED, true);
        let refuses = parent(TraceFlags::NOT_SAMPLED, true);
        assert!(sampled(&sampler(0.0, true), &asks));
        assert!(!sampled(&sampler(0.0, false), &asks));
        assert!(!sampled(&sampler(1.0, true), &refuses));
        assert!(sampled(&sampler(1.0, false), &refuses));
    }

    #[test]
    fn spans_within_a_trace_follow_its_decision() {
        for ratio in [0.0, 1.0] {
            let sampler = sampler(ratio, false);
            assert!(sampled(&sampler, &parent(TraceFlags::SAMPLED, false)));
            assert!(!sampled(&sampler, &parent(TraceFlags::NOT_SAMPLED, false)));
        }
    }

    #[test]
    fn callers_cannot_force_more_traces_than_the_limit() {
        let start = Instant::now();
        let mut limit = CallerLimit::new(start);
        let admitted = (0..1_000).filter(|_| limit.admits(start)).count();
        assert_eq!(admitted, CALLERS_PER_SECOND as usize);
        assert!(limit.admits(start + Duration::from_secs(1)));
    }
}
