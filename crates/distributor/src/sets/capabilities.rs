//! What the clusters of a set have that charts ask for.
//!
//! A set is rendered once for all of its clusters: for the lowest of their versions of Kubernetes,
//! and the API versions that all of them serve.

use std::collections::BTreeSet;

use fleetdex_clusters::{MemberState, discovery::Discovery, kubernetes_version::version_numbers};
use fleetdex_core::kinds;
use fleetdex_rendering::source::Capabilities;

/// API versions that a chart is rendered for, at most. Each is an argument of helm.
const MOST_API_VERSIONS: usize = 4_000;

/// What all of these clusters have. `None`: a cluster has not said it yet.
pub fn common<'m>(members: impl IntoIterator<Item = &'m MemberState>) -> CommonCapabilities {
    let mut common = CommonCapabilities::default();
    let mut versions: Option<BTreeSet<String>> = None;
    let mut lowest: Option<((u32, u32, u32), &str)> = None;
    for member in members {
        let (Some(version), Some(discovery)) = (&member.kubernetes_version, &member.discovery)
        else {
            common.unknown.push(member.member.name.to_string());
            continue;
        };
        let served = api_versions(discovery);
        versions = Some(match versions {
            Some(before) => &before & &served,
            None => served,
        });
        let key = version_numbers(version).unwrap_or_default();
        if lowest.is_none_or(|(before, _)| key < before) {
            lowest = Some((key, version));
        }
    }
    if let Some(((major, minor, patch), _)) = lowest {
        let version = format!("{major}.{minor}.{patch}");
        let versions = versions.unwrap_or_default().into_iter();
        common.known = Some(Capabilities::new(
            &version,
            versions.take(MOST_API_VERSIONS),
        ));
    }
    common
}

/// What clusters have in common, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonCapabilities {
    /// Of the clusters that have said it; `None`: none has.
    pub known: Option<Capabilities>,
    /// The clusters that have not.
    pub unknown: Vec<String>,
}

/// The API versions, alone and with each kind, that helm does not know by itself.
fn api_versions(discovery: &Discovery) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for served in &discovery.served {
        let gvk = &served.resource.gvk;
        if kinds::find(gvk).is_some() {
            continue;
        }
        let api_version = gvk.api_version();
        found.insert(format!("{api_version}/{}", gvk.kind));
        found.insert(api_version);
    }
    found
}
