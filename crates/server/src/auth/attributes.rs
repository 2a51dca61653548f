//! The authorization attributes of a request.
//!
//! Source of the rules: `RequestInfo` of
//! <https://pkg.go.dev/k8s.io/apiserver/pkg/endpoints/request>

use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::ResourceName,
};
use http::Method;
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec,
};

use super::caller::Caller;
use crate::request::{api_error::Forbidden, api_request::GROUPS, uri::RequestUri};

/// What a request does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attributes {
    /// It accesses a resource.
    Resource(ResourceAccess),
    /// It accesses a non-resource path.
    Path {
        /// The HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

/// A request's access to a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAccess {
    /// `get`, `list` …
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Plural.
    pub resource: String,
    /// The subresource, if there is one.
    pub subresource: Option<String>,
    /// The object's name, if there is one.
    pub name: Option<String>,
    /// The namespace; `None`: all namespaces, or cluster-scoped.
    pub namespace: Option<String>,
}

/// The RBAC verb that a caller needs to open a watch of objects, and to keep it open.
pub const WATCH_VERB: &str = "watch";

impl Attributes {
    /// The attributes of a request to this server, by its method and its path.
    pub fn of(method: &Method, uri: &RequestUri<'_>) -> Self {
        let segments = uri.segments();
        let ["apis", group, version, resource, rest @ ..] = segments.as_slice() else {
            return Self::Path {
                verb: method.as_str().to_ascii_lowercase(),
                path: format!("/{}", segments.join("/")),
            };
        };
        if *resource == "changes" && GROUPS.contains(group) {
            return Self::of_replication();
        }
        let name = rest.first().map(|name| (*name).to_owned());
        let verb = match (method.as_str(), &name) {
            // OPTIONS lists the methods at most, or is forwarded to a member, which decides itself.
            ("GET" | "HEAD" | "OPTIONS", None) => "list",
            ("GET" | "HEAD" | "OPTIONS", Some(_)) => "get",
            ("POST", _) => "create",
            ("PUT", _) => "update",
            ("PATCH", _) => "patch",
            ("DELETE", None) => "deletecollection",
            ("DELETE", Some(_)) => "delete",
            // No RBAC rule allows an empty verb: only superusers can send other methods.
            _ => "",
        };
        Self::Resource(ResourceAccess {
            verb: verb.to_owned(),
            group: (*group).to_owned(),
            version: (*version).to_owned(),
            resource: (*resource).to_owned(),
            subresource: rest.get(1).map(|name| (*name).to_owned()),
            name,
            namespace: None,
        })
    }

    /// Reading the whole change log of a replica, whatever the caller can see: a verb of its own,
    /// so that no role for users grants it by accident. By its path a request would be one for a
    /// subresource such as `changes/v1` or `changes/apps`, and RBAC has no rule for all of them.
    fn of_replication() -> Self {
        Self::Resource(ResourceAccess {
            verb: "replicate".to_owned(),
            group: GROUPS[0].to_owned(),
            version: crate::request::api_request::VERSION.to_owned(),
            resource: "changes".to_owned(),
            ..ResourceAccess::default()
        })
    }

    /// Seeing one cluster, or all of them.
    pub fn of_cluster(cluster: Option<&ClusterName>) -> Self {
        Self::Resource(ResourceAccess {
            verb: "get".to_owned(),
            group: GROUPS[0].to_owned(),
            version: crate::request::api_request::VERSION.to_owned(),
            resource: "clusters".to_owned(),
            name: cluster.map(ToString::to_string),
            ..ResourceAccess::default()
        })
    }

    /// Reading objects of the fleet, in one namespace or all.
    pub fn of_objects(
        verb: &str,
        resource: &ResourceName,
        version: &str,
        namespace: Option<&Namespace>,
        name: Option<&str>,
    ) -> Self {
        Self::Resource(ResourceAccess {
            verb: verb.to_owned(),
            group: resource.group.to_string(),
            version: version.to_owned(),
            resource: resource.plural.to_string(),
            subresource: None,
            name: name.map(str::to_owned),
            namespace: namespace.map(ToString::to_string),
        })
    }

    /// Whether it is a health check, which needs no authorization.
    pub fn is_health(&self) -> bool {
        matches!(self, Self::Path { path, .. } if matches!(path.as_str(), "/healthz" | "/livez" | "/readyz"))
    }

