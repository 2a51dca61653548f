//! Access reviews of requests, and their refusals.

use fleetdex_core::model::qualified;
use fleetdex_query_api::rbac_attributes::{Attributes, ResourceAccess};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec,
};

use super::caller::Caller;
use crate::api_error::Forbidden;

/// The access review of a request for a caller.
pub fn review(attributes: &Attributes, caller: &Caller) -> SubjectAccessReviewSpec {
    let mut spec = SubjectAccessReviewSpec {
        user: Some(caller.name.clone()),
        uid: caller.uid.clone(),
        groups: Some(caller.groups.clone()),
        extra: Some(caller.extra.clone()).filter(|extra| !extra.is_empty()),
        ..SubjectAccessReviewSpec::default()
    };
    match attributes {
        Attributes::Path { verb, path } => {
            spec.non_resource_attributes = Some(NonResourceAttributes {
                path: Some(path.clone()),
                verb: Some(verb.clone()),
            });
        }
        Attributes::Resource(access) => {
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

/// The refusal of a request, worded as by Kubernetes' API server.
pub fn forbidden(attributes: &Attributes, caller: &Caller, reason: &str) -> Forbidden {
    let user = &caller.name;
    let because = |message: String| {
        if reason.is_empty() {
            message
        } else {
            format!("{message}: {reason}")
        }
    };
    match attributes {
        Attributes::Path { verb, path } => Forbidden {
            message: because(format!(
                "forbidden: User {user:?} cannot {verb} path {path:?}"
            )),
            ..Forbidden::default()
        },
        Attributes::Resource(access) => {
            let ResourceAccess {
                verb,
                group,
                resource,
                subresource,
                name,
                namespace,
                ..
            } = access;
            let qualified = qualified(resource, group);
            let what = subresource
                .as_ref()
                .map_or_else(|| resource.clone(), |below| format!("{resource}/{below}"));
            let named = name.as_ref().map(|name| format!(" {name:?}"));
            let named = named.unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use fleetdex_core::{model::Namespace, query::ResourceName};
    use fleetdex_query_api::uri::RequestUri;
    use http::Method;

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
            |method: &Method, path: &str| forbidden(&of(method, path), &alice(), "").message;
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
        let listing = Attributes::of_objects("list", &pods, "v1", Some(&web), None);
        let listing = forbidden(&listing, &alice(), "");
        assert_eq!(
            listing.message,
            r#"pods is forbidden: User "alice" cannot list resource "pods" in API group "" in the namespace "web""#
        );
        let one = Attributes::of_objects("get", &deployments, "v1", None, Some("a"));
        let one = forbidden(&one, &alice(), "no rule");
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
        let review = review(&of(&Method::GET, "/version"), &caller);
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
