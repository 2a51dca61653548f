//! The API groups of the query API.

/// Our API group, and Karmada's, below which its clients find the same paths.
pub const GROUPS: [&str; 2] = ["search.fleetdex.io", "search.karmada.io"];
/// The version of both groups.
pub const VERSION: &str = "v1alpha1";
/// The `apiVersion` of what our own group answers.
pub const API_VERSION: &str = "search.fleetdex.io/v1alpha1";
/// What all paths below our own group begin with.
pub const BASE: &str = "/apis/search.fleetdex.io/v1alpha1";
/// Path of the Kubernetes API over the fleet. The server of a context of `fleetdex kubeconfig` ends
/// with it.
pub const FLEET_PATH: &str = "/apis/search.fleetdex.io/v1alpha1/proxying/karmada/proxy";
/// The resources of both groups: plural, kind and verbs. Most have only paths below them, and so no
/// verbs.
pub const GROUP_RESOURCES: [(&str, &str, &[&str]); 11] = [
    ("aggregate", "Aggregate", &[]),
    ("clusters", "Cluster", &[]),
    ("completions", "SearchCompletions", &["list"]),
    ("images", "ImageCount", &["list"]),
    ("interpret", "Interpretation", &["create"]),
    ("merged", "MergedObject", &[]),
    ("objects", "ObjectSearch", &["list"]),
    ("proxying", "Proxying", &[]),
    ("related", "RelatedObject", &[]),
    ("search", "Search", &[]),
    ("verify", "Verification", &["create"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_with_our_group_and_version() {
        assert_eq!(API_VERSION, format!("{}/{VERSION}", GROUPS[0]));
        assert_eq!(BASE, format!("/apis/{API_VERSION}"));
        assert_eq!(FLEET_PATH, format!("{BASE}/proxying/karmada/proxy"));
    }
}
