//! Kinds, resources and units.

use std::{fmt, sync::Arc};

use super::{ClusterName, Namespace};

/// Group, version and kind of an object.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Gvk {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Version within the group.
    pub version: Arc<str>,
    /// Kind, in the singular and capitalised.
    pub kind: Arc<str>,
}

/// The group and the version of an `apiVersion`. The core group is empty.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

impl Gvk {
    /// A kind from its parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.into(),
            version: version.into(),
            kind: kind.into(),
        }
    }

    /// A kind from an `apiVersion` (`v1`, `apps/v1`) and a kind.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        Self::new(group, version, kind)
    }

    /// The `apiVersion` of objects of this kind.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.api_version(), self.kind)
    }
}

impl fmt::Debug for Gvk {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// A listable and watchable resource, as one member serves it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// Group, version and kind of its objects.
    pub gvk: Gvk,
    /// The plural that stands in URLs, such as `pods`.
    pub plural: Arc<str>,
    /// Whether its objects have namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// The collection's path on an apiserver, such as `/apis/apps/v1/namespaces/web/deployments`.
    pub fn path(&self, scope: &Scope) -> String {
        let root = if self.gvk.group.is_empty() {
            "api"
        } else {
            "apis"
        };
        let api_version = self.gvk.api_version();
        match scope {
            Scope::Namespace(namespace) if self.namespaced => {
                format!(
                    "/{root}/{api_version}/namespaces/{namespace}/{}",
                    self.plural
                )
            }
            _ => format!("/{root}/{api_version}/{}", self.plural),
        }
    }
}

/// The part of a resource that one stream covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// All namespaces, or a resource that has none.
    All,
    /// One namespace.
    Namespace(Namespace),
}

/// A name with its group, unless that is the core group: `pods`, `deployments.apps`.
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// What one list/watch stream serves: a resource of a cluster, in one scope, for all registries
/// that select it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit {
    /// The member.
    pub cluster: ClusterName,
    /// The resource.
    pub resource: Resource,
    /// The part of it.
    pub scope: Scope,
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.cluster, self.resource.gvk)?;
        match &self.scope {
            Scope::All => Ok(()),
            Scope::Namespace(namespace) => write!(out, " in {namespace}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_group_scope_and_namespacing() {
        let pods = Resource {
            gvk: Gvk::new("", "v1", "Pod"),
            plural: "pods".into(),
            namespaced: true,
        };
        let roles = Resource {
            gvk: Gvk::from_api_version("rbac.authorization.k8s.io/v1", "ClusterRole"),
            plural: "clusterroles".into(),
            namespaced: false,
        };
        let web = Scope::Namespace("web".parse().unwrap());
        assert_eq!(pods.path(&Scope::All), "/api/v1/pods");
        assert_eq!(pods.path(&web), "/api/v1/namespaces/web/pods");
        assert_eq!(
            roles.path(&web),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles"
        );
    }
}