    /// Bytes that the caller has chosen.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Path { verb, path } => verb.len() + path.len(),
            Self::Resource(access) => {
                let optional = [&access.subresource, &access.name, &access.namespace];
                let optional: usize = optional.into_iter().flatten().map(String::len).sum();
                access.verb.len()
                    + access.group.len()
                    + access.version.len()
                    + access.resource.len()
                    + optional
            }
        }
    }

    /// The access review of these attributes for a caller.
    pub fn review(&self, caller: &Caller) -> SubjectAccessReviewSpec {
        let mut spec = SubjectAccessReviewSpec {
            user: Some(caller.name.clone()),
            uid: caller.uid.clone(),
            groups: Some(caller.groups.clone()),
            extra: Some(caller.extra.clone()).filter(|extra| !extra.is_empty()),
            ..SubjectAccessReviewSpec::default()
        };
        match self {
            Self::Path { verb, path } => {
                spec.non_resource_attributes = Some(NonResourceAttributes {
                    path: Some(path.clone()),
                    verb: Some(verb.clone()),
                });
            }
            Self::Resource(access) => {
                spec.resource_attributes = Some(ResourceAttributes {
                    group: Some(access.group.clone()),
                    name: access.name.clone(),
                    namespace: access.namespace.clone(),
                    resource: Some(access.resource.clone()),
                    subresource: access.subresource.clone(),
                    verb: Some(access.verb.clone()),
                    version: Some(access.version.clone()),
                    ..ResourceAttributes::default()
                });
            }
        }
        spec
    }

    /// The refusal, worded as by Kubernetes' API server.
    pub fn forbidden(&self, caller: &Caller, reason: &str) -> Forbidden {
        let user = &caller.name;
        let because = |message: String| {
            if reason.is_empty() {
                message
            } else {
                format!("{message}: {reason}")
            }
        };
        match self {
            Self::Path { verb, path } => Forbidden {
                message: because(format!(
                    "forbidden: User {user:?} cannot {verb} path {path:?}"
                )),
                ..Forbidden::default()
            },
            Self::Resource(access) => {
                let ResourceAccess {
                    verb,
                    group,
                    resource,
                    subresource,
                    name,
                    namespace,
                    ..
                } = access;
                let qualified = if group.is_empty() {
                    resource.clone()
                } else {
                    format!("{resource}.{group}")
                };
                let what = subresource
                    .as_ref()
                    .map_or_else(|| resource.clone(), |below| format!("{resource}/{below}"));
                let named = name
                    .as_ref()
                    .map(|name| format!(" {name:?}"))
                    .unwrap_or_default();
                let scope = namespace.as_ref().map_or_else(
                    || "at the cluster scope".to_owned(),
                    |name| format!("in the namespace {name:?}"),
                );
                Forbidden {
                    group: group.clone(),
                    resource: resource.clone(),
                    name: name.clone().unwrap_or_default(),
                    message: because(format!(
                        "{qualified}{named} is forbidden: User {user:?} cannot {verb} resource {what:?} in API group {group:?} {scope}"
                    )),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: &Method, path: &str) -> Attributes {
        Attributes::of(method, &RequestUri::parse(path, None).unwrap())
    }

    fn alice() -> Caller {
        Caller {
            name: "alice".to_owned(),
            groups: vec!["dev".to_owned()],
            ..Caller::local()
        }
    }

    #[test]
    fn paths_are_parsed_as_the_apiserver_in_front_parses_them() {
        let refusal =
            |method: &Method, path: &str| of(method, path).forbidden(&alice(), "").message;
        let group = "/apis/search.fleetdex.io/v1alpha1";
        let lines = [
            refusal(&Method::GET, &format!("{group}/search/api/v1/pods")),
            refusal(
                &Method::GET,
                &format!("{group}/search/cache/apis/apps/v1/deployments"),
            ),
            refusal(
                &Method::GET,
                &format!("{group}/clusters/member1/api/v1/pods"),
            ),
            refusal(
                &Method::PATCH,
                &format!("{group}/proxying/karmada/proxy/api/v1/namespaces/web/pods/a"),
            ),
            refusal(
                &Method::DELETE,
                &format!("{group}/proxying/karmada/proxy/api/v1/namespaces/web/pods"),
            ),
            refusal(&Method::POST, &format!("{group}/verify")),
            refusal(&Method::GET, &format!("{group}/objects")),
            refusal(&Method::GET, &format!("{group}/completions")),
            refusal(
                &Method::GET,
                &format!("{group}/related/api/v1/namespaces/web/secrets/db"),
            ),
            refusal(
                &Method::GET,
                &format!("{group}/merged/apis/apps/v1/namespaces/web/deployments/shop"),
            ),
            refusal(&Method::POST, &format!("{group}/interpret")),
            refusal(&Method::GET, &format!("{group}/clusters")),
            refusal(
                &Method::GET,
                &format!("{group}/changes/apis/apps/v1/deployments"),
            ),
            refusal(&Method::GET, group),
            refusal(&Method::GET, "/version"),
            refusal(&Method::OPTIONS, "/version"),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r#"
        search.search.fleetdex.io "api" is forbidden: User "alice" cannot get resource "search/v1" in API group "search.fleetdex.io" at the cluster scope
        search.search.fleetdex.io "cache" is forbidden: User "alice" cannot get resource "search/apis" in API group "search.fleetdex.io" at the cluster scope
        clusters.search.fleetdex.io "member1" is forbidden: User "alice" cannot get resource "clusters/api" in API group "search.fleetdex.io" at the cluster scope
        proxying.search.fleetdex.io "karmada" is forbidden: User "alice" cannot patch resource "proxying/proxy" in API group "search.fleetdex.io" at the cluster scope
        proxying.search.fleetdex.io "karmada" is forbidden: User "alice" cannot delete resource "proxying/proxy" in API group "search.fleetdex.io" at the cluster scope
        verify.search.fleetdex.io is forbidden: User "alice" cannot create resource "verify" in API group "search.fleetdex.io" at the cluster scope
        objects.search.fleetdex.io is forbidden: User "alice" cannot list resource "objects" in API group "search.fleetdex.io" at the cluster scope
        completions.search.fleetdex.io is forbidden: User "alice" cannot list resource "completions" in API group "search.fleetdex.io" at the cluster scope
        related.search.fleetdex.io "api" is forbidden: User "alice" cannot get resource "related/v1" in API group "search.fleetdex.io" at the cluster scope
        merged.search.fleetdex.io "apis" is forbidden: User "alice" cannot get resource "merged/apps" in API group "search.fleetdex.io" at the cluster scope
        interpret.search.fleetdex.io is forbidden: User "alice" cannot create resource "interpret" in API group "search.fleetdex.io" at the cluster scope
        clusters.search.fleetdex.io is forbidden: User "alice" cannot list resource "clusters" in API group "search.fleetdex.io" at the cluster scope
        changes.search.fleetdex.io is forbidden: User "alice" cannot replicate resource "changes" in API group "search.fleetdex.io" at the cluster scope
        forbidden: User "alice" cannot get path "/apis/search.fleetdex.io/v1alpha1"
        forbidden: User "alice" cannot get path "/version"
        forbidden: User "alice" cannot options path "/version"
        "#);
    }

    #[test]
    fn refusals_are_worded_as_by_the_apiserver_with_the_authorizers_reason() {
        let web: Namespace = "web".parse().unwrap();
        let pods = ResourceName::new("", "pods");
        let deployments = ResourceName::new("apps", "deployments");
        let listing =
            Attributes::of_objects("list", &pods, "v1", Some(&web), None).forbidden(&alice(), "");
        assert_eq!(
            listing.message,
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "web""#
        );
        let one = Attributes::of_objects("get", &deployments, "v1", None, Some("a"))
            .forbidden(&alice(), "no rule");
        assert_eq!(
            one.message,
            r#"deployments.apps "a" is forbidden: User "alice" cannot get resource "deployments" in API group "apps" at the cluster scope: no rule"#
        );
        assert_eq!(
            (one.group.as_str(), one.resource.as_str(), one.name.as_str()),
            ("apps", "deployments", "a")
        );
    }

    #[test]
    fn a_review_contains_the_whole_caller() {
        let extra = [("scopes".to_owned(), vec!["a".to_owned(), "b".to_owned()])];
        let caller = Caller {
            uid: Some("u1".to_owned()),
            extra: extra.into(),
            ..alice()
        };
        let review = of(&Method::GET, "/version").review(&caller);
        insta::assert_json_snapshot!(review, @r#"
        {
          "extra": {
            "scopes": [
              "a",
              "b"
            ]
          },
          "groups": [
            "dev"
          ],
          "nonResourceAttributes": {
            "path": "/version",
            "verb": "get"
          },
          "uid": "u1",
          "user": "alice"
        }
        "#);
        let health =
            ["/healthz", "/livez", "/readyz"].map(|path| of(&Method::GET, path).is_health());
        assert_eq!(health, [true; 3]);
        assert!(!of(&Method::GET, "/healthz/etcd").is_health());
    }
}
