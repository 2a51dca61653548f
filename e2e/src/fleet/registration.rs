//! Registration of a member with the control plane.

use base64::{Engine, engine::general_purpose::STANDARD};
use fleetdex_clusters::secret_hosts::ALLOWED_HOSTS_ANNOTATION;
use serde_json::{Value, json};

use super::apiserver::ApiServer;

/// Locations of members, so that selectors by provider, region, zone and label select different
/// members.
const LOCATIONS: [Location; 3] = [
    Location {
        provider: "aws",
        region: "eu-west-1",
        zones: &["eu-west-1a", "eu-west-1b"],
        environment: "production",
    },
    Location {
        provider: "gcp",
        region: "europe-west4",
        zones: &["europe-west4-b"],
        environment: "production",
    },
    Location {
        provider: "aws",
        region: "us-east-1",
        zones: &["us-east-1a"],
        environment: "staging",
    },
];

struct Location {
    provider: &'static str,
    region: &'static str,
    zones: &'static [&'static str],
    environment: &'static str,
}

/// The two objects that register a member with the control plane.
#[derive(Debug, Clone)]
pub struct Registration {
    /// The Secret with `token` and `caBundle`.
    pub secret: Value,
    /// The `cluster.karmada.io/v1alpha1` Cluster.
    pub cluster: Value,
}

impl Registration {
    /// Registers `member` under `cluster_name`, with its credentials in a Secret of the same name
    /// in `namespace`.
    ///
    /// member1 is in aws eu-west-1 (two zones), member2 in gcp europe-west4, member3 in aws
    /// us-east-1, and so on from the start; the first two are labelled `environment: production`,
    /// the third `staging`.
    pub fn new(member: &ApiServer, cluster_name: &str, namespace: &str) -> Self {
        Self::with_token(member, cluster_name, namespace, member.token())
    }

    /// As [`new`](Self::new), with a token other than the administrator's.
    pub fn with_token(
        member: &ApiServer,
        cluster_name: &str,
        namespace: &str,
        token: &str,
    ) -> Self {
        let secret = json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": cluster_name,
                "namespace": namespace,
                // All servers of a fleet are on this machine.
                "annotations": { ALLOWED_HOSTS_ANNOTATION: "127.0.0.1" },
            },
            "data": { "token": STANDARD.encode(token), "caBundle": STANDARD.encode(member.ca_pem()) },
        });
        let location = &LOCATIONS[location_index(member.name())];
        let cluster = json!({
            "apiVersion": "cluster.karmada.io/v1alpha1",
            "kind": "Cluster",
            "metadata": { "name": cluster_name, "labels": { "environment": location.environment, "member": member.name() } },
            "spec": {
                "syncMode": "Push",
                "apiEndpoint": member.url(),
                "secretRef": { "namespace": namespace, "name": cluster_name },
                "provider": location.provider,
                "region": location.region,
                "zones": location.zones,
            },
        });
        Self { secret, cluster }
    }

    /// The same member at another address, such as a proxy's.
    #[must_use]
    pub fn through(mut self, url: &str) -> Self {
        self.cluster["spec"]["apiEndpoint"] = json!(url);
        self
    }

    /// Also sets `impersonatorSecretRef` to the Secret: requests of users that are proxied to the
    /// member need impersonation.
    #[must_use]
    pub fn impersonating(mut self) -> Self {
        self.cluster["spec"]["impersonatorSecretRef"] = self.cluster["spec"]["secretRef"].clone();
        self
    }

    /// Both objects as one manifest for `kubectl apply`.
    pub fn manifest(&self) -> String {
        json!({ "apiVersion": "v1", "kind": "List", "items": [self.secret, self.cluster] })
            .to_string()
    }
}

fn location_index(member: &str) -> usize {
    let digits = member.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let number: usize = digits.parse().unwrap_or(1);
    number.saturating_sub(1) % LOCATIONS.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_members_have_different_locations() {
        assert_eq!(
            ["member1", "member2", "member3", "member4"].map(location_index),
            [0, 1, 2, 0]
        );
    }
}
