//! Why a node of OpenSearch gives no answer, and what to change in the registry.

use std::error::Error;

use bytes::Bytes;
use fleetdex_core::model::causes;
use fleetdex_tls::TlsFailure;
use http::Response;
use reqwest::Url;

/// What is configured of the connections to a store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConnectionSetup {
    /// Whether a `caBundle` is set.
    pub has_ca_bundle: bool,
    /// Whether there is a client certificate.
    pub has_client_certificate: bool,
    /// Whether a proxy is in front of the nodes.
    pub is_proxied: bool,
}

/// What is wrong with the connection to the node at `url`, and what to do if that is known.
pub(crate) fn connection_fault(
    error: &(dyn Error + 'static),
    url: &Url,
    setup: ConnectionSetup,
) -> String {
    let failure = TlsFailure::of(error).filter(|failure| is_about_scheme(failure, url));
    let Some(failure) = failure else {
        return causes(error);
    };
    let mut server = host_and_port(url);
    if setup.is_proxied {
        server.push_str(" (or of the proxy)");
    }
    format!(
        "{}: {}",
        failure.description(&server),
        advice(&failure, setup)
    )
}

/// What is wrong if a response says that the node at `url` expects TLS.
pub(crate) fn plain_http_fault(response: &Response<Bytes>, url: &Url) -> Option<String> {
    if url.scheme() != "http" {
        return None;
    }
    let failure = TlsFailure::of_response(response.status(), response.body())?;
    let description = failure.description(&host_and_port(url));
    let advice = advice(&failure, ConnectionSetup::default());
    Some(format!("{description}: {advice}"))
}

/// Over TLS, an answer that is cut off says nothing about TLS.
fn is_about_scheme(failure: &TlsFailure, url: &Url) -> bool {
    let is_of_plain_http = matches!(failure, TlsFailure::NotHttp | TlsFailure::Closed);
    !is_of_plain_http || url.scheme() == "http"
}

fn host_and_port(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port_or_known_default() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn advice(failure: &TlsFailure, setup: ConnectionSetup) -> &'static str {
    match failure {
        TlsFailure::UnknownAuthority { .. } if setup.has_ca_bundle => {
            "add the PEM certificate of that authority to backendStore.openSearch.caBundle"
        }
        TlsFailure::UnknownAuthority { .. } => {
            "set backendStore.openSearch.caBundle to the PEM certificate of that authority"
        }
        TlsFailure::Expired { .. } => "renew it on the nodes of OpenSearch",
        TlsFailure::NotYetValid { .. } => {
            "check the clocks of this machine and of the one that issued it, or wait"
        }
        TlsFailure::OtherName { .. } => {
            "use a name that it has in backendStore.openSearch.addresses, or issue one that has this name as a subjectAltName"
        }
        TlsFailure::Certificate(_) => "issue another one for the nodes of OpenSearch",
        TlsFailure::ClientCertificateRefused(_) if setup.has_client_certificate => {
            "put a certificate that OpenSearch accepts into the Secret of backendStore.openSearch.clientCertSecretRef"
        }
        TlsFailure::ClientCertificateRequired | TlsFailure::ClientCertificateRefused(_) => {
            "name a Secret with tls.crt and tls.key in backendStore.openSearch.clientCertSecretRef"
        }
        TlsFailure::PlainText => {
            "write http:// in backendStore.openSearch.addresses, or enable TLS for HTTP in OpenSearch"
        }
        TlsFailure::TlsExpected => "write https:// in backendStore.openSearch.addresses",
        TlsFailure::NotHttp | TlsFailure::Closed => {
            "if this port expects TLS, write https:// in backendStore.openSearch.addresses"
        }
        TlsFailure::HandshakeClosed => {
            "if this port does not speak TLS, write http:// in backendStore.openSearch.addresses"
        }
        TlsFailure::Handshake(_) => "check the TLS settings of OpenSearch",
    }
}

#[cfg(test)]
mod tests;
