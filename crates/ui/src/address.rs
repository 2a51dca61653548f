//! Addresses of views, and of objects in the query API.

use fleetdex_core::model::{ClusterName, qualified};
use percent_encoding::percent_decode_str;

use crate::response::ROOT;

/// A text as a segment of a path, or as a parameter.
pub(crate) use fleetdex_query_api::percent::encode as encoded;

/// A segment of a path as the text that it stands for.
pub(crate) fn decoded(segment: &str) -> Option<String> {
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    Some(text.into_owned())
}

/// The address of a search.
pub(crate) fn of_search(text: &str) -> String {
    if text.is_empty() {
        format!("{ROOT}/")
    } else {
        format!("{ROOT}/?q={}", encoded(text))
    }
}

/// One object of a cluster, by its native path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ObjectAddress {
    /// The member.
    pub(crate) cluster: ClusterName,
    /// The object, as its API server has it.
    pub(crate) path: NativePath,
}

/// The path of an object at its API server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NativePath {
    /// API group; empty for the core group.
    pub(crate) group: String,
    /// Version in the group.
    pub(crate) version: String,
    /// `None` for a cluster-scoped object.
    pub(crate) namespace: Option<String>,
    /// The plural of the resource.
    pub(crate) plural: String,
    /// The name.
    pub(crate) name: String,
}

impl NativePath {
    /// Reads decoded segments such as `apis`, `apps`, `v1`, `namespaces`, `shop`, `deployments`,
    /// `checkout`.
    pub(crate) fn parse(segments: &[&str]) -> Option<Self> {
        let (group, version, rest) = match segments {
            ["api", version, rest @ ..] => ("", version, rest),
            ["apis", group, version, rest @ ..] => (*group, version, rest),
            _ => return None,
        };
        let (namespace, plural, name) = match rest {
            ["namespaces", namespace, plural, name] => (Some(*namespace), plural, name),
            [plural, name] => (None, plural, name),
            _ => return None,
        };
        let is_given = |text: &&str| !text.is_empty();
        let texts = [*version, *plural, *name];
        texts.iter().all(is_given).then(|| Self {
            group: group.to_owned(),
            version: (*version).to_owned(),
            namespace: namespace.map(str::to_owned),
            plural: (*plural).to_owned(),
            name: (*name).to_owned(),
        })
    }

    /// Reads a path whose segments are encoded as they are in URLs.
    pub(crate) fn decode(path: &str) -> Option<Self> {
        let segments = path.strip_prefix('/')?.split('/').map(decoded);
        let segments = segments.collect::<Option<Vec<String>>>()?;
        Self::parse(&segments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// The encoded path of the object.
    pub(crate) fn of_object(&self) -> String {
        format!("{}/{}", self.of_resource(), encoded(&self.name))
    }

    /// The encoded path of all objects of its resource and namespace.
    pub(crate) fn of_resource(&self) -> String {
        let mut path = self.of_version();
        if let Some(namespace) = &self.namespace {
            path.push_str("/namespaces/");
            path.push_str(&encoded(namespace));
        }
        format!("{path}/{}", encoded(&self.plural))
    }

    /// The encoded path of all objects of its resource in all namespaces.
    pub(crate) fn of_all_namespaces(&self) -> String {
        format!("{}/{}", self.of_version(), encoded(&self.plural))
    }

    fn of_version(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", encoded(&self.version))
        } else {
            format!("/apis/{}/{}", encoded(&self.group), encoded(&self.version))
        }
    }

    /// The resource as kubectl and searches name it: `pods`, `deployments.apps`.
    pub(crate) fn resource(&self) -> String {
        qualified(&self.plural, &self.group)
    }
}

impl ObjectAddress {
    /// The address of its view.
    pub(crate) fn page(&self) -> String {
        format!(
            "{ROOT}/clusters/{}{}",
            encoded(self.cluster.as_str()),
            self.path.of_object()
        )
    }

    /// Its path in the query API, below the group and version.
    pub(crate) fn query(&self) -> String {
        format!(
            "/clusters/{}{}",
            encoded(self.cluster.as_str()),
            self.path.of_object()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_paths_are_read_and_written() {
        for path in [
            "/api/v1/namespaces/web/pods/a",
            "/api/v1/nodes/n1",
            "/api/v1/namespaces/web",
            "/apis/apps/v1/namespaces/shop/deployments/checkout",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        ] {
            let read = NativePath::decode(path).unwrap();
            assert_eq!(read.of_object(), path);
        }
        for path in [
            "",
            "/",
            "/api/v1",
            "/api/v1/pods",
            "/apis/apps/v1/x//y",
            "/a/b/c/d",
        ] {
            assert_eq!(NativePath::decode(path), None, "{path}");
        }
    }

    #[test]
    fn addresses_encode_what_a_url_cannot_hold() {
        assert_eq!(of_search("a b&c"), "/ui/?q=a%20b%26c");
        assert_eq!(of_search(""), "/ui/");
        let object = ObjectAddress {
            cluster: "m1".parse().unwrap(),
            path: NativePath::decode("/api/v1/nodes/a%2Fb").unwrap(),
        };
        assert_eq!(object.page(), "/ui/clusters/m1/api/v1/nodes/a%2Fb");
        assert_eq!(decoded("eu%2Fprod%40aws").as_deref(), Some("eu/prod@aws"));
    }
}
