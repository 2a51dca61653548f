//! Traces of a real operator: a change from the watch to the acknowledgement, a question with its
//! review and its search, and a collector that does not work.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::{fs, time::Duration};

use anyhow::{Context, Result, ensure};
use e2e::{
    collector::{ReceivedSpan, TraceCollector},
    fleet::unique,
    http,
    operator::{Operator, OperatorOptions},
    query_api::GROUP,
    scenario::{DEADLINE, Registry, Stage, flags, until},
    test_result::Tested,
};
use serde_json::json;

/// Far more than an operator takes to stop, and far less than it would take to wait for the
/// collector again and again.
const STOP: Duration = Duration::from_mins(1);
/// The timeout of the exporter, in milliseconds: longer than the operator may take to stop.
const EXPORT_TIMEOUT: &str = "60000";

/// Starts an operator with these environment variables and TLS, in place of that of the stage.
fn start(stage: &Stage, environment: &[(&str, &str)]) -> Result<Operator> {
    let control_plane = stage.fleet.control_plane();
    let serving = control_plane.authority().server("traced")?;
    let (certificate, key) = serving.write(stage.fleet.dir(), &unique("traced"))?;
    let authority = stage.fleet.dir().join(unique("traced-ca"));
    fs::write(&authority, control_plane.authority().pem())?;
    let mut arguments = flags();
    arguments.extend([
        format!("--tls-cert-file={}", certificate.display()),
        format!("--tls-private-key-file={}", key.display()),
        format!("--tls-ca-file={}", authority.display()),
        "--log-level=info,fleetdex_server=debug".to_owned(),
        "--log-format=json".to_owned(),
    ]);
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Operator::start(OperatorOptions {
        kubeconfig: control_plane.kubeconfig(),
        dir: stage.fleet.dir().to_owned(),
        arguments,
        environment: environment.iter().map(owned).collect(),
    })
}

/// The spans of a trace once one of this name is among them, so that the trace has ended.
async fn trace_of(
    collector: &TraceCollector,
    last: &str,
    is_it: impl Fn(&ReceivedSpan) -> bool,
) -> Tested<Vec<ReceivedSpan>> {
    Ok(until(&format!("a trace with {last}"), || async {
        let spans = collector.spans();
        let found = spans.iter().find(|span| span.name == last && is_it(span));
        let trace = found.map(|span| span.trace.clone());
        let names: Vec<&String> = spans.iter().map(|span| &span.name).collect();
        let trace = trace.with_context(|| format!("{names:?}"))?;
        let of_trace = spans.iter().filter(|span| span.trace == trace);
        anyhow::Ok(of_trace.cloned().collect())
    })
    .await?)
}

fn named<'s>(spans: &'s [ReceivedSpan], name: &str) -> &'s ReceivedSpan {
    let found = spans.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| panic!("no span {name} in {spans:#?}"))
}

