//! A member cluster and how its API server is reached, as its source describes them.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use fleetdex_core::model::{ClusterName, InvalidName};
use fleetdex_crds::cluster::{Cluster, LocalSecretReference, SyncMode};
use jiff::Timestamp;
use kube::ResourceExt;

/// One member cluster, as its source describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, unique in the fleet.
    pub name: ClusterName,
    /// UID of the object that describes it. The same name with another UID is another member.
    pub uid: String,
    /// Generation of the object that describes it.
    pub generation: Option<i64>,
    /// Labels, for the label selectors of cluster affinities.
    pub labels: BTreeMap<String, String>,
    /// Cloud provider.
    pub provider: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Zones; the deprecated single zone if the object has no others.
    pub zones: Vec<String>,
    /// Where it is described, for messages: `Cluster member1`, `Secret fleet/member1`.
    pub origin: String,
    /// When it was registered; `None` if unknown, which counts as youngest. Of members that are the
    /// same cluster the oldest is indexed.
    pub created: Option<Timestamp>,
    /// How its API server is reached.
    pub access: MemberAccess,
}

/// How an API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberAccess {
    /// By an address and the credentials in a Secret.
    Endpoint(ApiServerEndpoint),
    /// By a kubeconfig in a Secret.
    KubeconfigSecret(KubeconfigSecret),
    /// By a kubeconfig file.
    KubeconfigFile(KubeconfigFile),
    /// Not yet: its source does not describe it completely.
    Awaited {
        /// The reason, in CamelCase.
        reason: &'static str,
        /// The reason, and what to do about it.
        message: String,
    },
}

/// A kubeconfig in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigSecret {
    /// The Secret.
    pub secret: LocalSecretReference,
    /// The keys that may hold it; the first that exists is used.
    pub keys: &'static [&'static str],
}

/// A context of a kubeconfig file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigFile {
    /// The file; `None` for the files that kubectl reads, from `KUBECONFIG` or else
    /// `~/.kube/config`.
    pub path: Option<PathBuf>,
    /// The context.
    pub context: String,
}

/// What to do about a member in Pull mode that is not reached.
pub(super) const PULL_ADVICE: &str = "Fleetdex reads its API server itself: set spec.apiEndpoint and spec.secretRef to an address and a \
                                      token that work from here, or spec.proxyURL to a proxy that reaches it";

/// The address of an API server and the Secret with its credentials, as a user wrote them;
/// [`super::connect`] validates them.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ApiServerEndpoint {
    /// URL of the API server; empty if the object has none.
    pub url: String,
    /// The Secret with the credentials.
    pub secret: Option<LocalSecretReference>,
    /// Do not verify the API server's certificate.
    pub insecure: bool,
    /// URL of the proxy to go through.
    pub proxy_url: Option<String>,
    /// Headers for the proxy.
    pub proxy_header: BTreeMap<String, String>,
    /// The Secret whose token may impersonate users of the member.
    pub impersonator: Option<LocalSecretReference>,
    /// The member is in Karmada's Pull mode, in which its agent connects to the control plane.
    pub is_pulled: bool,
}

impl Member {
    /// Whether a connection that was made for `other` is still valid for this member: the same
    /// object with the same access. Labels, provider, region and zones do not matter.
    pub fn connects_like(&self, other: &Self) -> bool {
        self.name == other.name && self.uid == other.uid && self.access == other.access
    }
}

impl MemberAccess {
    /// The Secrets that the connection depends on. When one changes,
    /// [`super::source::Loader::load`] has to be called again.
    pub fn secrets(&self) -> impl Iterator<Item = &LocalSecretReference> {
        let secret = match self {
            Self::Endpoint(endpoint) => endpoint.secret.as_ref(),
            Self::KubeconfigSecret(kubeconfig) => Some(&kubeconfig.secret),
            Self::KubeconfigFile(_) | Self::Awaited { .. } => None,
        };
        secret.into_iter()
    }

    /// Where the credentials are stored, for messages.
    pub fn location(&self) -> String {
        match self {
            Self::Endpoint(_) => "the Secret that spec.secretRef names".to_owned(),
            Self::KubeconfigSecret(KubeconfigSecret { secret, .. }) => {
                format!(
                    "the kubeconfig in Secret {}/{}",
                    secret.namespace, secret.name
                )
            }
            Self::KubeconfigFile(file) => file.to_string(),
            Self::Awaited { .. } => "the object that describes the cluster".to_owned(),
        }
    }
}

impl fmt::Display for KubeconfigFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(
                out,
                "context {} of kubeconfig {}",
                self.context,
                path.display()
            ),
            None => write!(out, "context {} of your kubeconfig", self.context),
        }
    }
}

impl TryFrom<&Cluster> for Member {
    type Error = InvalidName;

    fn try_from(cluster: &Cluster) -> Result<Self, InvalidName> {
        let spec = &cluster.spec;
        Ok(Self {
            name: cluster.name_any().parse()?,
            uid: cluster.uid().unwrap_or_default(),
            generation: cluster.metadata.generation,
            labels: cluster.labels().clone(),
            provider: not_empty(spec.provider.as_ref()),
            region: not_empty(spec.region.as_ref()),
            zones: cluster.spec.all_zones(),
            origin: format!("Cluster {}", cluster.name_any()),
            created: cluster
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
            access: access(ApiServerEndpoint {
                url: spec.api_endpoint.clone().unwrap_or_default(),
                secret: spec.secret_ref.clone(),
                insecure: spec.insecure_skip_tls_verification.unwrap_or_default(),
                proxy_url: not_empty(spec.proxy_url.as_ref()),
                proxy_header: spec.proxy_header.clone().unwrap_or_default(),
                impersonator: spec.impersonator_secret_ref.clone(),
                is_pulled: spec.sync_mode == Some(SyncMode::Pull),
            }),
        })
    }
}

/// Proxy URLs and headers may contain a password, so only header names are shown.
impl fmt::Debug for ApiServerEndpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ApiServerEndpoint")
            .field("url", &self.url)
            .field("secret", &self.secret)
            .field("insecure", &self.insecure)
            .field("proxied", &self.proxy_url.is_some())
            .field("proxy_header", &self.proxy_header.keys())
            .field("impersonator", &self.impersonator)
            .field("is_pulled", &self.is_pulled)
            .finish()
    }
}

/// Many members in Pull mode have no address or token that works from here. Retrying does not help,
/// so they wait for a change.
fn access(endpoint: ApiServerEndpoint) -> MemberAccess {
    let is_unreachable =
        endpoint.proxy_url.is_none() && (endpoint.url.is_empty() || endpoint.secret.is_none());
    if !(endpoint.is_pulled && is_unreachable) {
        return MemberAccess::Endpoint(endpoint);
    }
    MemberAccess::Awaited {
        reason: "PullModeWithoutProxy",
        message: format!(
            "the cluster is in Pull mode, in which nothing outside of it needs to reach it, and {PULL_ADVICE}"
        ),
    }
}

fn not_empty(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

#[cfg(test)]
mod tests;
