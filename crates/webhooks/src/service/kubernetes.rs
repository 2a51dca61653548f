//! Reads Services of the control plane.
//!
//! Source: `ResolveCluster` of `k8s.io/apiserver/pkg/util/proxy`, as Karmada uses it: a Service
//! without an object is left to DNS.

use std::{collections::BTreeMap, time::Duration};

use async_trait::async_trait;
use fleetdex_core::model::{causes, quoted};
use k8s_openapi::api::core::v1::{Service, ServiceSpec};
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::resolve::{ResolveService, ServiceError, SocketTarget, dns_target};

/// How long a Service that was read is taken to be unchanged. A clusterIP does not change; a
/// Service that was created again is found before the breaker of its webhook has its longest pause
/// behind it.
const CACHED: Duration = Duration::from_secs(30);
/// How long reading a Service may take. It counts towards the call that needs it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Ports of Services whose place is kept: as many as clients of webhooks are.
pub const MAX_CACHED_SERVICES: usize = 200;

/// Reads Services with a Kubernetes client, and keeps what it read for half a minute.
pub struct ServiceReader {
    client: Client,
    cached: Mutex<BTreeMap<ServicePort, Cached>>,
}

/// Namespace, name and port.
type ServicePort = (String, String, u16);

struct Cached {
    target: SocketTarget,
    until: Instant,
}

impl ServiceReader {
    /// Reads with this client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            cached: Mutex::default(),
        }
    }

    async fn read(&self, namespace: &str, name: &str) -> Result<Option<Service>, ServiceError> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), namespace);
        let reason = match timeout(READ_TIMEOUT, services.get_opt(name)).await {
            Ok(Ok(service)) => return Ok(service),
            Ok(Err(error)) => causes(&error),
            Err(_) => format!("no answer within {} s", READ_TIMEOUT.as_secs()),
        };
        Err(ServiceError::Unreadable {
            service: format!("{namespace}/{name}"),
            reason: quoted(&reason),
        })
    }

    fn cached(&self, service: &ServicePort) -> Option<SocketTarget> {
        let cached = self.cached.lock();
        let found = cached.get(service)?;
        (found.until > Instant::now()).then(|| found.target.clone())
    }

    fn cache(&self, service: ServicePort, target: &SocketTarget) {
        let now = Instant::now();
        let mut cached = self.cached.lock();
        cached.retain(|_, other| other.until > now);
        if cached.len() < MAX_CACHED_SERVICES {
            let target = target.clone();
            let until = now + CACHED;
            cached.insert(service, Cached { target, until });
        }
    }
}

#[async_trait]
impl ResolveService for ServiceReader {
    async fn resolve(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<SocketTarget, ServiceError> {
        let service = (namespace.to_owned(), name.to_owned(), port);
        if let Some(target) = self.cached(&service) {
            return Ok(target);
        }
        let target = match self.read(namespace, name).await? {
            Some(found) => {
                let spec = found.spec.unwrap_or_default();
                target(&format!("{namespace}/{name}"), port, &spec)?
            }
            None => dns_target(namespace, name, port),
        };
        self.cache(service, &target);
        Ok(target)
    }
}

/// Where a port of a Service with this specification is reached.
fn target(service: &str, port: u16, spec: &ServiceSpec) -> Result<SocketTarget, ServiceError> {
    let host = match spec.type_.as_deref().unwrap_or("ClusterIP") {
        "ExternalName" => spec.external_name.clone().unwrap_or_default(),
        "ClusterIP" | "NodePort" | "LoadBalancer" => {
            let host = spec.cluster_ip.clone();
            let is_address = |host: &String| !matches!(host.as_str(), "" | "None");
            let host = host.filter(is_address);
            let host = host.ok_or_else(|| ServiceError::Headless(service.to_owned()))?;
            check_port(service, port, spec)?;
            host
        }
        other => {
            return Err(ServiceError::Type {
                service: service.to_owned(),
                found: quoted(other),
            });
        }
    };
    Ok(SocketTarget { host, port })
}

fn check_port(service: &str, port: u16, spec: &ServiceSpec) -> Result<(), ServiceError> {
    let ports = || spec.ports.iter().flatten().map(|known| known.port);
    if ports().any(|known| known == i32::from(port)) {
        return Ok(());
    }
    let known: Vec<String> = ports().map(|known| known.to_string()).collect();
    Err(ServiceError::Port {
        service: service.to_owned(),
        port,
        ports: quoted(&known.join(", ")),
    })
}

#[cfg(test)]
mod tests;