#[tokio::test]
#[allow(clippy::too_many_lines, reason = "one operator for all of it")]
async fn changes_and_questions_are_traced_and_a_collector_that_fails_delays_nothing() -> Tested {
    let stage = Stage::enter().await?;
    stage.operator.terminate(STOP).await?;
    let kinds = json!([{ "apiVersion": "v1", "kind": "ConfigMap" }]);
    let registry = Registry::new(&stage, "traced", &["member1", "member2"], &kinds)?;
    registry.apply().await?;
    let collector = TraceCollector::start().await?;
    let operator = start(
        &stage,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", EXPORT_TIMEOUT),
            ("OTEL_SERVICE_NAME", "traced"),
        ],
    )
    .unwrap();
    operator.wait_ready(DEADLINE).await?;
    registry.until_ready().await?;

    // A page of the first list: the request, and the writes that it causes.
    let page = trace_of(&collector, "index list page", |span| {
        span.attribute("k8s.cluster.name") == Some("member1")
    })
    .await?;
    let root = named(&page, "index list page");
    assert_eq!(named(&page, "list").parent, root.id);
    assert_eq!(root.attribute("service.name"), Some("traced"));

    // The opening of the watch after it.
    let opening = trace_of(&collector, "open watch", |span| {
        span.attribute("k8s.cluster.name") == Some("member1")
    })
    .await?;
    let root = named(&opening, "open watch");
    assert_eq!(
        (&*root.parent, root.attribute("fleetdex.kind")),
        ("", Some("v1/ConfigMap"))
    );
    let request = named(&opening, "watch");
    assert_eq!(request.parent, root.id);
    assert_eq!(request.attribute("http.response.status_code"), Some("200"));

    // A change by kubectl is one trace, up to the acknowledgement of OpenSearch.
    let name = unique("traced");
    let kubectl = stage.fleet.member(2).kubectl()?;
    kubectl
        .run(&["create", "configmap", &name, "-n", "default"])
        .await?;
    let object = stage
        .member(2)?
        .get(&format!("api/v1/namespaces/default/configmaps/{name}"))
        .await?;
    let uid = object["metadata"]["uid"].as_str().unwrap();
    let change = trace_of(&collector, "index change", |span| {
        span.attribute("fleetdex.object.uid") == Some(uid)
    })
    .await?;
    let root = named(&change, "index change");
    for (attribute, expected) in [
        ("k8s.cluster.name", "member2"),
        ("k8s.namespace.name", "default"),
        ("fleetdex.kind", "v1/ConfigMap"),
        ("fleetdex.event", "added"),
        ("fleetdex.verdict", "indexed"),
    ] {
        assert_eq!(root.attribute(attribute), Some(expected), "{root:?}");
    }
    assert_eq!(root.parent, "");
    // A batch belongs to the trace of its first change; those of the others link to it.
    match change.iter().find(|span| span.name == "write batch") {
        Some(batch) => {
            assert_eq!(batch.parent, root.id);
            let bulk = named(&change, "bulk");
            assert_eq!(bulk.parent, batch.id);
            assert_eq!(bulk.attribute("db.system.name"), Some("opensearch"));
            assert_eq!(bulk.attribute("http.response.status_code"), Some("200"));
        }
        None => assert_eq!(root.links.len(), 1, "{change:#?}"),
    }
    let everything = format!("{:?}", collector.spans());
    assert!(
        !everything.contains(&name),
        "the name of an object is in a span"
    );

    // A question in the trace of its caller: the review, the search, and the id in the log.
    let control_plane = stage.fleet.control_plane();
    let client = http::client(Some(control_plane.authority().pem()))?;
    let ask = |trace: String, token: String| {
        let client = client.clone();
        let url = format!(
            "https://{}{GROUP}/search/api/v1/configmaps",
            operator.api_address()
        );
        async move {
            let request = client.get(url).bearer_auth(token);
            let request = request.header("traceparent", format!("00-{trace}-b7ad6b7169203331-01"));
            request.send().await.unwrap().status().as_u16()
        }
    };
    let token = |user: &str| control_plane.token_of(user).unwrap().to_owned();
    let (asked, refused, unknown) = (
        "0af7651916cd43dd8448eb211c80319c".to_owned(),
        "1af7651916cd43dd8448eb211c80319c".to_owned(),
        "2af7651916cd43dd8448eb211c80319c".to_owned(),
    );
    assert_eq!(ask(asked.clone(), token("admin")).await, 200);
    let route = format!("GET {GROUP}/search/{{path}}");
    let question = trace_of(&collector, &route, |span| span.trace == asked).await?;
    let root = named(&question, &route);
    assert_eq!(root.parent, "b7ad6b7169203331");
    assert_eq!(root.attribute("http.response.status_code"), Some("200"));
    assert_eq!(named(&question, "authenticate").parent, root.id);
    let is_search = |span: &&ReceivedSpan| span.attribute("db.system.name") == Some("opensearch");
    assert!(
        question.iter().any(|span| is_search(&span)),
        "{question:#?}"
    );

    assert_eq!(ask(refused.clone(), token("alice")).await, 403);
    let question = trace_of(&collector, &route, |span| span.trace == refused).await?;
    let root = named(&question, &route);
    assert_eq!(root.attribute("http.response.status_code"), Some("403"));
    let review = named(&question, "SubjectAccessReview");
    assert_eq!(review.parent, root.id);
    assert_eq!(review.attribute("fleetdex.allowed"), Some("false"));
    let log = fs::read_to_string(operator.process().log())?;
    let line = log.lines().find(|line| line.contains("request refused"));
    assert!(
        line.unwrap()
            .contains(&format!("\"trace_id\":\"{refused}\"")),
        "{line:?}"
    );

    // A caller that is not known cannot name a trace.
    assert_eq!(ask(unknown.clone(), "made-up".to_owned()).await, 401);
    trace_of(&collector, &route, |span| {
        span.attribute("http.response.status_code") == Some("401")
    })
    .await?;
    assert!(collector.spans().iter().all(|span| span.trace != unknown));

    // A collector that refuses, then hangs: changes are indexed, and the operator stops.
    collector.respond(503);
    let member = stage.member(1)?;
    let indexed = async |name: &str| {
        let data = json!({ "a": "b" });
        member
            .apply_config_map("default", name, &data)
            .await
            .unwrap();
        until("it is indexed", || async {
            let listed = operator
                .run_command("get configmaps -n default -o name")
                .await?;
            ensure!(listed.out.contains(name), "{} {}", listed.out, listed.err);
            Ok(())
        })
        .await
        .unwrap();
    };
    indexed(&unique("refused")).await;
    collector.respond(0);
    indexed(&unique("hangs")).await;
    operator.terminate(STOP).await?;
    drop(operator);

    // Wrong values are an error at the start; without the SDK there are no traces.
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url());
    let wrong = start(&stage, &[endpoint, ("OTEL_TRACES_SAMPLER", "most")]).unwrap();
    until("it ends with an error", || async {
        let log = wrong.process().log_tail(5);
        ensure!(
            log.contains(
                "error: environment variable OTEL_TRACES_SAMPLER: \"most\" is not supported"
            ),
            "{log}"
        );
        Ok(())
    })
    .await?;
    drop(wrong);
    collector.respond(200);
    let before = collector.spans().len();
    let disabled = start(&stage, &[endpoint, ("OTEL_SDK_DISABLED", "true")]).unwrap();
    disabled.wait_ready(DEADLINE).await?;
    registry.remove().await?;
    disabled.terminate(STOP).await?;
    assert_eq!(collector.spans().len(), before);
    Ok(())
}
