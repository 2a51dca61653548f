//! Reads the credentials of a member, wherever they are.

use std::{path::Path, time::Duration};

use fleetdex_api::cluster::SecretReference;
use http::Uri;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, config::Kubeconfig};
use tokio::time::timeout;

use super::{
    super::{
        connect::{self, ConnectError},
        credentials::{Credentials, SecretName, key},
        member::{Access, Endpoint, KubeconfigFile, KubeconfigSecret},
        proxy::{Proxy, Scheme},
        request::causes,
    },
    kubeconfig::{Entry, KubeconfigProblem, use_proxy_of_environment},
    plugin::Plugins,
};
use crate::secret_hosts::{Destination, Reference, SecretHosts};

/// Where SOCKS proxies listen unless their URL says otherwise.
const SOCKS_PORT: u16 = 1080;

/// Reads credentials: from Secrets of the control plane, if there is one, and from kubeconfig files.
pub struct Loader {
    hub: Option<Client>,
    hosts: SecretHosts,
    plugins: Plugins,
}

/// Whether credentials that were read before still do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// For a new connection, perhaps because those of before were refused: a credential plugin is asked again.
    Anew,
    /// To see whether there are other ones: what a credential plugin gave stands until it expires.
    Again,
}

impl From<Client> for Loader {
    /// Secrets are read through `hub`, and go only where their annotations say.
    fn from(hub: Client) -> Self {
        Self::new(hub, SecretHosts::default())
    }
}

impl Loader {
    /// Secrets are read through `hub`. Those that an object with an address names go only where `hosts` allows.
    pub fn new(hub: Client, hosts: SecretHosts) -> Self {
        Self {
            hub: Some(hub),
            hosts,
            plugins: Plugins::default(),
        }
    }

    /// For kubeconfig files only.
    pub fn without_control_plane() -> Self {
        Self {
            hub: None,
            hosts: SecretHosts::default(),
            plugins: Plugins::default(),
        }
    }

    /// The control plane, if there is one.
    pub fn hub(&self) -> Option<&Client> {
        self.hub.as_ref()
    }

    /// The credentials of a member as they are now. Each request to the control plane takes at most `limit`; a credential plugin may
    /// take 30 seconds.
    pub async fn load(
        &self,
        access: &Access,
        asking: Asking,
        limit: Duration,
    ) -> Result<Credentials, ConnectError> {
        match access {
            Access::Endpoint(endpoint) => self.of_endpoint(endpoint, limit).await,
            Access::KubeconfigSecret(kubeconfig) => self.of_secret(kubeconfig, limit).await,
            Access::KubeconfigFile(file) => self.of_file(file, asking).await,
            Access::Awaited { reason, message } => Err(ConnectError::Awaited {
                reason,
                message: message.clone(),
            }),
        }
    }

    async fn of_endpoint(
        &self,
        endpoint: &Endpoint,
        limit: Duration,
    ) -> Result<Credentials, ConnectError> {
        let reference = endpoint
            .secret
            .as_ref()
            .ok_or(ConnectError::SecretRefMissing)?;
        let secret = self.secret(reference, limit).await?;
        let SecretReference { namespace, name } = reference;
        self.hosts.check(
            Reference { namespace, name },
            &secret,
            destinations(endpoint)?,
        )?;
        Ok(Credentials::from_secret(endpoint, reference, &secret)?)
    }

    async fn of_secret(
        &self,
        kubeconfig: &KubeconfigSecret,
        limit: Duration,
    ) -> Result<Credentials, ConnectError> {
        let SecretReference { namespace, name } = &kubeconfig.secret;
        let place = || format!("the kubeconfig in Secret {namespace}/{name}");
        let refused = |problem| ConnectError::Kubeconfig {
            place: place(),
            problem,
        };
        let secret = self.secret(&kubeconfig.secret, limit).await?;
        let content = kubeconfig.keys.iter().find_map(|name| key(&secret, name));
        let content = content
            .ok_or_else(|| refused(KubeconfigProblem::KeyMissing(kubeconfig.keys.join(" or "))))?;
        let entry = foreign_entry(content).map_err(refused)?;
        // Nothing of it asks a plugin: that has been refused.
        entry
            .credentials(&self.plugins, false)
            .await
            .map_err(refused)
    }

