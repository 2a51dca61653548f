//! Over real TLS.

use std::{fs, net::SocketAddr, path::Path, time::Duration};

use axum::{Router, routing::get};
use fleetdex_interpreter::{
    Request,
    webhook::{Dialect, decode},
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Client, header::CONTENT_TYPE};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    sync::Notify,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{asked, workload};
use crate::{CertificateFiles, Interpreter, InterpreterResult, WebhookServer, router};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

struct Unhealthy;

impl Interpreter for Unhealthy {
    type Object = Value;

    async fn interpret_health(&self, _: &Value) -> InterpreterResult<bool> {
        Ok(false)
    }
}

/// Writes a certificate for `localhost` of a new authority; the authority.
fn certify(folder: &Path) -> String {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::default();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_pem = ca.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().unwrap();
    let server = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = server.signed_by(&key, &issuer).unwrap();
    fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
    fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    ca_pem
}

fn files(folder: &Path) -> CertificateFiles {
    CertificateFiles {
        certificate: folder.join("tls.crt"),
        key: folder.join("tls.key"),
    }
}

fn client(authority: &str) -> Client {
    let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .timeout(PATIENCE)
        .tls_certs_only([Certificate::from_pem(authority.as_bytes()).unwrap()])
        .build()
        .unwrap()
}

struct Running {
    folder: TempDir,
    authority: String,
    address: SocketAddr,
    shutdown: CancellationToken,
    server: JoinHandle<()>,
}

impl Running {
    async fn start(routes: Router) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let authority = certify(folder.path());
        let any = "127.0.0.1:0".parse().unwrap();
        let server = WebhookServer::bind(any, files(folder.path()))
            .await
            .unwrap();
        let server = server.reloading_every(Duration::from_millis(20));
        let (address, shutdown) = (server.address(), CancellationToken::new());
        Self {
            folder,
            authority,
            address,
            server: tokio::spawn(server.serve(routes, shutdown.clone())),
            shutdown,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("https://localhost:{}{path}", self.address.port())
    }

    /// Waits until the server shows a certificate of an authority.
    async fn until_trusted(&self, authority: &str) {
        let until = async {
            while client(authority)
                .get(self.url("/healthz"))
                .send()
                .await
                .is_err()
            {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, until).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_over_tls() {
    let running = Running::start(router(Unhealthy)).await;
    let client = client(&running.authority);
    let object = workload();
    let request = Request::Health { object: &object };
    for dialect in Dialect::ALL {
        let response = client
            .post(running.url("/interpret"))
            .header(CONTENT_TYPE, "application/json")
            .body(asked(dialect, &request))
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        let body = response.bytes().await.unwrap();
        let response = decode(dialect, "u-1", &request, &body).unwrap();
        assert!(
            matches!(
                response,
                fleetdex_interpreter::Response::Health { healthy: false, .. }
            ),
            "{response:?}"
        );
    }
    // Idle connections and handshakes that do not go on do not hold up the end.
    let _idle = TcpStream::connect(running.address).await.unwrap();
    running.shutdown.cancel();
    timeout(PATIENCE, running.server).await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_that_is_replaced_is_used() {
    let running = Running::start(router(Unhealthy)).await;
    let first = running.authority.clone();
    running.until_trusted(&first).await;
    // Until both files are there, the previous certificate stays.
    fs::write(running.folder.path().join("tls.key"), "no key").unwrap();
    sleep(Duration::from_millis(100)).await;
    running.until_trusted(&first).await;
    let second = certify(running.folder.path());
    running.until_trusted(&second).await;
    let refused = client(&first).get(running.url("/healthz")).send().await;
    assert!(refused.is_err());
    running.shutdown.cancel();
    timeout(PATIENCE, running.server).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_under_way_is_finished_at_shutdown() {
    static STARTED: Notify = Notify::const_new();
    static GO_ON: Notify = Notify::const_new();
    let slow = get(|| async {
        STARTED.notify_one();
        GO_ON.notified().await;
        "done"
    });
    let running = Running::start(Router::new().route("/slow", slow)).await;
    let request = client(&running.authority).get(running.url("/slow")).send();
    let answered = tokio::spawn(request);
    timeout(PATIENCE, STARTED.notified()).await.unwrap();
    running.shutdown.cancel();
    GO_ON.notify_one();
    let response = timeout(PATIENCE, answered).await.unwrap().unwrap().unwrap();
    assert_eq!(response.text().await.unwrap(), "done");
    timeout(PATIENCE, running.server).await.unwrap().unwrap();
}

#[tokio::test]
async fn files_without_a_certificate_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let error = async || match WebhookServer::bind(any, files(folder.path())).await {
        Ok(_) => panic!("served without a certificate"),
        Err(error) => error.to_string(),
    };
    assert!(error().await.starts_with("cannot read "));
    certify(folder.path());
    let other_key = KeyPair::generate().unwrap().serialize_pem();
    for (file, content) in [
        ("tls.key", other_key.as_str()),
        ("tls.key", ""),
        ("tls.crt", "x"),
    ] {
        fs::write(folder.path().join(file), content).unwrap();
        let error = error().await;
        assert!(
            error.contains("hold no certificate with its key"),
            "{error}"
        );
    }
}
