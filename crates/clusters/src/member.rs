//! Who a member is and how its API server is reached, as a source of clusters describes it.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use fleetdex_api::cluster::{Cluster, SecretReference, SyncMode};
use fleetdex_core::model::{ClusterName, InvalidName};
use jiff::Timestamp;
use kube::ResourceExt;

/// One member cluster, as its source describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name, unique in the fleet.
    pub name: ClusterName,
    /// UID of the object that describes it: another UID under the same name is another member.
    pub uid: String,
    /// Generation of the object that describes it.
    pub generation: Option<i64>,
    /// Labels, for the label selectors of cluster affinities.
    pub labels: BTreeMap<String, String>,
    /// Cloud provider.
    pub provider: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Zones; the superseded single zone stands here when the object names no others.
    pub zones: Vec<String>,
    /// Where it is described, for messages: `Cluster member1`, `Secret fleet/member1`.
    pub origin: String,
    /// Since when; `None` where nobody knows, which counts as the youngest. The oldest of several that are the same cluster is indexed.
    pub created: Option<Timestamp>,
    /// How its API server is reached.
    pub access: Access,
}

/// How an API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// At an address, with what a Secret holds.
    Endpoint(Endpoint),
    /// As a kubeconfig in a Secret says.
    KubeconfigSecret(KubeconfigSecret),
    /// As a kubeconfig file says.
    KubeconfigFile(KubeconfigFile),
    /// Not yet: its source is not done with it.
    Awaited {
        /// Why, in one CamelCase word.
        reason: &'static str,
        /// Why, and what to do about it.
        message: String,
    },
}

/// A kubeconfig in a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigSecret {
    /// The Secret.
    pub secret: SecretReference,
    /// The keys that may hold it; the first that is there counts.
    pub keys: &'static [&'static str],
}

/// A context of a kubeconfig file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeconfigFile {
    /// The file; `None`: those that kubectl reads, from `KUBECONFIG` or else `~/.kube/config`.
    pub path: Option<PathBuf>,
    /// The context.
    pub context: String,
}

/// What a member in Pull mode lacks.
pub(super) const PULL_ADVICE: &str = "Fleetdex reads its API server itself: set spec.apiEndpoint and spec.secretRef to an address and a \
                                      token that are good from here, or spec.proxyURL to a proxy that reaches it";

/// Where and how an API server is reached, as written by a person: [`super::connect`] checks it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// URL of the API server; empty if the object has none.
    pub url: String,
    /// The Secret with the credentials.
    pub secret: Option<SecretReference>,
    /// Do not verify the API server's certificate.
    pub insecure: bool,
    /// URL of the proxy to go through.
    pub proxy_url: Option<String>,
    /// Headers for the proxy.
    pub proxy_header: BTreeMap<String, String>,
    /// The Secret whose token may ask the member as somebody else.
    pub impersonator: Option<SecretReference>,
    /// The member is in Karmada's Pull mode, in which an agent in it reaches the control plane and not the other way round.
    pub is_pulled: bool,
}

impl Member {
    /// Whether a connection made for `other` is still right for this member: the same object, reached the same way.
    /// Labels, provider, region and zones do not matter for that.
    pub fn connects_like(&self, other: &Self) -> bool {
        self.name == other.name && self.uid == other.uid && self.access == other.access
    }
}

impl Access {
    /// The Secrets that the connection depends on: a change of one asks for a look at [`super::source::Loader::load`].
    pub fn secrets(&self) -> impl Iterator<Item = &SecretReference> {
        let secret = match self {
            Self::Endpoint(endpoint) => endpoint.secret.as_ref(),
            Self::KubeconfigSecret(kubeconfig) => Some(&kubeconfig.secret),
            Self::KubeconfigFile(_) | Self::Awaited { .. } => None,
        };
        secret.into_iter()
    }

