use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode};
use bytes::Bytes;
use tokio::{net::TcpListener, sync::oneshot};

use super::*;

/// What a collector does with requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Behavior {
    Accepts,
    Refuses,
    Hangs,
}

#[derive(Clone)]
struct CollectorState {
    behavior: Behavior,
    /// Whether a request had the header of the settings.
    was_authenticated: Arc<AtomicBool>,
}

async fn receive(
    State(state): State<CollectorState>,
    headers: HeaderMap,
    _body: Bytes,
) -> StatusCode {
    if headers
        .get("authorization")
        .is_some_and(|value| value == "Bearer x")
    {
        state.was_authenticated.store(true, Ordering::Relaxed);
    }
    match state.behavior {
        Behavior::Accepts => StatusCode::OK,
        Behavior::Refuses => StatusCode::SERVICE_UNAVAILABLE,
        Behavior::Hangs => std::future::pending().await,
    }
}

/// Settings for a collector that behaves like this.
async fn collector(behavior: Behavior) -> (TraceSettings, Arc<AtomicBool>) {
    let _first = rustls_provider();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let was_authenticated = Arc::new(AtomicBool::new(false));
    let state = CollectorState {
        behavior,
        was_authenticated: Arc::clone(&was_authenticated),
    };
    let router = Router::new().fallback(receive).with_state(state);
    tokio::spawn(async move { axum::serve(listener, router).await });
    (settings(&endpoint), was_authenticated)
}

fn rustls_provider() -> bool {
    rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_ok()
}

fn settings(endpoint: &str) -> TraceSettings {
    TraceSettings {
        endpoint: endpoint.parse().unwrap(),
        headers: [("authorization".to_owned(), "Bearer x".to_owned())].into(),
        timeout: Duration::from_secs(30),
        gzip: true,
        certificate: None,
        sampling: Sampling {
            ratio: 1.0,
            follows_callers: true,
        },
        service_name: "fleetdex".to_owned(),
        resource: [("k8s.pod.name".to_owned(), "a".to_owned())].into(),
        without_effect: Vec::new(),
    }
}

fn begin(traces: &Traces) -> Option<Trace> {
    let beginning = Beginning::now("a", SpanKind::Internal);
    traces.begin(beginning, None, Vec::new)
}

fn count(metrics: &Metrics, series: &str) -> u64 {
    let text = metrics.encode().unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

const EXPORTED: &str = "fleetdex_trace_spans_exported_total";
const QUEUE_FULL: &str = "fleetdex_trace_spans_dropped_total{reason=\"queue_full\"}";
const NOT_ACCEPTED: &str = "fleetdex_trace_spans_dropped_total{reason=\"not_accepted\"}";

#[test]
fn without_traces_nothing_begins_and_no_attributes_are_made() {
    let traces = Traces::default();
    let made = traces.begin(
        Beginning::now("a", SpanKind::Server),
        None,
        || unreachable!(),
    );
    assert!(made.is_none() && !traces.is_on());
    assert!(child(Beginning::now("a", SpanKind::Client), || unreachable!()).is_none());
}

#[tokio::test]
async fn spans_are_exported_and_the_last_ones_when_the_process_stops() {
    let (settings, was_authenticated) = collector(Behavior::Accepts).await;
    let metrics = Metrics::new();
    let (traces, export) = Traces::start(&settings, &metrics).unwrap();
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(export.run(async { stopped.await.unwrap() }));
    for _ in 0..1_000 {
        begin(&traces);
    }
    stop.send(()).unwrap();
    task.await.unwrap();
    assert_eq!(count(&metrics, EXPORTED), 1_000);
    assert!(was_authenticated.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_hangs_or_refuses_costs_only_counted_spans() {
    for behavior in [Behavior::Hangs, Behavior::Refuses] {
        let (settings, _) = collector(behavior).await;
        let metrics = Metrics::new();
        let (traces, export) = Traces::start(&settings, &metrics).unwrap();
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(export.run(async { stopped.await.unwrap() }));
        // No `await`: the export cannot run meanwhile.
        for _ in 0..5_000 {
            begin(&traces);
        }
        assert_eq!(count(&metrics, QUEUE_FULL), 5_000 - 2_048, "{behavior:?}");
        stop.send(()).unwrap();
        // Its timeout is longer than this test waits.
        tokio::time::timeout(Duration::from_secs(25), task)
            .await
            .expect("the process stops before the collector answers")
            .unwrap();
        assert_eq!(count(&metrics, NOT_ACCEPTED), 2_048, "{behavior:?}");
        assert_eq!(count(&metrics, EXPORTED), 0, "{behavior:?}");
    }
}

#[tokio::test]
async fn code_far_below_takes_part_in_the_trace_of_its_caller() {
    let (settings, _) = collector(Behavior::Accepts).await;
    let (traces, _export) = Traces::start(&settings, &Metrics::new()).unwrap();
    let trace = begin(&traces).unwrap();
    let below = async { child(Beginning::now("b", SpanKind::Client), Vec::new) };
    let inner = within(Some(trace.clone()), below).await.unwrap();
    assert_eq!(inner.id(), trace.id());
    assert!(child(Beginning::now("b", SpanKind::Client), Vec::new).is_none());
    let mut headers = HeaderMap::new();
    inner.propagate_to_opensearch(&mut headers);
    let sent = CallerSpan::of(&headers).unwrap().0;
    assert!(sent.is_sampled() && sent.is_remote());
    assert_eq!(headers["x-opaque-id"], trace.id());
}

#[tokio::test]
async fn a_trace_continues_that_of_its_caller() {
    let (mut settings, _) = collector(Behavior::Accepts).await;
    settings.sampling.ratio = 0.0;
    let (traces, _export) = Traces::start(&settings, &Metrics::new()).unwrap();
    let caller = |value: &str| {
        let value = HeaderValue::from_str(value).unwrap();
        CallerSpan::of(&HeaderMap::from_iter([(TRACE_PARENT, value)]))
    };
    let id = "0af7651916cd43dd8448eb211c80319c";
    let begin = |caller: Option<CallerSpan>| {
        let beginning = Beginning::now("a", SpanKind::Server);
        traces.begin(beginning, caller.as_ref(), Vec::new)
    };
    let asks = caller(&format!("00-{id}-b7ad6b7169203331-01"));
    assert_eq!(begin(asks).unwrap().id(), id);
    assert!(begin(caller(&format!("00-{id}-b7ad6b7169203331-00"))).is_none());
    for garbled in [
        "",
        "00-0-0-01",
        &format!("00-{id}-b7ad6b7169203331"),
        &format!("ff-{id}-b7ad6b7169203331-01"),
    ] {
        assert!(caller(garbled).is_none(), "{garbled}");
    }
    let twice = HeaderValue::from_static("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    let mut headers = HeaderMap::new();
    headers.append(TRACE_PARENT, twice.clone());
    headers.append(TRACE_PARENT, twice);
    assert!(CallerSpan::of(&headers).is_none());
}

#[tokio::test]
async fn a_certificate_that_cannot_be_read_is_an_error_at_the_start() {
    let mut settings = settings("https://collector:4318/v1/traces");
    settings.certificate = Some("/nowhere/ca.pem".into());
    let error = Traces::start(&settings, &Metrics::new())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(
            "environment variable OTEL_EXPORTER_OTLP_CERTIFICATE: cannot read /nowhere/ca.pem: "
        ),
        "{error}"
    );
}
