//! Served resources, and the resources that request paths name.

use std::sync::Arc;

use fleetdex_core::{
    kinds,
    model::{Gvk, Resource},
};

use super::{name::Name, status::Status};

/// The default resources: of the core group, of other groups, and a custom one; namespaced and
/// cluster-scoped.
pub fn usual() -> Vec<Resource> {
    let built_in = [
        ("", "configmaps"),
        ("", "namespaces"),
        ("", "nodes"),
        ("", "pods"),
        ("", "secrets"),
        ("apps", "deployments"),
        ("rbac.authorization.k8s.io", "clusterroles"),
    ];
    let mut resources: Vec<Resource> = built_in
        .iter()
        .filter_map(|(group, plural)| kinds::find_plural(group, plural))
        .map(kinds::BuiltIn::resource)
        .collect();
    resources.push(Resource {
        gvk: Gvk::new("example.com", "v1", "Widget"),
        plural: "widgets".into(),
        namespaced: true,
    });
    resources
}

/// The default resources with a subresource `status`.
pub(super) fn with_status() -> Vec<Name> {
    ["deployments.apps", "namespaces", "nodes", "pods"]
        .map(Name::from)
        .to_vec()
}

/// Whether the kind is built into API servers: items in its lists do not repeat kind and version.
pub(super) fn is_built_in(resource: &Resource) -> bool {
    kinds::find(&resource.gvk).is_some()
}

/// The resource, collection or object that a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The resource, which may not exist.
    pub(super) resource: Name,
    pub(super) version: String,
    /// `None`: all namespaces, or a cluster-scoped resource.
    pub(super) namespace: Option<String>,
    /// `None`: the collection.
    pub(super) name: Option<String>,
    /// Whether it is the subresource `status` of the object.
    pub(super) is_status: bool,
}

impl Target {
    /// Parses `/api/v1/…` and `/apis/<group>/<version>/…`; `None` for other paths.
    pub(super) fn parse(path: &str) -> Option<Result<Self, Status>> {
        let mut segments = path.split('/').skip(1);
        let group = match segments.next()? {
            "api" => "",
            "apis" => segments.next()?,
            _ => return None,
        };
        let version = segments.next()?;
        let rest: Vec<&str> = segments.collect();
        let (rest, is_status) = match rest.split_last() {
            Some((&"status", object)) if names_object(object) => (object, true),
            _ => (&rest[..], false),
        };
        let target = |plural: &str, namespace: Option<&str>, name: Option<&str>| {
            Ok(Self {
                resource: Name {
                    plural: plural.into(),
                    group: group.into(),
                },
                version: version.to_owned(),
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
                is_status,
            })
        };
        match *rest {
            [] => None,
            ["namespaces", namespace, plural] => Some(target(plural, Some(namespace), None)),
            ["namespaces", namespace, plural, name] => {
                Some(target(plural, Some(namespace), Some(name)))
            }
            [plural] => Some(target(plural, None, None)),
            [plural, name] => Some(target(plural, None, Some(name))),
            _ => Some(Err(Status::not_served())),
        }
    }
}

/// Whether segments name an object, and not a collection.
fn names_object(segments: &[&str]) -> bool {
    matches!(segments, ["namespaces", _, _, _] | [_, _])
}

impl Target {
    /// Whether the resource is in the same group and version, so that the group and version are
    /// served.
    pub(super) fn is_in_group_version_of(&self, resource: &Resource) -> bool {
        *self.resource.group == *resource.gvk.group && *self.version == *resource.gvk.version
    }
}

/// Returns the etcd key of an object below its resource: `namespace/name`, or the name alone. Lists
/// are in key order.
pub(super) fn key(namespace: Option<&str>, name: &str) -> Arc<str> {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}").into(),
        None => name.into(),
    }
}

/// Returns namespace and name of a key.
pub(super) fn split_key(key: &str) -> (Option<&str>, &str) {
    match key.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &str) -> Target {
        Target::parse(path).unwrap().unwrap()
    }

    #[test]
    fn paths_name_collections_and_objects_with_and_without_a_namespace() {
        let pods = target("/api/v1/namespaces/web/pods");
        assert_eq!(
            (pods.resource, pods.namespace.as_deref(), pods.name),
            (Name::from("pods"), Some("web"), None)
        );
        let deployment = target("/apis/apps/v1/namespaces/web/deployments/a");
        assert_eq!(
            (deployment.resource, deployment.name.as_deref()),
            (Name::from("deployments.apps"), Some("a"))
        );
        let namespace = target("/api/v1/namespaces/web");
        assert_eq!(
            (
                namespace.resource,
                namespace.namespace,
                namespace.name.as_deref()
            ),
            ("namespaces".into(), None, Some("web"))
        );
        assert_eq!(target("/api/v1/pods").namespace, None);
        let status = target("/apis/apps/v1/namespaces/web/deployments/a/status");
        assert_eq!(
            (status.name.as_deref(), status.is_status),
            (Some("a"), true)
        );
        let status = target("/api/v1/namespaces/web/status");
        assert_eq!(
            (status.name.as_deref(), status.is_status),
            (Some("web"), true)
        );
        let named_status = target("/api/v1/namespaces/web/configmaps/status");
        assert_eq!(
            (named_status.name.as_deref(), named_status.is_status),
            (Some("status"), false)
        );
        assert!(Target::parse("/api/v1").is_none() && Target::parse("/readyz").is_none());
        assert!(
            Target::parse("/api/v1/namespaces/web/pods/a/log")
                .unwrap()
                .is_err()
        );
    }

    #[test]
    fn the_default_resources_are_complete() {
        let names: Vec<String> = usual()
            .iter()
            .map(|resource| Name::from(resource).to_string())
            .collect();
        assert_eq!(names.len(), 8, "{names:?}");
        assert!(names.contains(&"deployments.apps".to_owned()));
    }
}
