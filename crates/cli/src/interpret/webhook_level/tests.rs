use std::{sync::Arc, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fleetdex_interpreter::webhook::configuration::WebhookConfiguration;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::{super::webhook_call::HttpsCaller, *};

const SERVICE_HOST: &str = "workloads.web.svc";

/// How a server answers a message.
#[derive(Clone)]
enum Answer {
    /// With this status and body, in which `UID` stands for the one of the message.
    Http(&'static str, String),
    /// With these bytes, and then nothing.
    Raw(String),
    /// Never.
    Hang,
}

/// A server with a certificate for a host, signed by an authority of its own.
struct TlsServer {
    port: u16,
    ca_pem: String,
    requests: JoinHandle<Vec<String>>,
}

impl TlsServer {
    /// Answers `count` connections.
    async fn start(host: &str, count: usize, answer: Answer) -> Self {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (ca_pem, config) = certified(host);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let requests = tokio::spawn(async move {
            let mut requests = Vec::new();
            for _ in 0..count {
                let (stream, _) = listener.accept().await.unwrap();
                if let Ok(mut stream) = acceptor.accept(stream).await {
                    let request = read_request(&mut stream).await;
                    respond(&mut stream, &request, &answer).await;
                    requests.push(request);
                }
            }
            requests
        });
        Self {
            port,
            ca_pem,
            requests,
        }
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }
}

/// The authority, and a server's configuration with a certificate that it signed.
fn certified(host: &str) -> (String, ServerConfig) {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![host.to_owned()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::clone(certificate.der())], key)
        .unwrap();
    (ca_pem, config)
}

async fn read_request(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.unwrap();
        bytes.extend_from_slice(&piece[..length]);
        let text = String::from_utf8_lossy(&bytes);
        let is_whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.split("\r\n").next()?.parse().ok());
            length.is_some_and(|length: usize| body.len() >= length)
        });
        if is_whole || length == 0 {
            return text.into_owned();
        }
    }
}

fn body(request: &str) -> Value {
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}

async fn respond(stream: &mut TlsStream<TcpStream>, request: &str, answer: &Answer) {
    let text = match answer {
        Answer::Hang => {
            std::future::pending::<()>().await;
            return;
        }
        Answer::Raw(text) => text.clone(),
        Answer::Http(status, text) => {
            let uid = body(request)["request"]["uid"].as_str().unwrap().to_owned();
            let text = text.replace("UID", &uid);
            format!(
                "HTTP/1.1 {status}\r\nContent-Length: {}\r\nLocation: https://localhost/\r\n\r\n{text}",
                text.len()
            )
        }
    };
    // A client that has seen enough hangs up.
    drop(stream.write_all(text.as_bytes()).await);
    drop(stream.shutdown().await);
}

fn webhook(kind: &str, client_config: &Value, ca_pem: Option<&str>) -> Webhook {
    let mut client_config = client_config.clone();
    if let Some(pem) = ca_pem {
        client_config["caBundle"] = STANDARD.encode(pem).into();
    }
    let configuration = json!({
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": "hooks"},
        "webhooks": [{
            "name": "a.example.io",
            "clientConfig": client_config,
            "interpreterContextVersions": ["v1alpha1"],
            "exploreReviewVersions": ["v1alpha1"],
            "timeoutSeconds": 1,
        }],
    });
    WebhookConfiguration::parse(&configuration)
        .unwrap()
        .webhooks
        .remove(0)
}

fn of_service(ca_pem: &str) -> Webhook {
    let service = json!({"service": {"namespace": "web", "name": "workloads", "path": "/interpret", "port": 8443}});
    webhook(
        "ResourceInterpreterWebhookConfiguration",
        &service,
        Some(ca_pem),
    )
}

fn foo() -> Value {
    json!({"apiVersion": "example.io/v1", "kind": "Foo", "metadata": {"name": "a"}})
}

async fn asked(webhook: &Webhook, address: Option<SocketAddr>) -> Result<Response, String> {
    let connector = WebhookConnector {
        caller: HttpsCaller,
        address,
    };
    ask(webhook, &Request::Health { object: &foo() }, &connector).await
}

fn good() -> Answer {
    let text = r#"{"response": {"uid": "UID", "successful": true, "healthy": true}}"#;
    Answer::Http("200 OK", text.to_owned())
}

