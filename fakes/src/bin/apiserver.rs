//! Serves fake API servers with generated pods in a separate process, for benchmarks that must not
//! measure real ones.

use std::{fs, io::Write, net::SocketAddr, path::PathBuf, sync::Arc};

use anyhow::{Context, Result};
use clap::Parser;
use fakes::apiserver::{Churn, Options, Server, serve, usual_resources};
use fleetdex_core::model::{Gvk, Resource};
use rustls::{ServerConfig, crypto::aws_lc_rs, pki_types::PrivateKeyDer};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_rustls::TlsAcceptor;

/// The group of the additional kinds.
const GROUP: &str = "bench.example.com";

/// Serves the Kubernetes API: generated pods, and writes to them at a rate. Tokens are not checked.
///
/// Prints one line of JSON per cluster when it is ready: the URL, the number of pods, the UID of
/// the namespace kube-system.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of clusters, each with its own address; with more than one, all of them use free
    /// ports.
    #[arg(long, default_value_t = 1)]
    clusters: u32,
    /// Number of additional kinds without objects: Kind0, Kind1, … of bench.example.com/v1.
    #[arg(long, default_value_t = 0)]
    kinds: u32,
    /// Number of objects of each additional kind, in each cluster.
    #[arg(long, default_value_t = 0)]
    kind_objects: u32,
    /// Serves over TLS, with a self-signed certificate, and offers HTTP/2.
    #[arg(long)]
    tls: bool,
    /// File for the same lines, written once all clusters are ready.
    #[arg(long)]
    ready_file: Option<PathBuf>,
    /// Number of pods per cluster.
    #[arg(long, default_value_t = 20_000)]
    objects: u32,
    /// Listen address; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Initial writes per second in each cluster. `POST /churn?rate=<n>` changes the rate and
    /// returns the totals of the writes.
    #[arg(long, default_value_t = 0)]
    churn: u32,
    /// Seed of the pods and their UIDs.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Number of events in the watch cache.
    #[arg(long, default_value_t = 100_000)]
    cached_events: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let tls = arguments.tls.then(acceptor).transpose()?;
    let scheme = if arguments.tls { "https" } else { "http" };
    let mut running = JoinSet::new();
    let mut lines = String::new();
    for number in 0..arguments.clusters {
        let address = if arguments.clusters > 1 {
            SocketAddr::new(arguments.listen.ip(), 0)
        } else {
            arguments.listen
        };
        let listener = TcpListener::bind(address)
            .await
            .with_context(|| format!("listening on {address}"))?;
        let address = listener.local_addr().context("looking for the address")?;
        let (server, churn) = cluster(&arguments, arguments.seed.wrapping_add(number))?;
        let ready = json!({ "url": format!("{scheme}://{address}"), "objects": arguments.objects, "identity": server.identity() });
        lines.push_str(&ready.to_string());
        lines.push('\n');
        running.spawn(run(listener, tls.clone(), server, churn));
    }
    std::io::stdout()
        .write_all(lines.as_bytes())
        .context("printing the addresses")?;
    if let Some(path) = &arguments.ready_file {
        // The rename is atomic: a reader never sees a partial file.
        let partial = path.with_extension("partial");
        fs::write(&partial, &lines)
            .and_then(|()| fs::rename(&partial, path))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    match running.join_next().await {
        Some(ended) => ended.context("a server")?,
        None => Ok(()),
    }
}

fn cluster(arguments: &Arguments, seed: u32) -> Result<(Server, Churn)> {
    let kind = |number: u32| Resource {
        gvk: Gvk::new(GROUP, "v1", &format!("Kind{number}")),
        plural: format!("kind{number}s").into(),
        namespaced: true,
    };
    let resources = usual_resources()
        .into_iter()
        .chain((0..arguments.kinds).map(kind))
        .collect();
    let options = Options {
        cached_events: arguments.cached_events,
        resources,
        ..Options::new(seed.into())
    };
    let server = Server::new(options);
    let churn = Churn::fill(&server, arguments.objects, seed)?;
    for kind in 0..arguments.kinds {
        for number in 0..arguments.kind_objects {
            server.apply(&format!("kind{kind}s.{GROUP}"), object(kind, number))?;
        }
    }
    churn.set_rate(arguments.churn);
    Ok((server, churn))
}

/// An object of an additional kind: about 700 bytes.
fn object(kind: u32, number: u32) -> Value {
    let application = format!("application-{:02}", number % 20);
    json!({
        "metadata": {
            "name": format!("object-{number:05}"),
            "namespace": "default",
            "labels": { "app": application, "kind": format!("kind-{kind}") },
            "annotations": { "example.com/checksum": format!("{:064x}", u64::from(kind) << 32 | u64::from(number)) },
        },
        "spec": {
            "selector": { "matchLabels": { "app": application } },
            "template": { "containers": [{ "name": "main", "image": format!("registry.example.com/{application}:1.{number}") }] },
            "replicas": number % 5,
        },
        "status": { "phase": "Ready", "observedGeneration": 1, "readyReplicas": number % 5 },
    })
}

/// TLS with a certificate of its own for 127.0.0.1.
fn acceptor() -> Result<TlsAcceptor> {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])
        .context("making a certificate")?;
    let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(vec![certified.cert.der().clone()], key)
        })
        .context("TLS")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn run(
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    server: Server,
    churn: Churn,
) -> Result<()> {
    let has_pods = churn.totals().pods > 0;
    tokio::select! {
        served = serve(listener, tls, server, churn.clone()) => served.context("accepting connections"),
        // Without pods there is nothing to write, and thousands of clusters need no clock each.
        written = churn.run(), if has_pods => written.context("writing"),
    }
}
