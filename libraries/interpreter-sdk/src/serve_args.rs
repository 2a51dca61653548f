//! The command line of a webhook.

use std::{net::SocketAddr, path::PathBuf};

use axum::Router;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{
    certificate::CertificateFiles,
    server::{ServeError, WebhookServer},
};

/// Where a webhook is served. Parse it, or flatten it into the arguments of your own.
#[derive(Clone, Debug, Parser)]
#[command(about = "Serves a resource interpreter webhook over TLS", long_about = None)]
pub struct ServeArgs {
    /// Address and port to serve on
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0.0.0.0:8443",
        env = "INTERPRETER_ADDRESS"
    )]
    pub address: SocketAddr,

    /// PEM file with the certificate; read again when it changes
    #[arg(long, value_name = "FILE", env = "INTERPRETER_TLS_CERT_FILE")]
    pub tls_cert_file: PathBuf,

    /// PEM file with the certificate's key; read again when it changes
    #[arg(long, value_name = "FILE", env = "INTERPRETER_TLS_PRIVATE_KEY_FILE")]
    pub tls_private_key_file: PathBuf,
}

impl ServeArgs {
    /// Serves a router until SIGTERM or SIGINT, and answers the requests under way.
    pub async fn serve(self, router: Router) -> Result<(), ServeError> {
        let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
        let files = CertificateFiles {
            certificate: self.tls_cert_file,
            key: self.tls_private_key_file,
        };
        let server = WebhookServer::bind(self.address, files).await?;
        let shutdown = CancellationToken::new();
        let signalled = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            shutdown.cancel();
        };
        tokio::join!(server.serve(router, shutdown.clone()), signalled);
        Ok(())
    }
}
