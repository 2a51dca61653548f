//! HTTP clients that trust exactly one certificate authority.

use std::time::Duration;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

/// Makes aws-lc-rs the process-wide provider of rustls.
pub fn install_tls_provider() {
    // An error means that another thread has installed it already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}

/// A client that ignores proxies, and trusts nothing but `ca_pem`. Its requests time out after 30
/// s.
///
/// Clients are cheap here and belong to the async runtime that made them: make one per test.
pub fn client(ca_pem: Option<&str>) -> Result<reqwest::Client> {
    builder(ca_pem)?.build().context("making an HTTP client")
}

/// As [`client`], but it asks for no compression and leaves bodies as they were sent.
pub fn plain_client(ca_pem: Option<&str>) -> Result<reqwest::Client> {
    builder(ca_pem)?
        .no_gzip()
        .build()
        .context("making an HTTP client")
}

/// As [`client`], with a client certificate (PEM, certificate and key in one text).
pub fn client_with_certificate(ca_pem: &str, certificate_and_key: &str) -> Result<reqwest::Client> {
    let identity = reqwest::Identity::from_pem(certificate_and_key.as_bytes())
        .context("reading a client certificate")?;
    builder(Some(ca_pem))?
        .identity(identity)
        .build()
        .context("making an HTTP client")
}

/// The JSON that is behind a URL, without credentials.
pub async fn json<T: DeserializeOwned>(url: &str) -> Result<T> {
    let response = client(None)?.get(url).send().await?;
    Ok(response.error_for_status()?.json().await?)
}

fn builder(ca_pem: Option<&str>) -> Result<reqwest::ClientBuilder> {
    install_tls_provider();
    let trusted = match ca_pem {
        Some(pem) => vec![
            reqwest::Certificate::from_pem(pem.as_bytes()).context("reading a CA certificate")?,
        ],
        None => Vec::new(),
    };
    let builder = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(30));
    Ok(builder.tls_certs_only(trusted))
}
