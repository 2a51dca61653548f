//! HTTP clients with their pools of connections: one for each server and each set of certificates
//! to trust.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use fleetdex_core::model::causes;
use parking_lot::Mutex;
use reqwest::{
    Certificate, Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect, retry,
};
use sha2::{Digest, Sha256};

use super::{endpoint::WebhookDestination, error::CallFailure, slots::MAX_CALLS_OF_WEBHOOK};
use crate::service::SocketTarget;

/// Clients that are kept, as many as Karmada keeps.
pub const MAX_CLIENTS: usize = 200;
const AGENT: &str = concat!("fleetdex/", env!("CARGO_PKG_VERSION"));
/// How long a connection is kept without a call. Servers commonly close them after a minute or
/// more.
const IDLE: Duration = Duration::from_secs(30);
/// Interval of TCP keepalive probes.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// A server, and a hash of the certificates that it is checked against.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClientKey {
    server: String,
    connect: Option<SocketTarget>,
    ca_bundle: Option<[u8; 32]>,
}

#[derive(Default)]
pub(super) struct Connections(Mutex<Clients>);

#[derive(Default)]
struct Clients {
    clients: BTreeMap<ClientKey, UsedClient>,
    uses: u64,
}

struct UsedClient {
    client: Client,
    last_use: u64,
}

impl Connections {
    /// The client for a destination whose certificate is checked against these in PEM, or else
    /// against those of the system.
    pub(super) fn client(
        &self,
        destination: &WebhookDestination,
        ca_bundle: Option<&[u8]>,
    ) -> Result<Client, CallFailure> {
        let key = ClientKey {
            server: destination.url.authority().to_owned(),
            connect: destination.connect.clone(),
            ca_bundle: ca_bundle.map(|pem| Sha256::digest(pem).into()),
        };
        if let Some(client) = self.0.lock().find(&key) {
            return Ok(client);
        }
        // Without the lock: the system's certificates are read from files.
        let client = build(key.connect.as_ref(), ca_bundle)?;
        self.0.lock().keep(key, client.clone());
        Ok(client)
    }
}

impl Clients {
    fn find(&mut self, key: &ClientKey) -> Option<Client> {
        self.uses += 1;
        let found = self.clients.get_mut(key)?;
        found.last_use = self.uses;
        Some(found.client.clone())
    }

    fn keep(&mut self, key: ClientKey, client: Client) {
        let last_use = self.uses;
        self.clients.insert(key, UsedClient { client, last_use });
        if self.clients.len() <= MAX_CLIENTS {
            return;
        }
        let oldest = self.clients.iter().min_by_key(|(_, used)| used.last_use);
        if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
            self.clients.remove(&oldest);
        }
    }
}

fn build(connect: Option<&SocketTarget>, ca_bundle: Option<&[u8]>) -> Result<Client, CallFailure> {
    let unusable = |reason: &str| CallFailure::Endpoint(reason.to_owned());
    let mut builder = Client::builder()
        .user_agent(AGENT)
        .https_only(true)
        .http1_only()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .tcp_keepalive(KEEPALIVE)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MAX_CALLS_OF_WEBHOOK);
    if let Some(pem) = ca_bundle {
        let certificates = Certificate::from_pem_bundle(pem)
            .map_err(|error| unusable(&format!("clientConfig.caBundle: {}", causes(&error))))?;
        if certificates.is_empty() {
            return Err(unusable("clientConfig.caBundle holds no PEM certificate"));
        }
        builder = builder.tls_certs_only(certificates);
    }
    if let Some(target) = connect {
        builder = builder.dns_resolver(FixedHost(target.host.clone()));
    }
    builder
        .build()
        .map_err(|error| unusable(&format!("clientConfig: {}", causes(&error))))
}

/// Connects to this host whatever name the URL has.
struct FixedHost(String);

impl Resolve for FixedHost {
    fn resolve(&self, _name: Name) -> Resolving {
        let host = self.0.clone();
        Box::pin(async move {
            // The port is that of the URL.
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            if found.is_empty() {
                return Err(io::Error::other(format!("{host} has no address")).into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(port: u16) -> WebhookDestination {
        WebhookDestination {
            url: format!("https://localhost:{port}/").parse().unwrap(),
            host_header: None,
            connect: Some(SocketTarget {
                host: "127.0.0.1".to_owned(),
                port,
            }),
        }
    }

    fn ca() -> String {
        let key = rcgen::KeyPair::generate().unwrap();
        rcgen::CertificateParams::default()
            .self_signed(&key)
            .unwrap()
            .pem()
    }

    #[test]
    fn clients_are_bounded_and_the_one_that_was_used_longest_ago_goes_first() {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (connections, ca) = (Connections::default(), ca());
        for port in 1..=300 {
            connections
                .client(&destination(port), Some(ca.as_bytes()))
                .unwrap();
            connections
                .client(&destination(1), Some(ca.as_bytes()))
                .unwrap();
        }
        let clients = connections.0.lock();
        assert_eq!(clients.clients.len(), MAX_CLIENTS);
        let ports: Vec<u16> = clients
            .clients
            .keys()
            .map(|key| key.connect.as_ref().unwrap().port)
            .collect();
        assert!(ports.contains(&1) && !ports.contains(&2) && ports.contains(&300));
    }

    #[test]
    fn a_ca_bundle_without_a_certificate_is_named() {
        let _first = rustls::crypto::aws_lc_rs::default_provider().install_default();
        for pem in [
            "",
            "x",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            let failure = build(None, Some(pem.as_bytes())).unwrap_err().to_string();
            assert!(failure.contains("clientConfig"), "{failure}");
        }
    }
}
