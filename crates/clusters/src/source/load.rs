//! Reads the credentials of a member from a Secret or a kubeconfig.

use std::{
    env,
    path::{self, Path, PathBuf},
    time::Duration,
};

use fleetdex_crds::cluster::LocalSecretReference;
use http::Uri;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, config::Kubeconfig};
use tokio::time::timeout;

use super::{
    super::{
        connect::{self, ConnectError},
        credentials::{Credentials, SecretName, key},
        member::{ApiServerEndpoint, KubeconfigFile, KubeconfigSecret, MemberAccess},
        proxy::{Proxy, Scheme},
        request::causes,
    },
    kubeconfig::{KubeconfigProblem, ResolvedContext, use_proxy_of_environment},
    plugin::Plugins,
};
use crate::secret_hosts::{SecretDestination, SecretHosts, SecretRef};

/// Default port of SOCKS proxies.
const SOCKS_PORT: u16 = 1080;

/// Reads credentials from Secrets of the control plane, if there is one, and from kubeconfig files.
pub struct Loader {
    control_plane: Option<Client>,
    hosts: SecretHosts,
    plugins: Plugins,
}

/// Whether the cached result of a credential plugin may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PluginCachePolicy {
    /// Runs the plugin again: for a new connection, perhaps because the member refused the last
    /// credentials.
    Bypass,
    /// Uses the cached result until it expires: to see whether the credentials have changed.
    Use,
}

impl From<Client> for Loader {
    /// Reads Secrets through `control_plane`, and sends them only where their annotations allow.
    fn from(control_plane: Client) -> Self {
        Self::new(control_plane, SecretHosts::default())
    }
}

impl Loader {
    /// Reads Secrets through `control_plane`. A Secret that an object names together with an
    /// address is sent only where `hosts` allows.
    pub fn new(control_plane: Client, hosts: SecretHosts) -> Self {
        Self {
            control_plane: Some(control_plane),
            hosts,
            plugins: Plugins::default(),
        }
    }

    /// Reads kubeconfig files only.
    pub fn without_control_plane() -> Self {
        Self {
            control_plane: None,
            hosts: SecretHosts::default(),
            plugins: Plugins::default(),
        }
    }

    /// The client of the control plane, if there is one.
    pub fn control_plane(&self) -> Option<&Client> {
        self.control_plane.as_ref()
    }

    /// Reads the current credentials of a member. Each request to the control plane takes at most
    /// `limit`; a credential plugin may take 30 seconds.
    pub async fn load(
        &self,
        access: &MemberAccess,
        plugin_cache: PluginCachePolicy,
        limit: Duration,
    ) -> Result<Credentials, ConnectError> {
        match access {
            MemberAccess::Endpoint(endpoint) => self.of_endpoint(endpoint, limit).await,
            MemberAccess::KubeconfigSecret(kubeconfig) => self.of_secret(kubeconfig, limit).await,
            MemberAccess::KubeconfigFile(file) => self.of_file(file, plugin_cache).await,
            MemberAccess::Awaited { reason, message } => Err(ConnectError::Awaited {
                reason,
                message: message.clone(),
            }),
        }
    }

