//! Traces by OpenTelemetry: how a change gets from a watch into a store, and how a question is
//! answered.
//!
//! Guarantees:
//! - without an endpoint in the environment there is no tracer, and no span is created;
//! - whether a trace is recorded is decided when it begins. Of one that is not, nothing is kept: to
//!   carry it is to carry a `None`;
//! - spans hold no content and no names of objects, no credentials and no users; their names are
//!   from a closed set.
//!
//! The tracer is part of the context of a trace, so that code far below takes part in the trace of
//! its caller, if there is one, without being handed a tracer: [`child`].

mod export;
mod sampling;
mod settings;

use std::{borrow::Cow, sync::Arc, time::SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use opentelemetry::{
    Context, ContextGuard, InstrumentationScope,
    context::{FutureExt as _, WithContext},
    propagation::TextMapPropagator as _,
    trace::{
        Span as _, SpanContext, TraceContextExt as _, TraceState, Tracer as _, TracerProvider as _,
    },
};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{SdkTracer, SdkTracerProvider},
};

pub use opentelemetry::{
    KeyValue,
    trace::{SpanKind, Status},
};

pub use self::{
    export::SpanExport,
    settings::{Sampling, TraceSettings, TraceSettingsError},
};
use crate::Metrics;

/// The header that carries a trace. Source: <https://www.w3.org/TR/trace-context/>
pub const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");
/// The header by which `OpenSearch` names a request in its tasks and slow logs.
const OPAQUE_ID: HeaderName = HeaderName::from_static("x-opaque-id");
/// The attribute with the kind of an error.
const ERROR_TYPE: &str = "error.type";
const STATUS_CODE: &str = "http.response.status_code";
/// Links of one span, at most; the default of OpenTelemetry.
const MAX_LINKS: usize = 128;

/// Begins traces. Off by default, and then every method returns at once.
#[derive(Clone, Debug, Default)]
pub struct Traces(Option<SdkTracer>);

/// A span of a trace that is recorded. It ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Trace(Arc<Context>);

/// The span of a caller, from the headers of its request.
#[derive(Clone, Debug)]
pub struct CallerSpan(SpanContext);

/// How a span begins.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// The name, from a closed set.
    pub name: Cow<'static, str>,
    /// Its role in an exchange.
    pub kind: SpanKind,
    /// When it began; absent: now.
    pub at: Option<SystemTime>,
}

impl Beginning {
    /// A span of this name that begins now.
    pub const fn now(name: &'static str, kind: SpanKind) -> Self {
        Self {
            name: Cow::Borrowed(name),
            kind,
            at: None,
        }
    }
}

impl CallerSpan {
    /// The span of the caller, if the headers name one. `tracestate` is not used: it would carry
    /// text of the caller on.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        if headers.get_all(TRACE_PARENT).iter().count() != 1 {
            return None;
        }
        let context = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(headers));
        let span = context.span();
        let found = span.span_context();
        found.is_valid().then(|| {
            Self(SpanContext::new(
                found.trace_id(),
                found.span_id(),
                found.trace_flags(),
                true,
                TraceState::default(),
            ))
        })
    }
}

impl Traces {
    /// Traces with these settings, and the task that exports them.
    pub fn start(
        settings: &TraceSettings,
        metrics: &Metrics,
    ) -> Result<(Self, SpanExport), TraceSettingsError> {
        if !settings.without_effect.is_empty() {
            let variables = settings.without_effect.join(", ");
            tracing::warn!(variables, "these environment variables have no effect");
        }
        let resource = resource(settings);
        let (queue, export) = export::queue(settings, &resource, metrics.spans())?;
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampling::FleetSampler::new(settings.sampling))
            .with_resource(resource)
            .with_span_processor(queue)
            .build();
        tracing::info!(endpoint = %settings.endpoint, ratio = settings.sampling.ratio, "exporting traces");
        let scope = InstrumentationScope::builder("fleetdex")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build();
        Ok((Self(Some(provider.tracer_with_scope(scope))), export))
    }

    /// Whether there may be traces.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a trace, in that of `caller` if there is one; `None` if it is not recorded. The
    /// attributes are made only if it is.
    pub fn begin(
        &self,
        beginning: Beginning,
        caller: Option<&CallerSpan>,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) -> Option<Trace> {
        let tracer = self.0.as_ref()?;
        let outer = Context::new();
        let outer = match caller {
            Some(CallerSpan(span)) => outer.with_remote_span_context(span.clone()),
            None => outer,
        };
        start(tracer, &outer, beginning, attributes)
    }
}

/// Begins a span within the current trace; `None` if there is none that is recorded.
pub fn child(beginning: Beginning, attributes: impl FnOnce() -> Vec<KeyValue>) -> Option<Trace> {
    let parent = Context::map_current(|context| {
        context
            .get::<SdkTracer>()
            .is_some()
            .then(|| context.clone())
    })?;
    Trace(Arc::new(parent)).child(beginning, attributes)
}