    /// Where somebody who repairs the credentials has to look.
    pub fn place(&self) -> String {
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
            zones: zones(cluster),
            origin: format!("Cluster {}", cluster.name_any()),
            created: cluster
                .metadata
                .creation_timestamp
                .as_ref()
                .map(|time| time.0),
            access: access(Endpoint {
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

/// Proxy URLs and headers may carry a password, so only header names are shown.
impl fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Endpoint")
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

/// Many members in Pull mode have neither an address nor a token that are good for us. That is no fault that trying again would mend.
fn access(endpoint: Endpoint) -> Access {
    let is_unreachable =
        endpoint.proxy_url.is_none() && (endpoint.url.is_empty() || endpoint.secret.is_none());
    if !(endpoint.is_pulled && is_unreachable) {
        return Access::Endpoint(endpoint);
    }
    Access::Awaited {
        reason: "PullModeWithoutProxy",
        message: format!(
            "the cluster is in Pull mode, in which nobody outside of it needs to reach it, and {PULL_ADVICE}"
        ),
    }
}

fn zones(cluster: &Cluster) -> Vec<String> {
    let spec = &cluster.spec;
    match spec.zones.as_ref().filter(|zones| !zones.is_empty()) {
        Some(zones) => zones.clone(),
        None => not_empty(spec.zone.as_ref()).into_iter().collect(),
    }
}

fn not_empty(text: Option<&String>) -> Option<String> {
    text.filter(|text| !text.is_empty()).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn member(spec: &Value) -> Member {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": { "name": "member1", "uid": "u1", "labels": { "tier": "gold" } },
            "spec": spec,
        }))
        .unwrap();
        Member::try_from(&cluster).unwrap()
    }

    #[test]
    fn the_single_zone_counts_only_without_zones() {
        assert_eq!(member(&json!({ "zone": "a" })).zones, ["a"]);
        assert_eq!(member(&json!({ "zone": "a", "zones": [] })).zones, ["a"]);
        assert_eq!(
            member(&json!({ "zone": "a", "zones": ["b", "c"] })).zones,
            ["b", "c"]
        );
        assert_eq!(member(&json!({ "zone": "" })).zones, Vec::<String>::new());
    }

    #[test]
    fn labels_and_places_do_not_ask_for_a_new_connection() {
        let before = member(&json!({ "apiEndpoint": "https://a" }));
        let mut after =
            member(&json!({ "apiEndpoint": "https://a", "region": "eu", "zones": ["x"] }));
        after.labels.clear();
        assert_ne!(before, after);
        assert!(before.connects_like(&after));
    }

    #[test]
    fn another_endpoint_secret_proxy_or_object_asks_for_a_new_connection() {
        let base = json!({ "apiEndpoint": "https://a" });
        let before = member(&base);
        for (field, value) in [
            ("apiEndpoint", json!("https://b")),
            ("secretRef", json!({ "namespace": "n", "name": "s" })),
            ("insecureSkipTLSVerification", json!(true)),
            ("proxyURL", json!("http://proxy")),
            ("proxyHeader", json!({ "a": "b" })),
        ] {
            let mut changed = base.clone();
            changed[field] = value;
            assert!(!before.connects_like(&member(&changed)), "{field}");
        }
        assert!(!before.connects_like(&Member {
            uid: "u2".into(),
            ..before.clone()
        }));
    }

    #[test]
    fn a_member_in_pull_mode_that_cannot_be_reached_says_so_and_is_left_alone() {
        let way =
            json!({ "apiEndpoint": "https://a", "secretRef": { "namespace": "n", "name": "s" } });
        let with = |changes: &[(&str, Value)]| {
            let mut spec = way.clone();
            for (field, value) in changes {
                spec[*field] = value.clone();
            }
            member(&spec).access
        };
        let pull = ("syncMode", json!("Pull"));
        for lacking in [("apiEndpoint", json!("")), ("secretRef", Value::Null)] {
            let Access::Awaited { reason, message } = with(&[pull.clone(), lacking.clone()]) else {
                panic!("{lacking:?}")
            };
            assert_eq!(reason, "PullModeWithoutProxy");
            assert!(message.contains("spec.proxyURL"), "{message}");
            assert!(
                matches!(with(std::slice::from_ref(&lacking)), Access::Endpoint(_)),
                "only in Pull mode"
            );
            let proxied = with(&[pull.clone(), lacking, ("proxyURL", json!("http://proxy"))]);
            assert!(matches!(proxied, Access::Endpoint(_)));
        }
        assert!(matches!(with(&[pull]), Access::Endpoint(endpoint) if endpoint.is_pulled));
    }

    #[test]
    fn debug_output_hides_what_a_proxy_is_told() {
        let shown = format!(
            "{:?}",
            member(
                &json!({ "proxyURL": "http://user:hunter2@p", "proxyHeader": { "Proxy-Authorization": "hunter2" } })
            )
        );
        assert!(
            shown.contains("Proxy-Authorization") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn a_cluster_without_a_name_is_refused() {
        let cluster: Cluster =
            serde_json::from_value(json!({ "metadata": {}, "spec": {} })).unwrap();
        assert!(Member::try_from(&cluster).is_err());
    }
}