    async fn of_endpoint(
        &self,
        endpoint: &ApiServerEndpoint,
        limit: Duration,
    ) -> Result<Credentials, ConnectError> {
        let reference = endpoint
            .secret
            .as_ref()
            .ok_or(ConnectError::SecretRefMissing)?;
        let secret = self.secret(reference, limit).await?;
        let LocalSecretReference { namespace, name } = reference;
        self.hosts.check(
            SecretRef { namespace, name },
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
        let LocalSecretReference { namespace, name } = &kubeconfig.secret;
        let location = || format!("the kubeconfig in Secret {namespace}/{name}");
        let refused = |problem| ConnectError::Kubeconfig {
            location: location(),
            problem,
        };
        let secret = self.secret(&kubeconfig.secret, limit).await?;
        let content = kubeconfig.keys.iter().find_map(|name| key(&secret, name));
        let content = content
            .ok_or_else(|| refused(KubeconfigProblem::KeyMissing(kubeconfig.keys.join(" or "))))?;
        let context = untrusted_context(content).map_err(refused)?;
        // No plugin runs: a kubeconfig with one has been refused.
        context
            .credentials(&self.plugins, false)
            .await
            .map_err(refused)
    }

    async fn of_file(
        &self,
        file: &KubeconfigFile,
        plugin_cache: PluginCachePolicy,
    ) -> Result<Credentials, ConnectError> {
        let refused = |problem| ConnectError::Kubeconfig {
            location: file.to_string(),
            problem,
        };
        let kubeconfig = read_kubeconfig(file.path.as_deref())
            .await
            .map_err(refused)?;
        let context = ResolvedContext::of(&kubeconfig, Some(&file.context)).map_err(refused)?;
        let mut credentials = context
            .credentials(&self.plugins, plugin_cache == PluginCachePolicy::Bypass)
            .await
            .map_err(refused)?;
        use_proxy_of_environment(&mut credentials);
        Ok(credentials)
    }

    async fn secret(
        &self,
        reference: &LocalSecretReference,
        limit: Duration,
    ) -> Result<Secret, ConnectError> {
        let secret = || SecretName(reference.clone());
        if !(SecretRef {
            namespace: &reference.namespace,
            name: &reference.name,
        })
        .is_valid()
        {
            return Err(ConnectError::SecretNotFound { secret: secret() });
        }
        let control_plane = self
            .control_plane
            .clone()
            .ok_or_else(|| ConnectError::NoControlPlane { secret: secret() })?;
        let secrets: Api<Secret> = Api::namespaced(control_plane, &reference.namespace);
        // Not from a watch cache, which may lag behind on another API server than the one whose
        // watch reported a change.
        match timeout(limit, secrets.get(&reference.name)).await {
            Ok(response) => response.map_err(|error| unreadable(reference, error)),
            Err(_) => Err(ConnectError::SecretUnreadable {
                secret: secret(),
                cause: format!("no response within {limit:?}"),
            }),
        }
    }
}

/// Where the credentials of an endpoint are sent: to its API server, and through its proxy, which
/// can read them unless the connection through it is verified.
fn destinations(endpoint: &ApiServerEndpoint) -> Result<Vec<SecretDestination>, ConnectError> {
    let server = connect::server(&endpoint.url)?;
    let proxy = Proxy::of(endpoint.proxy_url.as_deref(), &endpoint.proxy_header)?;
    let destination = |uri: &Uri, default: u16| {
        SecretDestination::new(
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

/// Returns the files that `KUBECONFIG` lists, as absolute paths.
pub fn kubeconfig_variable() -> Vec<PathBuf> {
    let listed = env::var_os("KUBECONFIG").unwrap_or_default();
    env::split_paths(&listed)
        .filter(|path| !path.as_os_str().is_empty())
        .map(|path| absolute(&path))
        .collect()
}

/// Reads a kubeconfig file, or without `path` the files that kubectl reads. The paths of files in
/// it become absolute.
pub async fn read_kubeconfig(path: Option<&Path>) -> Result<Kubeconfig, KubeconfigProblem> {
    let files = path.map_or_else(kubeconfig_variable, |path| vec![absolute(path)]);
    let reading = tokio::task::spawn_blocking(move || read_files(&files));
    match reading.await {
        Ok(Ok(kubeconfig)) => Ok(kubeconfig),
        Ok(Err(kube::config::KubeconfigError::ReadConfig(error, path))) => Err(
            KubeconfigProblem::FileUnreadable(format!("{}: {error}", path.display())),
        ),
        Ok(Err(error @ kube::config::KubeconfigError::FindPath)) => {
            Err(KubeconfigProblem::FileUnreadable(error.to_string()))
        }
        // The parser's message would quote the file with its secrets.
        Ok(Err(_)) => Err(KubeconfigProblem::Unreadable),
        Err(error) => Err(KubeconfigProblem::FileUnreadable(error.to_string())),
    }
}

/// Reads and merges kubeconfig files as kubectl does; without any, `~/.kube/config`.
fn read_files(files: &[PathBuf]) -> Result<Kubeconfig, kube::config::KubeconfigError> {
    let Some((first, others)) = files.split_first() else {
        return Kubeconfig::read();
    };
    let first = Kubeconfig::read_from(first)?;
    others.iter().try_fold(first, |merged, file| {
        merged.merge(Kubeconfig::read_from(file)?)
    })
}

/// kube resolves the paths in a kubeconfig against the folder of its path, so that is absolute.
fn absolute(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The current context of an untrusted kubeconfig.
fn untrusted_context(content: &[u8]) -> Result<ResolvedContext, KubeconfigProblem> {
    let text = std::str::from_utf8(content).map_err(|_| KubeconfigProblem::Unreadable)?;
    let kubeconfig = Kubeconfig::from_yaml(text).map_err(|_| KubeconfigProblem::Unreadable)?;
    let context = ResolvedContext::of(&kubeconfig, None)?;
    context.refuse_plugins_and_files()?;
    Ok(context)
}

fn unreadable(reference: &LocalSecretReference, error: kube::Error) -> ConnectError {
    let secret = SecretName(reference.clone());
    match error {
        kube::Error::Api(status) if status.code == 404 => ConnectError::SecretNotFound { secret },
        kube::Error::Api(status) if status.code == 403 => ConnectError::SecretForbidden { secret },
        // The error could quote a response that cannot be decoded, with the secrets in it.
        kube::Error::SerdeError(_) => ConnectError::SecretUnreadable {
            secret,
            cause: "the response is not a Secret".to_owned(),
        },
        other => ConnectError::SecretUnreadable {
            secret,
            cause: causes(&other),
        },
    }
}

#[cfg(test)]
mod tests;
