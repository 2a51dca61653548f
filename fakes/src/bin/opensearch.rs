//! Serves the simulated OpenSearch in a separate process, for benchmarks of many clusters: a real
//! one would need more memory for their indices than the rest of the machine has.

use std::{io::Write, net::SocketAddr};

use anyhow::{Context, Result};
use clap::Parser;
use fakes::opensearch::{OpenSearch, serve};
use tokio::net::TcpListener;

/// Serves the simulated OpenSearch over plain HTTP, without latency and without authentication.
///
/// Prints its URL when it is ready.
#[derive(Debug, Parser)]
struct Arguments {
    /// Listen address; port 0 selects a free port.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let listener = TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("listening on {}", arguments.listen))?;
    let address = listener.local_addr().context("looking for the address")?;
    writeln!(std::io::stdout(), "http://{address}").context("printing the address")?;
    let server = OpenSearch::new(1);
    server.set_latency(0..=0);
    serve(listener, server)
        .await
        .context("accepting connections")
}
