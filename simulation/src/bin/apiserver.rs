//! A simulated apiserver in a process of its own, full of pods, for benchmarks that must not measure a real one.

use std::io::Write;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use clap::Parser;
use serde_json::json;
use simulation::apiserver::{Churn, Options, Server, serve};
use tokio::net::TcpListener;

/// Serves the Kubernetes API over plain HTTP: generated pods, and writes to them at a rate. Tokens are not looked at.
///
/// Prints one line of JSON when it is ready: the URL, the number of pods, the UID of the namespace kube-system.
#[derive(Debug, Parser)]
struct Arguments {
    /// How many pods there are.
    #[arg(long, default_value_t = 20_000)]
    objects: u32,
    /// Where it listens; with port 0 on a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Writes per second from the start. `POST /churn?rate=<n>` changes that later and tells what was written.
    #[arg(long, default_value_t = 0)]
    churn: u32,
    /// Other pods, other UIDs.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// How many events the watch cache holds.
    #[arg(long, default_value_t = 100_000)]
    cached_events: usize,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let options = Options { cached_events: arguments.cached_events, ..Options::new(arguments.seed.into()) };
    let server = Server::new(options);
    let churn = Churn::fill(&server, arguments.objects, arguments.seed)?;
    churn.set_rate(arguments.churn);
    let listener = TcpListener::bind(arguments.listen).await.with_context(|| format!("listening on {}", arguments.listen))?;
    let address = listener.local_addr().context("looking for the address")?;
    let ready = json!({ "url": format!("http://{address}"), "objects": arguments.objects, "identity": server.identity() });
    writeln!(std::io::stdout(), "{ready}").context("printing the address")?;
    tokio::select! {
        served = serve(listener, server, churn.clone()) => served.context("accepting connections"),
        written = churn.run() => written.context("writing"),
    }
}
