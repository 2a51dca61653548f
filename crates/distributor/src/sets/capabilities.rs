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

/// What clusters have in common, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommonCapabilities {
    /// Of the clusters that have said it; `None`: none has.
    pub known: Option<Capabilities>,
    /// The clusters that have not.
    pub unknown: Vec<String>,
}

impl CommonCapabilities {
    /// What all of these clusters have. `None`: a cluster has not said it yet.
    pub fn of<'c>(clusters: impl IntoIterator<Item = (&'c str, Option<Capabilities>)>) -> Self {
        let mut common = Self::default();
        let mut versions: Option<BTreeSet<String>> = None;
        let mut lowest: Option<((u32, u32, u32), String)> = None;
        for (name, capabilities) in clusters {
            let Some(capabilities) = capabilities else {
                common.unknown.push(name.to_owned());
                continue;
            };
            let served = capabilities.api_versions().map(str::to_owned).collect();
            versions = Some(match versions {
                Some(before) => &before & &served,
                None => served,
            });
            let version = capabilities.kubernetes_version();
            let key = version_numbers(version).unwrap_or_default();
            if lowest.as_ref().is_none_or(|(before, _)| key < *before) {
                lowest = Some((key, version.to_owned()));
            }
        }
        if let Some((_, version)) = lowest {
            let versions = versions.unwrap_or_default().into_iter();
            let known = Capabilities::new(&version, versions.take(MOST_API_VERSIONS));
            common.known = Some(known);
        }
        common
    }
}

/// What a member has; `None`: it has not said it yet.
pub fn capabilities_of_member(member: &MemberState) -> Option<Capabilities> {
    let version = member.kubernetes_version.as_deref()?;
    let discovery = member.discovery.as_deref()?;
    let (major, minor, patch) = version_numbers(version).unwrap_or_default();
    let version = format!("{major}.{minor}.{patch}");
    Some(Capabilities::new(&version, api_versions(discovery)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_have_in_common_the_lowest_version_and_what_all_of_them_serve() {
        let of = |version: &str, served: &[&str]| {
            let served = served.iter().map(|&one| one.to_owned());
            Some(Capabilities::new(version, served))
        };
        let common = CommonCapabilities::of([
            ("a", of("1.34.2", &["x/v1", "y/v1"])),
            ("b", None),
            ("c", of("1.9.7", &["y/v1", "z/v1"])),
        ]);
        assert_eq!(common.known, of("1.9.7", &["y/v1"]));
        assert_eq!(common.unknown, ["b"]);
        assert_eq!(CommonCapabilities::of([("b", None)]).known, None);
    }
}
