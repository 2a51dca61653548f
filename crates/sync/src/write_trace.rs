//! The trace of a write: from the line of a watch or the page of a list to the acknowledgement of
//! the store. And that of the opening of a watch, without which no line arrives.
//!
//! Whether it is recorded is decided when the line or the page arrives. A write without a trace
//! carries `None`.

use std::time::SystemTime;

use fleetdex_core::model::{Object, Unit};
use fleetdex_telemetry::{
    Traces,
    metrics::EventType,
    traces::{Beginning, KeyValue, SpanKind, Trace, joint},
};

/// The kind of error of a change that the store never gets.
const NOT_ACKNOWLEDGED: &str = "not_acknowledged";

const MAX_NAME_BYTES: usize = 253;

/// The span of the line or page from which a write comes. It ends when all writes have ended.
#[derive(Clone, Debug)]
pub enum WriteTrace {
    /// A line of a watch, which is one change.
    Change(Trace),
    /// A page of a list, with many objects.
    Page(Trace),
}

impl WriteTrace {
    /// Begins the trace of a line of a watch that `arrived` at this time.
    pub(crate) fn of_change(
        traces: &Traces,
        arrived: SystemTime,
        unit: &Unit,
        event: EventType,
        object: &Object<'_>,
    ) -> Option<Self> {
        let beginning = Beginning {
            at: Some(arrived),
            ..Beginning::now("index change", SpanKind::Consumer)
        };
        let attributes = || {
            let mut attributes = unit_attributes(unit);
            attributes.push(KeyValue::new("fleetdex.event", event.as_str()));
            attributes.push(KeyValue::new("fleetdex.object.uid", bounded(object.uid())));
            let version = object.version().to_string();
            attributes.push(KeyValue::new("fleetdex.object.resource_version", version));
            let namespace = object.namespace().map(bounded);
            attributes.extend(namespace.map(|name| KeyValue::new("k8s.namespace.name", name)));
            attributes
        };
        traces.begin(beginning, None, attributes).map(Self::Change)
    }

    /// Begins the trace of a page that is about to be requested.
    pub(crate) fn of_page(traces: &Traces, unit: &Unit) -> Option<Self> {
        let beginning = Beginning::now("index list page", SpanKind::Consumer);
        let trace = traces.begin(beginning, None, || unit_attributes(unit));
        trace.map(Self::Page)
    }

    /// Its span.
    pub fn span(&self) -> &Trace {
        match self {
            Self::Change(trace) | Self::Page(trace) => trace,
        }
    }

    /// Notes how many objects a page has.
    pub(crate) fn read(&self, objects: usize) {
        let objects = i64::try_from(objects).unwrap_or(i64::MAX);
        self.span().set(KeyValue::new("fleetdex.objects", objects));
    }

    /// Notes that the document of a change is made and queued. A page has too many of them.
    pub(crate) fn queued(&self) {
        if let Self::Change(trace) = self {
            trace.event("queued");
        }
    }

    /// Notes what became of the write of a change.
    pub(crate) fn ended(&self, verdict: &'static str) {
        if let Self::Change(trace) = self {
            trace.set(KeyValue::new("fleetdex.verdict", verdict));
        }
    }

    /// Notes that the store never gets a write.
    pub(crate) fn lost(&self) {
        self.span().fail(NOT_ACKNOWLEDGED);
    }
}

/// Begins the trace of a watch that is about to be opened.
pub(crate) fn of_opening(traces: &Traces, unit: &Unit) -> Option<Trace> {
    let beginning = Beginning::now("open watch", SpanKind::Internal);
    traces.begin(beginning, None, || unit_attributes(unit))
}

/// Begins the span of a batch of writes, if one of them has a trace.
pub(crate) fn of_batch<'w>(
    writes: impl Iterator<Item = Option<&'w WriteTrace>>,
    count: usize,
) -> Option<Trace> {
    let mut traces: Vec<Trace> = Vec::new();
    for trace in writes.flatten() {
        // The writes of a page follow one another.
        if traces.last().is_none_or(|last| !last.is(trace.span())) {
            traces.push(trace.span().clone());
        }
    }
    joint(
        &traces,
        Beginning::now("write batch", SpanKind::Internal),
        || {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            vec![KeyValue::new("db.operation.batch.size", count)]
        },
    )
}

/// A member may send names of any length; those of Kubernetes have at most this many bytes.
fn bounded(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_NAME_BYTES)].to_owned()
}

fn unit_attributes(unit: &Unit) -> Vec<KeyValue> {
    vec![
        KeyValue::new("k8s.cluster.name", unit.cluster.as_str().to_owned()),
        KeyValue::new("fleetdex.kind", unit.resource.gvk.to_string()),
    ]
}
