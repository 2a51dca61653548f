//! Resolves resource names as kubectl accepts them, with the server's discovery.

use fleetdex_core::{kinds, model::qualified};
use fleetdex_query_api::percent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

/// A resource that the server serves.
#[derive(Clone, Debug, PartialEq)]
pub struct DiscoveredResource {
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Names, kind and scope.
    pub api: APIResource,
}

impl DiscoveredResource {
    /// Returns the path of the collection, in one namespace or in all.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            "api".to_owned()
        } else {
            format!("apis/{}", self.group)
        };
        let scope = namespace
            .map(|name| format!("namespaces/{}/", percent::encode(name)))
            .unwrap_or_default();
        format!("{root}/{}/{scope}{}", self.version, self.api.name)
    }

    /// `pods`, `deployments.apps`.
    pub fn qualified_plural(&self) -> String {
        qualified(&self.api.name, &self.group)
    }

    /// `pod`, `deployment.apps`.
    pub fn qualified_singular(&self) -> String {
        let singular = if self.api.singular_name.is_empty() {
            self.api.kind.to_ascii_lowercase()
        } else {
            self.api.singular_name.clone()
        };
        qualified(&singular, &self.group)
    }

    fn has_name(&self, word: &str) -> bool {
        let full_names = [&self.api.name, &self.api.singular_name, &self.api.kind];
        full_names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(word))
            && !word.is_empty()
    }

    fn has_short_name(&self, word: &str) -> bool {
        self.api
            .short_names
            .iter()
            .flatten()
            .any(|name| name == word)
    }

    /// Ranks resources of the same name: the core group, then the other built-in groups, then the
    /// rest.
    fn rank(&self) -> u8 {
        match &*self.group {
            "" => 0,
            group if kinds::find_plural(group, &self.api.name).is_some() => 1,
            _ => 2,
        }
    }
}

/// Resolves a plural, singular, kind or short name, alone or followed by `.group` or
/// `.version.group`.
///
/// A prefix of the group is enough, as for kubectl. `resources` lists the preferred version of each
/// group first.
pub fn resolve<'r>(
    name: &str,
    resources: &'r [DiscoveredResource],
) -> Option<&'r DiscoveredResource> {
    let Some((word, qualifier)) = name.split_once('.') else {
        return best(named(name, resources).into_iter());
    };
    let candidates = named(word, resources);
    let in_version = qualifier.split_once('.').and_then(|(version, group)| {
        let mut in_version = candidates.clone();
        in_version.retain(|entry| entry.version == version);
        of_group(&in_version, group)
    });
    in_version.or_else(|| of_group(&candidates, qualifier))
}

/// Full names take precedence over short names.
fn named<'r>(word: &str, resources: &'r [DiscoveredResource]) -> Vec<&'r DiscoveredResource> {
    let by_name: Vec<&DiscoveredResource> = resources
        .iter()
        .filter(|entry| entry.has_name(word))
        .collect();
    if by_name.is_empty() {
        resources
            .iter()
            .filter(|entry| entry.has_short_name(word))
            .collect()
    } else {
        by_name
    }
}

fn of_group<'r>(
    candidates: &[&'r DiscoveredResource],
    group: &str,
) -> Option<&'r DiscoveredResource> {
    let best_of = |is_meant: &dyn Fn(&str) -> bool| {
        let entries = candidates.iter().copied();
        best(entries.filter(|entry| is_meant(&entry.group)))
    };
    let prefixed = || best_of(&|of| !group.is_empty() && of.starts_with(group));
    best_of(&|of| of == group).or_else(prefixed)
}

fn best<'r>(
    candidates: impl Iterator<Item = &'r DiscoveredResource>,
) -> Option<&'r DiscoveredResource> {
    candidates.min_by_key(|entry| entry.rank())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(
        group: &str,
        version: &str,
        kind: &str,
        plural: &str,
        short: &str,
    ) -> DiscoveredResource {
        let resource = APIResource {
            name: plural.to_owned(),
            singular_name: kind.to_ascii_lowercase(),
            kind: kind.to_owned(),
            short_names: Some(vec![short.to_owned()]),
            namespaced: true,
            ..APIResource::default()
        };
        DiscoveredResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api: resource,
        }
    }

    #[test]
    fn names_resolve_as_kubectl_resolves_them() {
        let fleet = [
            served("a.example.com", "v1", "Deployment", "deployments", "dp"),
            served("apps", "v1", "Deployment", "deployments", "deploy"),
            served("apps", "v1beta1", "Deployment", "deployments", "deploy"),
            served("", "v1", "Pod", "pods", "po"),
            served("events.k8s.io", "v1", "Event", "events", "ev"),
            served("", "v1", "Event", "events", "ev"),
            served("z.example.com", "v1", "Po", "po", "z"),
        ];
        let path = |name: &str| {
            resolve(name, &fleet)
                .map(|entry| entry.path(None))
                .unwrap_or_default()
        };
        for name in ["pods", "pod", "Pod", "PODS", "pods.v1."] {
            assert_eq!(path(name), "api/v1/pods", "{name}");
        }
        for name in [
            "deployments",
            "Deployment",
            "deploy",
            "deployments.apps",
            "deploy.app",
            "deployments.v1.apps",
        ] {
            assert_eq!(path(name), "apis/apps/v1/deployments", "{name}");
        }
        assert_eq!(
            path("deployments.v1beta1.apps"),
            "apis/apps/v1beta1/deployments"
        );
        assert_eq!(
            path("deployments.a.example.com"),
            "apis/a.example.com/v1/deployments"
        );
        assert_eq!(path("events"), "api/v1/events");
        assert_eq!(path("ev.events.k8s.io"), "apis/events.k8s.io/v1/events");
        assert_eq!(
            path("po"),
            "apis/z.example.com/v1/po",
            "a full name wins over a short one"
        );
        for name in [
            "",
            "DEPLOY",
            "widgets",
            "pods.apps",
            "deployments.v2.apps",
            ".",
        ] {
            assert_eq!(path(name), "", "{name}");
        }
    }

    #[test]
    fn names_and_paths_carry_group_and_namespace() {
        let deployments = served("apps", "v1", "Deployment", "deployments", "deploy");
        assert_eq!(
            deployments.path(Some("web")),
            "apis/apps/v1/namespaces/web/deployments"
        );
        assert_eq!(deployments.qualified_singular(), "deployment.apps");
        assert_eq!(deployments.qualified_plural(), "deployments.apps");
    }
}
