//! Credentials of a Secret, for the hosts that it lists.

use fleetdex_clusters::secret_hosts::{SecretDestination, SecretHosts, SecretRef};
use fleetdex_rendering::{
    fetch::{BasicCredentials, HostPolicy, RemoteHost},
    named_objects::basic_credentials,
};
use k8s_openapi::api::core::v1::Secret;

/// Any host may be asked: the user chose the files. Credentials go to the hosts in the annotation
/// of their Secret, as on a control plane.
pub(crate) struct SecretCredentials {
    pub(crate) namespace: String,
    pub(crate) secret: Option<Secret>,
}

impl HostPolicy for SecretCredentials {
    fn is_allowed(&self, _host: &RemoteHost) -> bool {
        true
    }

    fn credentials(&self, host: &RemoteHost) -> Option<BasicCredentials> {
        let secret = self.secret.as_ref()?;
        let reference = SecretRef {
            namespace: &self.namespace,
            name: secret.metadata.name.as_deref().unwrap_or_default(),
        };
        let destination = SecretDestination::new(&host.host, host.port);
        SecretHosts::default()
            .check(reference, secret, [destination])
            .ok()?;
        basic_credentials(secret)
    }
}