impl Trace {
    /// Begins a span within this one.
    pub fn child(
        &self,
        beginning: Beginning,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) -> Option<Self> {
        let tracer = self.0.get::<SdkTracer>()?;
        start(tracer, &self.0, beginning, attributes)
    }

    /// The id of the trace, in hexadecimal digits.
    pub fn id(&self) -> String {
        self.0.span().span_context().trace_id().to_string()
    }

    /// Adds an attribute.
    pub fn set(&self, attribute: KeyValue) {
        self.0.span().set_attribute(attribute);
    }

    /// Adds an event that happens now.
    pub fn event(&self, name: &'static str) {
        self.0.span().add_event(name, Vec::new());
    }

    /// Marks the span as failed. `error_type`: from a closed set, such as a status code.
    pub fn fail(&self, error_type: impl Into<Cow<'static, str>>) {
        let span = self.0.span();
        span.set_attribute(KeyValue::new(ERROR_TYPE, error_type.into()));
        span.set_status(Status::error(""));
    }

    /// Adds the status of an HTTP response. The client of a request calls this, for which 4xx is an
    /// error.
    pub fn set_status_code(&self, status: StatusCode) {
        self.set_served_status_code(status);
        if status.is_client_error() {
            self.fail(status.as_str().to_owned());
        }
    }

    /// The same for the server of a request.
    pub fn set_served_status_code(&self, status: StatusCode) {
        self.set(KeyValue::new(STATUS_CODE, i64::from(status.as_u16())));
        if status.is_server_error() {
            self.fail(status.as_str().to_owned());
        }
    }

    /// Links to a span of another trace.
    pub fn link_to(&self, other: &Self) {
        let other = other.0.span().span_context().clone();
        self.0.span().add_link(other, Vec::new());
    }

    /// Ends the span although clones of it exist.
    pub fn end(&self) {
        self.0.span().end();
    }

    /// Makes this the current span of a future.
    pub fn run<F: Future>(&self, future: F) -> WithContext<F> {
        future.with_context(Context::clone(&self.0))
    }

    /// Makes this the current span of the thread while the guard lives.
    pub fn attach(&self) -> ContextGuard {
        Context::clone(&self.0).attach()
    }

    /// Whether both are the same span.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Adds the header by which the receiver of a request takes part in the trace.
    pub fn propagate(&self, headers: &mut HeaderMap) {
        let span = self.0.span();
        let (trace, span) = (
            span.span_context().trace_id(),
            span.span_context().span_id(),
        );
        if let Ok(value) = HeaderValue::try_from(format!("00-{trace}-{span}-01")) {
            headers.insert(TRACE_PARENT, value);
        }
    }

    /// The same for a request to `OpenSearch`, which shows the id of the trace in its tasks and
    /// slow logs.
    pub fn propagate_to_opensearch(&self, headers: &mut HeaderMap) {
        self.propagate(headers);
        if let Ok(value) = HeaderValue::try_from(self.id()) {
            headers.insert(OPAQUE_ID, value);
        }
    }
}

/// Makes a trace, if there is one, the current one of a future.
pub async fn within<F: Future>(trace: Option<Trace>, future: F) -> F::Output {
    match trace {
        Some(trace) => trace.run(future).await,
        None => future.await,
    }
}

/// Begins the span of what several traces wait for, as a child of the first of them. It links to
/// the others, and they to it.
pub fn joint(
    traces: &[Trace],
    beginning: Beginning,
    attributes: impl FnOnce() -> Vec<KeyValue>,
) -> Option<Trace> {
    let (first, others) = traces.split_first()?;
    let joint = first.child(beginning, attributes)?;
    for (index, other) in others.iter().enumerate() {
        if index < MAX_LINKS {
            joint.link_to(other);
        }
        other.link_to(&joint);
    }
    Some(joint)
}

fn start(
    tracer: &SdkTracer,
    outer: &Context,
    beginning: Beginning,
    attributes: impl FnOnce() -> Vec<KeyValue>,
) -> Option<Trace> {
    let mut builder = tracer
        .span_builder(beginning.name)
        .with_kind(beginning.kind);
    builder.start_time = beginning.at;
    let mut span = builder.start_with_context(tracer, outer);
    if !span.span_context().is_sampled() {
        return None;
    }
    span.set_attributes(attributes());
    let context = Context::new().with_span(span).with_value(tracer.clone());
    Some(Trace(Arc::new(context)))
}

/// The attributes of this process.
fn resource(settings: &TraceSettings) -> Resource {
    let given = settings.resource.iter();
    Resource::builder_empty()
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .with_attributes(given.map(|(name, value)| KeyValue::new(name.clone(), value.clone())))
        .with_service_name(settings.service_name.clone())
        .build()
}

#[cfg(test)]
mod tests;
