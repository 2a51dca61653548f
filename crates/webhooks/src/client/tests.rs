mod server;

use std::{sync::atomic::Ordering, time::Duration};

use fleetdex_interpreter::{
    Operation,
    health::{self, Assessment, Health},
    request::{AggregatedStatusItem, Component, DependentObject},
    webhook::{Dialect, ReviewResponse, configuration::WebhookConfiguration},
};
use serde_json::{Value, json};

use self::server::{Authority, Received, Reply, Server, answer, ok, status};
use fleetdex_interpreter::webhook::AnswerError;

use super::*;
use crate::{
    breaker::Contact,
    service::{ClusterDns, FixedAddress},
};

const NAMES: [&str; 2] = ["hook.web.svc", "127.0.0.1"];
const UNREACHABLE: Contact = Contact::Unreachable { retry_after: None };

fn workload() -> Value {
    json!({
        "apiVersion": "workload.example.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3},
        "status": {"readyReplicas": 2},
    })
}

fn webhook(dialect: Dialect, client_config: &Value) -> Webhook {
    let object = json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": dialect.configuration_kind(),
        "metadata": {"name": "examples"},
        "webhooks": [{
            "name": "workloads.example.com",
            "clientConfig": client_config,
            "rules": [],
            "timeoutSeconds": 3,
            dialect.versions_member(): ["v1alpha1"],
        }],
    });
    let configuration = WebhookConfiguration::parse(&object).unwrap();
    configuration.webhooks.into_iter().next().unwrap()
}

fn base64(text: &str) -> String {
    use k8s_openapi::ByteString;
    let encoded = serde_json::to_value(ByteString(text.as_bytes().to_vec())).unwrap();
    encoded.as_str().unwrap().to_owned()
}

fn by_url(server: &Server) -> Webhook {
    let url = format!("https://{}/interpret", server.address);
    let ca_bundle = base64(&server.ca_pem);
    webhook(
        Dialect::Released,
        &json!({"url": url, "caBundle": ca_bundle}),
    )
}

fn by_service(server: &Server, port: u16) -> Webhook {
    let service = json!({"namespace": "web", "name": "hook", "path": "/interpret", "port": port});
    let ca_bundle = base64(&server.ca_pem);
    webhook(
        Dialect::Released,
        &json!({"service": service, "caBundle": ca_bundle}),
    )
}

fn client() -> WebhookClient {
    WebhookClient::new(Arc::new(ClusterDns), WebhookMetrics::default())
}

fn healthy() -> ReviewResponse {
    ReviewResponse::Answer(Response::Health {
        assessment: Assessment::plain(Health::Healthy),
        healthy: true,
    })
}

fn answers_healthy(received: &Received) -> Reply {
    Reply::Raw(answer(received, &healthy()))
}

async fn health_of(client: &WebhookClient, webhook: &Webhook) -> Result<Response, CallError> {
    let object = workload();
    client
        .call(webhook, &Request::Health { object: &object })
        .await
}

/// What a call of a server with this behaviour fails with.
async fn failure(
    behaviour: impl Fn(&Received) -> Reply + Send + Sync + 'static,
) -> (CallError, CallEnd) {
    let server = Server::start(&Authority::new(&NAMES), behaviour).await;
    let client = client();
    let webhook = Webhook {
        timeout: Duration::from_millis(1500),
        ..by_url(&server)
    };
    let error = health_of(&client, &webhook).await.unwrap_err();
    assert_eq!(error.webhook, "examples/workloads.example.com");
    let end = error.failure.end();
    assert_eq!(client.metrics.calls(&webhook.id, end), 1);
    (error, end)
}

#[tokio::test]
async fn a_request_is_a_post_of_json_with_its_timeout_and_without_credentials() {
    let server = Server::start(&Authority::new(&NAMES), answers_healthy).await;
    let client = client();
    health_of(&client, &by_url(&server)).await.unwrap();
    let received = server.last();
    let first_line = received.head.lines().next().unwrap();
    assert_eq!(first_line, "POST /interpret?timeout=3s HTTP/1.1");
    for line in [
        "content-type: application/json",
        "accept: application/json, */*",
        "accept-encoding: identity",
        &format!("host: {}", server.address),
    ] {
        assert!(received.has(line), "{line} in {}", received.head);
    }
    let head = received.head.to_lowercase();
    for header in ["authorization", "cookie", "referer", "proxy"] {
        assert!(!head.contains(header), "{header} in {head}");
    }
    health_of(&client, &by_url(&server)).await.unwrap();
    let uids: Vec<String> = server
        .received
        .lock()
        .iter()
        .map(|received| received.review().uid)
        .collect();
    assert_ne!(uids[0], uids[1]);
    assert_eq!(server.connections.load(Ordering::Relaxed), 1, "kept alive");
}