    async fn of_file(
        &self,
        file: &KubeconfigFile,
        asking: Asking,
    ) -> Result<Credentials, ConnectError> {
        let refused = |problem| ConnectError::Kubeconfig {
            place: file.to_string(),
            problem,
        };
        let kubeconfig = read_kubeconfig(file.path.as_deref())
            .await
            .map_err(refused)?;
        let entry = Entry::of(&kubeconfig, Some(&file.context)).map_err(refused)?;
        let mut credentials = entry
            .credentials(&self.plugins, asking == Asking::Anew)
            .await
            .map_err(refused)?;
        use_proxy_of_environment(&mut credentials);
        Ok(credentials)
    }

    async fn secret(
        &self,
        reference: &SecretReference,
        limit: Duration,
    ) -> Result<Secret, ConnectError> {
        let secret = || SecretName(reference.clone());
        if !(Reference {
            namespace: &reference.namespace,
            name: &reference.name,
        })
        .is_valid()
        {
            return Err(ConnectError::SecretNotFound { secret: secret() });
        }
        let hub = self
            .hub
            .clone()
            .ok_or_else(|| ConnectError::NoControlPlane { secret: secret() })?;
        let secrets: Api<Secret> = Api::namespaced(hub, &reference.namespace);
        // Not from a cache, which may be that of another API server than the one whose watch told of a change.
        match timeout(limit, secrets.get(&reference.name)).await {
            Ok(answer) => answer.map_err(|error| unreadable(reference, error)),
            Err(_) => Err(ConnectError::SecretUnreadable {
                secret: secret(),
                cause: format!("no answer within {limit:?}"),
            }),
        }
    }
}

/// Where the credentials of an endpoint go: to its API server, and past its proxy, which may read them unless the connection through it is verified.
fn destinations(endpoint: &Endpoint) -> Result<Vec<Destination>, ConnectError> {
    let server = connect::server(&endpoint.url)?;
    let proxy = Proxy::of(endpoint.proxy_url.as_deref(), &endpoint.proxy_header)?;
    let destination = |uri: &Uri, default: u16| {
        Destination::new(
            uri.host().unwrap_or_default(),
            uri.port_u16().unwrap_or(default),
        )
    };
    let standard = |uri: &Uri| {
        if uri.scheme_str() == Some("https") {
            443
        } else {
            80
        }
    };
    let mut destinations = vec![destination(&server, standard(&server))];
    destinations.extend(proxy.map(|proxy| match proxy.scheme {
        Scheme::Socks5 => destination(&proxy.uri, SOCKS_PORT),
        Scheme::Http | Scheme::Https => destination(&proxy.uri, standard(&proxy.uri)),
    }));
    Ok(destinations)
}

/// Reads a kubeconfig file, or those that kubectl reads.
pub async fn read_kubeconfig(path: Option<&Path>) -> Result<Kubeconfig, KubeconfigProblem> {
    let path = path.map(Path::to_owned);
    let reading = tokio::task::spawn_blocking(move || match path {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    });
    match reading.await {
        Ok(Ok(kubeconfig)) => Ok(kubeconfig),
        Ok(Err(kube::config::KubeconfigError::ReadConfig(error, path))) => Err(
            KubeconfigProblem::FileUnreadable(format!("{}: {error}", path.display())),
        ),
        Ok(Err(error @ kube::config::KubeconfigError::FindPath)) => {
            Err(KubeconfigProblem::FileUnreadable(error.to_string()))
        }
        // The parser's own words would quote the file, with what is secret in it.
        Ok(Err(_)) => Err(KubeconfigProblem::Unreadable),
        Err(error) => Err(KubeconfigProblem::FileUnreadable(error.to_string())),
    }
}

/// The entry of a kubeconfig that somebody else wrote.
fn foreign_entry(content: &[u8]) -> Result<Entry, KubeconfigProblem> {
    let text = std::str::from_utf8(content).map_err(|_| KubeconfigProblem::Unreadable)?;
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| KubeconfigProblem::Unreadable)?;
    let entry = Entry::of(&kubeconfig, None)?;
    entry.refuse_reach()?;
    Ok(entry)
}

fn unreadable(reference: &SecretReference, error: kube::Error) -> ConnectError {
    let secret = SecretName(reference.clone());
    match error {
        kube::Error::Api(status) if status.code == 404 => ConnectError::SecretNotFound { secret },
        kube::Error::Api(status) if status.code == 403 => ConnectError::SecretForbidden { secret },
        // An answer that cannot be decoded could be quoted in the error, with what is in it.
        kube::Error::SerdeError(_) => ConnectError::SecretUnreadable {
            secret,
            cause: "the answer is not a Secret".to_owned(),
        },
        other => ConnectError::SecretUnreadable {
            secret,
            cause: causes(&other),
        },
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
