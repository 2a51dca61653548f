//! The question where a Service is reached, and the answers that need no API server.

use std::net::SocketAddr;

use async_trait::async_trait;

/// A host, which is a name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketTarget {
    /// The host.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A Service that cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServiceError {
    /// It has no such port.
    #[error("Service {service} has no port {port}; it has {}", if ports.is_empty() { "none" } else { ports })]
    Port {
        /// Its namespace and name.
        service: String,
        /// The port of the webhook.
        port: u16,
        /// The ports that it has.
        ports: String,
    },
    /// It is headless.
    #[error("Service {0} is headless, and a webhook needs one with a clusterIP")]
    Headless(String),
    /// Its type is unknown.
    #[error("Service {service} is of the unknown type \"{found}\"")]
    Type {
        /// Its namespace and name.
        service: String,
        /// The type.
        found: String,
    },
    /// It could not be read.
    #[error("cannot read Service {service}: {reason}")]
    Unreadable {
        /// Its namespace and name.
        service: String,
        /// Why.
        reason: String,
    },
}

/// Says where Services are reached.
#[async_trait]
pub trait ResolveService: Send + Sync + 'static {
    /// Where a port of a Service is reached.
    async fn resolve(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<SocketTarget, ServiceError>;

    /// Where the host of any URL is reached; `None`: where its name leads.
    fn every_host(&self) -> Option<SocketTarget> {
        None
    }
}

/// Leaves it to the DNS of the cluster that this process runs in.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterDns;

#[async_trait]
impl ResolveService for ClusterDns {
    async fn resolve(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<SocketTarget, ServiceError> {
        Ok(dns_target(namespace, name, port))
    }
}

/// Reaches every Service and every host at one address, as a command line without a cluster needs
/// it.
#[derive(Clone, Copy, Debug)]
pub struct FixedAddress(pub SocketAddr);

#[async_trait]
impl ResolveService for FixedAddress {
    async fn resolve(
        &self,
        _namespace: &str,
        _name: &str,
        _port: u16,
    ) -> Result<SocketTarget, ServiceError> {
        Ok(self.target())
    }

    fn every_host(&self) -> Option<SocketTarget> {
        Some(self.target())
    }
}

impl FixedAddress {
    fn target(self) -> SocketTarget {
        SocketTarget {
            host: self.0.ip().to_string(),
            port: self.0.port(),
        }
    }
}

/// The name of a Service in its cluster, which is also the name on its certificate.
pub fn service_host(namespace: &str, name: &str) -> String {
    format!("{name}.{namespace}.svc")
}

pub(super) fn dns_target(namespace: &str, name: &str, port: u16) -> SocketTarget {
    SocketTarget {
        host: service_host(namespace, name),
        port,
    }
}
