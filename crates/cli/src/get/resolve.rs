//! What a person calls a resource, to the resource, by what the server says it holds.

use fleetdex_core::kinds;
use fleetdex_server::percent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;

/// A resource that the server holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Names, kind and scope.
    pub resource: APIResource,
}

impl Held {
    /// The collection's path, in one namespace or in all.
    pub fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() {
            "api".to_owned()
        } else {
            format!("apis/{}", self.group)
        };
        let scope = namespace
            .map(|name| format!("namespaces/{}/", percent::encode(name)))
            .unwrap_or_default();
        format!("{root}/{}/{scope}{}", self.version, self.resource.name)
    }

    /// `pods`, `deployments.apps`.
    pub fn qualified_plural(&self) -> String {
        self.with_group(&self.resource.name)
    }

    /// `pod`, `deployment.apps`.
    pub fn qualified_singular(&self) -> String {
        let singular = if self.resource.singular_name.is_empty() {
            self.resource.kind.to_ascii_lowercase()
        } else {
            self.resource.singular_name.clone()
        };
        self.with_group(&singular)
    }

    fn with_group(&self, name: &str) -> String {
        if self.group.is_empty() {
            name.to_owned()
        } else {
            format!("{name}.{}", self.group)
        }
    }

    fn is_called(&self, word: &str) -> bool {
        let full_names = [
            &self.resource.name,
            &self.resource.singular_name,
            &self.resource.kind,
        ];
        full_names
            .iter()
            .any(|name| name.eq_ignore_ascii_case(word))
            && !word.is_empty()
    }

    fn has_short_name(&self, word: &str) -> bool {
        self.resource
            .short_names
            .iter()
            .flatten()
            .any(|name| name == word)
    }

    /// Of resources of the same name, the core group's and then Kubernetes' own come first.
    fn rank(&self) -> u8 {
        match &*self.group {
            "" => 0,
            group if kinds::find_plural(group, &self.resource.name).is_some() => 1,
            _ => 2,
        }
    }
}

/// The resource that a name stands for: plural, singular, kind or short name, alone or followed by `.group` or
/// `.version.group`; the start of a group's name is enough, as for kubectl. `held` has the preferred version of a group first.
pub fn resolve<'h>(name: &str, held: &'h [Held]) -> Option<&'h Held> {
    let Some((word, qualifier)) = name.split_once('.') else {
        return best(called(name, held));
    };
    let candidates = called(word, held);
    let in_version = qualifier.split_once('.').and_then(|(version, group)| {
        of_group(
            candidates
                .iter()
                .copied()
                .filter(|entry| entry.version == version)
                .collect(),
            group,
        )
    });
    in_version.or_else(|| of_group(candidates, qualifier))
}

/// Full names win over short ones.
fn called<'h>(word: &str, held: &'h [Held]) -> Vec<&'h Held> {
    let by_name: Vec<&Held> = held.iter().filter(|entry| entry.is_called(word)).collect();
    if by_name.is_empty() {
        held.iter()
            .filter(|entry| entry.has_short_name(word))
            .collect()
    } else {
        by_name
    }
}

fn of_group<'h>(candidates: Vec<&'h Held>, group: &str) -> Option<&'h Held> {
    let exact: Vec<&Held> = candidates
        .iter()
        .copied()
        .filter(|entry| entry.group == group)
        .collect();
    if !exact.is_empty() || group.is_empty() {
        return best(exact);
    }
    best(
        candidates
            .into_iter()
            .filter(|entry| entry.group.starts_with(group))
            .collect(),
    )
}

fn best(candidates: Vec<&Held>) -> Option<&Held> {
    candidates.into_iter().min_by_key(|entry| entry.rank())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(group: &str, version: &str, kind: &str, plural: &str, short: &str) -> Held {
        let resource = APIResource {
            name: plural.to_owned(),
            singular_name: kind.to_ascii_lowercase(),
            kind: kind.to_owned(),
            short_names: Some(vec![short.to_owned()]),
            namespaced: true,
            ..APIResource::default()
        };
        Held {
            group: group.to_owned(),
            version: version.to_owned(),
            resource,
        }
    }

    #[test]
    fn names_resolve_as_kubectl_resolves_them() {
        let fleet = [
            held("a.example.com", "v1", "Deployment", "deployments", "dp"),
            held("apps", "v1", "Deployment", "deployments", "deploy"),
            held("apps", "v1beta1", "Deployment", "deployments", "deploy"),
            held("", "v1", "Pod", "pods", "po"),
            held("events.k8s.io", "v1", "Event", "events", "ev"),
            held("", "v1", "Event", "events", "ev"),
            held("z.example.com", "v1", "Po", "po", "z"),
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
        let deployments = held("apps", "v1", "Deployment", "deployments", "deploy");
        assert_eq!(
            deployments.path(Some("web")),
            "apis/apps/v1/namespaces/web/deployments"
        );
        assert_eq!(deployments.qualified_singular(), "deployment.apps");
        assert_eq!(deployments.qualified_plural(), "deployments.apps");
    }
}