#[tokio::test]
async fn a_service_is_called_by_its_name_wherever_it_is_reached() {
    let server = Server::start(&Authority::new(&NAMES), answers_healthy).await;
    for (port, host) in [(443, "hook.web.svc"), (8443, "hook.web.svc:8443")] {
        let resolver = Arc::new(FixedAddress(server.address));
        let client = WebhookClient::new(resolver, WebhookMetrics::default());
        health_of(&client, &by_service(&server, port))
            .await
            .unwrap();
        let received = server.last();
        assert_eq!(received.server_name.as_deref(), Some("hook.web.svc"));
        assert!(received.has(&format!("host: {host}")), "{}", received.head);
    }
}

#[tokio::test]
async fn a_certificate_for_another_name_or_of_another_authority_is_refused() {
    let other_name = Server::start(&Authority::new(&["other.web.svc"]), answers_healthy).await;
    let resolver = Arc::new(FixedAddress(other_name.address));
    let at_other_name = WebhookClient::new(resolver, WebhookMetrics::default());
    let mut refused = vec![health_of(&at_other_name, &by_service(&other_name, 443)).await];
    let client = WebhookClient::new(Arc::new(ClusterDns), WebhookMetrics::default());
    let server = Server::start(&Authority::new(&NAMES), answers_healthy).await;
    let right = by_url(&server);
    let url = json!({"url": format!("https://{}/", server.address)});
    // Without a caBundle, the authorities of the system count.
    refused.push(health_of(&client, &webhook(Dialect::Released, &url)).await);
    let mut wrong = right.clone();
    if let Ok(endpoint) = &mut wrong.endpoint {
        endpoint.ca_bundle = Some(Authority::new(&NAMES).ca_pem.into_bytes());
    }
    refused.push(health_of(&client, &wrong).await);
    for result in refused {
        let error = result.unwrap_err();
        let is_lost = matches!(&error.failure, CallFailure::Connection(text) if text.starts_with("the certificate of the webhook is "));
        assert!(is_lost, "{error}");
        assert_eq!(error.contact(), UNREACHABLE);
    }
    assert!(server.received.lock().is_empty(), "an object was sent");
    // The same client with the right certificates: nothing of the wrong ones is kept.
    health_of(&client, &right).await.unwrap();
}