#[tokio::test]
async fn a_url_is_called_over_tls() {
    let server = TlsServer::start("localhost", 1, good()).await;
    let url = json!({"url": format!("https://localhost:{}/interpret-foo", server.port)});
    for kind in ["ResourceExploringWebhookConfiguration"] {
        let response = asked(&webhook(kind, &url, Some(&server.ca_pem)), None).await;
        assert!(
            matches!(response, Ok(Response::Health { healthy: true, .. })),
            "{response:?}"
        );
    }
    let requests = server.requests.await.unwrap();
    let head = requests[0].to_lowercase();
    assert!(
        head.starts_with("post /interpret-foo?timeout=1s http/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.contains("\r\ncontent-type: application/json\r\n"),
        "{head}"
    );
    assert_eq!(body(&requests[0])["request"]["operation"], "ExploreHealthy");
}

#[tokio::test]
async fn a_service_is_called_at_another_address_under_its_own_name() {
    let server = TlsServer::start(SERVICE_HOST, 1, good()).await;
    let response = asked(&of_service(&server.ca_pem), Some(server.address())).await;
    assert!(response.is_ok(), "{response:?}");
    let requests = server.requests.await.unwrap();
    assert!(requests[0].starts_with("POST /interpret?timeout=1s HTTP/1.1\r\n"));
    assert!(
        requests[0].contains(SERVICE_HOST),
        "the header Host: {}",
        requests[0]
    );
}

#[tokio::test]
async fn a_certificate_of_another_authority_or_host_is_refused() {
    let (other_ca, _) = certified(SERVICE_HOST);
    let server = TlsServer::start(SERVICE_HOST, 1, good()).await;
    let error = asked(&of_service(&other_ca), Some(server.address()))
        .await
        .unwrap_err();
    assert!(error.contains("certificate"), "{error}");
    let server = TlsServer::start("localhost", 1, good()).await;
    let error = asked(&of_service(&server.ca_pem), Some(server.address()))
        .await
        .unwrap_err();
    assert!(error.contains("certificate"), "{error}");
}

#[tokio::test]
async fn an_unusable_bundle_is_said() {
    let error = asked(&of_service("no PEM"), None).await.unwrap_err();
    assert!(error.starts_with("caBundle: "), "{error}");
}

#[tokio::test]
async fn every_failure_has_a_reason() {
    let long = "x".repeat(17 << 20);
    for (answer, reason) in [
        (
            Answer::Http("500 Internal Server Error", String::new()),
            "the server answered 500",
        ),
        (
            Answer::Http("429 Too Many Requests", String::new()),
            "the server answered 429",
        ),
        (
            Answer::Http("302 Found", String::new()),
            "the server answered 302",
        ),
        (
            Answer::Http("200 OK", "no JSON".to_owned()),
            "cannot be read",
        ),
        (Answer::Http("200 OK", long), "more than 16 MiB"),
        (
            Answer::Raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_owned()),
            "",
        ),
        (Answer::Raw("nonsense\r\n\r\n".to_owned()), ""),
        (Answer::Hang, "no answer within 1 s"),
    ] {
        let server = TlsServer::start(SERVICE_HOST, 1, answer).await;
        let error = asked(&of_service(&server.ca_pem), Some(server.address()))
            .await
            .unwrap_err();
        assert!(
            !error.is_empty() && error.contains(reason),
            "{reason}: {error}"
        );
        server.requests.abort();
    }
}

#[tokio::test]
async fn a_service_that_cannot_be_reached_says_how_to_reach_it() {
    let error = asked(&of_service(&certified("x").0), None)
        .await
        .unwrap_err();
    assert!(
        error.contains("--webhook-address localhost:8443"),
        "{error}"
    );
}

#[tokio::test]
async fn a_webhook_that_can_never_be_called_says_why() {
    let insecure = json!({"url": "http://localhost/"});
    let error = asked(
        &webhook("ResourceInterpreterWebhookConfiguration", &insecure, None),
        None,
    )
    .await
    .unwrap_err();
    assert!(error.contains("webhooks[0].clientConfig.url"), "{error}");
}

#[test]
fn an_address_is_a_host_and_a_port() {
    assert_eq!(resolve("127.0.0.1:8443").unwrap().port(), 8443);
    assert!(
        resolve("127.0.0.1")
            .unwrap_err()
            .starts_with("--webhook-address \"127.0.0.1\": ")
    );
    let timeout: Duration =
        webhook("ResourceInterpreterWebhookConfiguration", &json!({}), None).timeout;
    assert_eq!(timeout, Duration::from_secs(1));
}

#[test]
fn each_message_has_another_uid() {
    let (first, second) = (uid(), uid());
    assert_ne!(first, second);
    assert!(uuid::parse(&first).is_some(), "{first}");
    assert_eq!(&first[14..15], "4");
}
