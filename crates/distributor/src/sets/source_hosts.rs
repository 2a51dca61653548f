//! From where the source of a set may be fetched, and which credentials are sent there.

use fleetdex_clusters::secret_hosts::{HostPattern, SecretDestination, SecretHosts, SecretRef};
use fleetdex_rendering::{
    fetch::{BasicCredentials, HostPolicy, RemoteHost},
    named_objects::basic_credentials,
};
use k8s_openapi::api::core::v1::Secret;

/// The hosts that flags allow, with the credentials that a Secret binds to them.
pub struct SourceHosts {
    /// The namespace of the set.
    pub namespace: String,
    /// The Secret that the source names.
    pub secret: Option<Secret>,
    /// The hosts that may be fetched from.
    pub allowed: Vec<HostPattern>,
    /// The hosts that Secrets may be sent to.
    pub secret_hosts: SecretHosts,
}

impl HostPolicy for SourceHosts {
    fn is_allowed(&self, host: &RemoteHost) -> bool {
        let destination = SecretDestination::new(&host.host, host.port);
        let mut allowed = self.allowed.iter();
        allowed.any(|pattern| pattern.matches(&destination))
    }

    fn credentials(&self, host: &RemoteHost) -> Option<BasicCredentials> {
        let secret = self.secret.as_ref()?;
        let reference = SecretRef {
            namespace: &self.namespace,
            name: secret.metadata.name.as_deref().unwrap_or_default(),
        };
        let destination = SecretDestination::new(&host.host, host.port);
        let checked = self.secret_hosts.check(reference, secret, [destination]);
        checked.ok()?;
        basic_credentials(secret)
    }
}