#[tokio::test]
async fn statuses_that_are_not_2xx_are_failures_with_their_reason() {
    for (line, headers, body, text, contact) in [
        (
            "500 Internal Server Error",
            "content-type: text/plain\r\n",
            "it broke\u{1b}[2J",
            "HTTP status 500: it broke",
            Contact::Reached,
        ),
        ("404 Not Found", "", "", "HTTP status 404", Contact::Reached),
        (
            "429 Too Many Requests",
            "retry-after: 7\r\n",
            "",
            "HTTP status 429",
            Contact::Unreachable {
                retry_after: Some(Duration::from_secs(7)),
            },
        ),
        (
            "429 Too Many Requests",
            "",
            "",
            "HTTP status 429",
            UNREACHABLE,
        ),
        (
            "503 Service Unavailable",
            "retry-after: soon\r\n",
            "",
            "HTTP status 503",
            UNREACHABLE,
        ),
        (
            "502 Bad Gateway",
            "content-type: text/html\r\n",
            "<html>",
            "HTTP status 502",
            UNREACHABLE,
        ),
        (
            "400 Bad Request",
            "content-type: application/json\r\n",
            r#"{"response":{"successful":false,"status":{"message":"no spec","code":400}}}"#,
            "HTTP status 400: no spec",
            Contact::Reached,
        ),
        (
            "204 No Content",
            "",
            "",
            "the answer cannot be read",
            Contact::Reached,
        ),
    ] {
        let reply = status(line, headers, body);
        let (error, _) = failure(move |_| Reply::Raw(reply.clone())).await;
        let shown = error.to_string();
        assert!(
            shown.starts_with(&format!(
                "interpreter webhook examples/workloads.example.com: {text}"
            )),
            "{shown}"
        );
        assert!(!shown.contains('\u{1b}'), "{shown}");
        assert_eq!(error.contact(), contact, "{line}");
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Server::start(&Authority::new(&NAMES), answers_healthy).await;
    for code in ["301", "302", "307", "308"] {
        let location = format!("location: https://{}/\r\n", elsewhere.address);
        let reply = status(&format!("{code} Elsewhere"), &location, "");
        let (error, _) = failure(move |_| Reply::Raw(reply.clone())).await;
        assert!(
            error.to_string().ends_with(&format!("HTTP status {code}")),
            "{error}"
        );
    }
    assert_eq!(elsewhere.connections.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_slow_answer_is_waited_for_and_no_longer_than_the_timeout() {
    let slow =
        |received: &Received| Reply::Late(Duration::from_millis(300), answer(received, &healthy()));
    let server = Server::start(&Authority::new(&NAMES), slow).await;
    health_of(&client(), &by_url(&server)).await.unwrap();
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec();
    for silent in [Reply::Silence, Reply::Raw(head)] {
        let silent = parking_lot::Mutex::new(Some(silent));
        let begun = std::time::Instant::now();
        let (error, end) = failure(move |_| silent.lock().take().unwrap_or(Reply::Silence)).await;
        assert!(begun.elapsed() < Duration::from_secs(3));
        assert!(
            error.to_string().ends_with("no whole answer within 1.5 s"),
            "{error}"
        );
        assert_eq!((end, error.contact()), (CallEnd::Timeout, UNREACHABLE));
    }
}

#[tokio::test]
async fn a_server_that_does_not_accept_or_speaks_no_tls_is_a_lost_connection() {
    let server = Server::start(&Authority::new(&NAMES), answers_healthy).await;
    let unused = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let mut away = by_url(&server);
    if let Ok(endpoint) = &mut away.endpoint {
        let url = format!("https://{address}/");
        endpoint.address = fleetdex_interpreter::webhook::configuration::WebhookAddress::Url(url);
    }
    let error = health_of(&client(), &away).await.unwrap_err();
    assert_eq!(error.contact(), UNREACHABLE);
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn answers_that_break_off_or_are_no_http_are_a_lost_connection() {
    let cut = |received: &Received| {
        let whole = answer(received, &healthy());
        Reply::Cut(whole[..whole.len() - 5].to_vec())
    };
    let replies: [fn(&Received) -> Reply; 3] = [
        cut,
        |_| Reply::Cut(Vec::new()),
        |_| Reply::Cut(b"SSH-2.0-OpenSSH_9.9\r\n\r\n".to_vec()),
    ];
    for reply in replies {
        let (error, end) = failure(reply).await;
        assert_eq!(
            (end, error.contact()),
            (CallEnd::Connection, UNREACHABLE),
            "{error}"
        );
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_compressed_is_not_read() {
    let endless = |_: &Received| {
        let head = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
        Reply::Endless(head)
    };
    let announced = |_: &Received| {
        Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n".to_vec())
    };
    for (error, end) in [failure(endless).await, failure(announced).await] {
        assert!(error.to_string().contains("bytes, more than"), "{error}");
        assert_eq!((end, error.contact()), (CallEnd::Invalid, Contact::Reached));
    }
    let packed =
        |_: &Received| Reply::Raw(status("200 OK", "content-encoding: gzip\r\n", "packed"));
    let (error, _) = failure(packed).await;
    assert!(
        error.to_string().contains("Content-Encoding \"gzip\""),
        "{error}"
    );
}

#[tokio::test]
async fn answers_that_say_nothing_about_the_request_are_failures() {
    let response = |response: Value| json!({"response": response}).to_string();
    for (body, text, end) in [
        (
            "{".to_owned(),
            "the answer cannot be read",
            CallEnd::Invalid,
        ),
        (
            "{}".to_owned(),
            "the answer has no response",
            CallEnd::Invalid,
        ),
        (
            response(json!({"uid": "other", "successful": true, "healthy": true})),
            "response.uid is \"other\"",
            CallEnd::Invalid,
        ),
        (
            response(json!({"uid": "UID", "successful": true})),
            "response.healthy is absent",
            CallEnd::Invalid,
        ),
        (
            response(json!({"uid": "UID", "successful": false})),
            "response.successful is not true",
            CallEnd::Unsuccessful,
        ),
        (
            response(
                json!({"uid": "UID", "successful": false, "status": {"code": 403, "message": "not\nyours"}}),
            ),
            "the webhook failed with code 403: not\\nyours",
            CallEnd::Unsuccessful,
        ),
    ] {
        let reply = move |received: &Received| {
            let uid = received.review().uid;
            Reply::Raw(ok(body.replace("UID", &uid).as_bytes()))
        };
        let (error, ended) = failure(reply).await;
        assert!(error.to_string().contains(text), "{error}");
        assert_eq!((ended, error.contact()), (end, Contact::Reached), "{error}");
    }
}

#[tokio::test]
async fn a_bad_patch_is_a_failure() {
    for (patch, patch_type) in [
        (
            r#"[{"op":"replace","path":"/spec/nothing/here","value":1}]"#,
            "JSONPatch",
        ),
        (
            r#"[{"op":"replace","path":"/kind","value":"Secret"}]"#,
            "JSONPatch",
        ),
        ("{}", "JSONPatch"),
        ("[]", "MergePatch"),
    ] {
        let patch = base64(patch);
        let server = Server::start(&Authority::new(&NAMES), move |received| {
            let uid = received.review().uid;
            let response =
                json!({"uid": uid, "successful": true, "patch": patch, "patchType": patch_type});
            Reply::Raw(ok(json!({"response": response}).to_string().as_bytes()))
        })
        .await;
        let object = workload();
        let request = Request::Revise {
            object: &object,
            replicas: 5,
        };
        let error = client().call(&by_url(&server), &request).await.unwrap_err();
        assert!(
            matches!(error.failure, CallFailure::Answer(AnswerError::Patch(_))),
            "{error}"
        );
        assert_eq!(error.contact(), Contact::Reached);
    }
}

#[tokio::test]
async fn a_webhook_that_is_configured_wrong_is_not_called() {
    for client_config in [
        json!({"url": "http://127.0.0.1:1/"}),
        json!({"url": "https://a:b@127.0.0.1:1/"}),
        json!({}),
        json!({"url": "https://127.0.0.1:1/", "caBundle": "bm8gY2VydGlmaWNhdGU="}),
    ] {
        let webhook = webhook(Dialect::Released, &client_config);
        let error = health_of(&client(), &webhook).await.unwrap_err();
        assert_eq!(error.contact(), Contact::NotCalled, "{error}");
        assert!(matches!(error.failure, CallFailure::Endpoint(_)), "{error}");
    }
    let object = workload();
    let webhook = webhook(Dialect::Released, &json!({"url": "https://127.0.0.1:1/"}));
    let prune = Request::Prune { object: &object };
    let error = client().call(&webhook, &prune).await.unwrap_err();
    assert!(matches!(error.failure, CallFailure::Request(_)), "{error}");
}

#[tokio::test]
async fn calls_wait_their_turn_and_a_busy_webhook_keeps_none_of_another_one() {
    let server = Server::start(&Authority::new(&NAMES), |received| {
        if received.head.starts_with("POST /silent") {
            return Reply::Silence;
        }
        answers_healthy(received)
    })
    .await;
    let client = Arc::new(client());
    let mut silent = by_url(&server);
    silent.id = "examples/silent".to_owned();
    silent.timeout = Duration::from_secs(2);
    if let Ok(endpoint) = &mut silent.endpoint {
        let url = format!("https://{}/silent", server.address);
        endpoint.address = fleetdex_interpreter::webhook::configuration::WebhookAddress::Url(url);
    }
    let impatient = Webhook {
        timeout: Duration::from_millis(200),
        ..silent.clone()
    };
    let mut calls = tokio::task::JoinSet::new();
    for webhook in [silent, impatient] {
        for _ in 0..MAX_CALLS_OF_WEBHOOK {
            let (client, webhook) = (Arc::clone(&client), webhook.clone());
            calls.spawn(async move { health_of(&client, &webhook).await.unwrap_err() });
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    health_of(&client, &by_url(&server)).await.unwrap();
    let errors = calls.join_all().await;
    let busy = errors
        .iter()
        .filter(|error| matches!(error.failure, CallFailure::Busy(_)));
    assert_eq!(busy.count(), MAX_CALLS_OF_WEBHOOK);
}

fn changed(mut object: Value, pointer: &str, value: Value) -> Value {
    *object.pointer_mut(pointer).unwrap() = value;
    object
}

/// One request of each operation, and what a server answers.
fn table<'a>(
    object: &'a Value,
    observed: &'a Value,
    items: &'a [AggregatedStatusItem],
) -> Vec<(Request<'a>, Response)> {
    let dependency = DependentObject {
        api_version: "v1".to_owned(),
        kind: "Secret".to_owned(),
        namespace: "shop".to_owned(),
        name: "token".to_owned(),
        label_selector: None,
    };
    let component = Component {
        name: "driver".to_owned(),
        replicas: 2,
        replica_requirements: None,
    };
    let revised = || changed(object.clone(), "/spec/replicas", json!(5));
    vec![
        (
            Request::Replica { object },
            Response::Replica {
                replicas: 3,
                requirements: None,
            },
        ),
        (
            Request::Component { object },
            Response::Components(vec![component]),
        ),
        (
            Request::Revise {
                object,
                replicas: 5,
            },
            Response::Revised(revised()),
        ),
        (
            Request::Retain {
                desired: object,
                observed,
            },
            Response::Retained(revised()),
        ),
        (
            Request::AggregateStatus { object, items },
            Response::AggregatedStatus(changed(object.clone(), "/status/readyReplicas", json!(7))),
        ),
        (
            Request::Status { object },
            Response::Status(json!({"readyReplicas": 2})),
        ),
        (
            Request::Health { object },
            Response::Health {
                assessment: health::from_boolean(object, false),
                healthy: false,
            },
        ),
        (
            Request::Dependency { object },
            Response::Dependencies(vec![dependency]),
        ),
        (
            Request::Prune { object },
            Response::Pruned(changed(object.clone(), "/status", json!({}))),
        ),
    ]
}

#[tokio::test]
async fn every_operation_is_asked_and_answered_in_both_dialects() {
    let (object, observed) = (workload(), workload());
    let items = [AggregatedStatusItem {
        cluster_name: "one".to_owned(),
        status: Some(json!({"readyReplicas": 7})),
        applied: true,
        health: "Healthy".to_owned(),
        ..AggregatedStatusItem::default()
    }];
    let server = Server::start(&Authority::new(&NAMES), |received| {
        let review = received.review();
        let none: Vec<AggregatedStatusItem> = Vec::new();
        let observed = review.observed_object.clone().unwrap_or_default();
        let table = table(&review.object, &observed, &none);
        let found = table
            .into_iter()
            .find(|(request, _)| request.operation() == review.operation);
        let response = ReviewResponse::Answer(found.unwrap().1);
        Reply::Raw(answer(received, &response))
    })
    .await;
    let client = client();
    let ca_bundle = base64(&server.ca_pem);
    let url = format!("https://{}/", server.address);
    for dialect in Dialect::ALL {
        let webhook = webhook(dialect, &json!({"url": url, "caBundle": ca_bundle}));
        let mut asked = 0;
        for (request, expected) in table(&object, &observed, &items) {
            let operation = request.operation();
            let result = client.call(&webhook, &request).await;
            if dialect.operation_name(operation).is_none() {
                result.unwrap_err();
                continue;
            }
            asked += 1;
            assert_eq!(result.unwrap(), expected, "{dialect:?} {operation}");
            let review = server.last().review();
            assert_eq!((review.dialect, review.operation), (dialect, operation));
            assert_eq!(review.request().unwrap().operation(), operation);
        }
        assert_eq!(asked, dialect.operation_names().count());
        assert!(asked >= Operation::ALL.len() - 1);
    }
}

/// Run with `cargo test --release -p fleetdex-webhooks -- --ignored --nocapture calls_per_second`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn calls_per_second_and_their_latency() {
    const CALLS: usize = 20_000;
    let server = Server::start(&Authority::new(&NAMES), answers_healthy).await;
    let (client, webhook) = (Arc::new(client()), Arc::new(by_url(&server)));
    let begun = std::time::Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..crate::limits::CALLS_OF_WEBHOOK {
        let (client, webhook) = (Arc::clone(&client), Arc::clone(&webhook));
        workers.spawn(async move {
            let mut took = Vec::new();
            for _ in 0..CALLS / crate::limits::CALLS_OF_WEBHOOK {
                let call = std::time::Instant::now();
                health_of(&client, &webhook).await.unwrap();
                took.push(call.elapsed());
            }
            took
        });
    }
    let mut took: Vec<Duration> = workers.join_all().await.into_iter().flatten().collect();
    took.sort();
    let rate = took
        .len()
        .checked_div(begun.elapsed().as_millis() as usize)
        .unwrap_or_default()
        * 1000;
    let percentile = |percent: usize| took[took.len() * percent / 100];
    println!(
        "{rate} calls/s, p50 {:?}, p99 {:?}, connections {}",
        percentile(50),
        percentile(99),
        server.connections.load(Ordering::Relaxed)
    );
    assert!(rate >= 1000 && percentile(99) <= Duration::from_millis(100));
}
