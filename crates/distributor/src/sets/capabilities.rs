//! What the clusters of a set have that charts ask for.
//!
//! A set is rendered once for all of its clusters: for the lowest of their versions of Kubernetes,
//! and the API versions that all of them serve.

use std::collections::BTreeSet;

use fleetdex_clusters::{MemberState, discovery::Discovery};
use fleetdex_core::kinds;
use fleetdex_rendering::source::Capabilities;

/// API versions that a chart is told, at most. Each is an argument of helm.
const MOST_API_VERSIONS: usize = 4_000;

/// What all of these clusters have. `None`: a cluster has not said it yet.
pub fn common<'m>(members: impl IntoIterator<Item = &'m MemberState>) -> CommonCapabilities {
    let mut common = CommonCapabilities::default();
    let mut versions: Option<BTreeSet<String>> = None;
    let mut lowest: Option<((u64, u64, u64), &str)> = None;
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
        let key = numbers(version).unwrap_or_default();
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

/// Major, minor and patch of a version such as `v1.36.3+k3s1`.
fn numbers(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.trim_start_matches('v').splitn(3, '.');
    let mut next = || {
        let part = parts.next()?;
        let digits = part.find(|one: char| !one.is_ascii_digit());
        part[..digits.unwrap_or(part.len())].parse::<u64>().ok()
    };
    Some((next()?, next()?, next().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (text, expected) in [
            ("v1.36.3", Some((1, 36, 3))),
            ("1.9.0+k3s1", Some((1, 9, 0))),
            ("v1.34.2-gke.100", Some((1, 34, 2))),
            ("v1.34", Some((1, 34, 0))),
            ("", None),
            ("v1", None),
        ] {
            assert_eq!(numbers(text), expected, "{text}");
        }
    }
}
