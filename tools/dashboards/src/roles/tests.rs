//! Roles of small RBAC configurations. Against real servers they are tested in
//! `e2e/tests/security`.

#![allow(clippy::unwrap_used, reason = "a test")]

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};

use super::*;

/// A role's rules: verbs, groups, resources, names.
type RuleText = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

const LIST_PODS: RuleText = ("get,list,watch", "", "pods,pods/log", &[]);
const QUERY_CORE: RuleText = ("get", "search.fleetdex.io", "search/v1", &[]);
const QUERY: RuleText = ("get", "search.fleetdex.io", "*", &[]);

fn rules(rules: &[RuleText]) -> Value {
    let split = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
    rules
        .iter()
        .map(|(verbs, groups, resources, names)| {
            json!({ "verbs": split(verbs), "apiGroups": split(groups), "resources": split(resources), "resourceNames": names })
        })
        .collect()
}

/// `User:alice` or `Group:dev`.
fn subject(text: &str) -> Value {
    let (kind, name) = text.split_once(':').unwrap();
    json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name })
}

#[derive(Default)]
struct Rbac(RbacObjects);

impl Rbac {
    /// Binds a `ClusterRole` of its own in all namespaces.
    fn everywhere(mut self, who: &[&str], of: &[RuleText]) -> Self {
        let name = format!("role-{}", self.0.cluster_roles.len());
        let role = json!({ "metadata": { "name": name }, "rules": rules(of) });
        self.0
            .cluster_roles
            .push(serde_json::from_value::<ClusterRole>(role).unwrap());
        let binding = Self::binding(&name, "ClusterRole", who, None);
        let binding = serde_json::from_value::<ClusterRoleBinding>(binding).unwrap();
        self.0.cluster_role_bindings.push(binding);
        self
    }

    /// Binds a `Role` of its own in a namespace.
    fn inside(mut self, namespace: &str, who: &[&str], of: &[RuleText]) -> Self {
        let name = format!("role-{}", self.0.roles.len());
        let metadata = json!({ "name": name, "namespace": namespace });
        let role = json!({ "metadata": metadata, "rules": rules(of) });
        self.0
            .roles
            .push(serde_json::from_value::<Role>(role).unwrap());
        let binding = Self::binding(&name, "Role", who, Some(namespace));
        let binding = serde_json::from_value::<RoleBinding>(binding).unwrap();
        self.0.role_bindings.push(binding);
        self
    }

    fn binding(role: &str, kind: &str, who: &[&str], namespace: Option<&str>) -> Value {
        let subjects: Vec<Value> = who.iter().map(|who| subject(who)).collect();
        json!({
            "metadata": { "name": "binding", "namespace": namespace },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role },
            "subjects": subjects,
        })
    }

    fn configuration(&self, groups: &[(&str, &str)]) -> SecurityConfiguration {
        let groups_of_users = groups
            .iter()
            .map(|(user, groups)| {
                (
                    (*user).to_owned(),
                    groups.split(',').map(str::to_owned).collect(),
                )
            })
            .collect();
        let options = RoleOptions {
            tenant: GLOBAL_TENANT.to_owned(),
            groups_of_users,
            ..RoleOptions::default()
        };
        security_configuration(&self.0, &options)
    }

    /// The queries of the roles, by their names.
    fn filters(&self, groups: &[(&str, &str)]) -> BTreeMap<String, String> {
        let roles = self.configuration(groups).roles;
        let filter = |role: &Value| {
            role["index_permissions"][0]["dls"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        roles
            .iter()
            .map(|(name, role)| (name.clone(), filter(role)))
            .collect()
    }

    /// The query of alice's role, without groups.
    fn filter_of_alice(&self) -> Option<String> {
        self.filters(&[]).remove("fleetdex_user_alice")
    }
}

fn alice() -> Rbac {
    Rbac::default().everywhere(&["User:alice"], &[QUERY])
}

#[test]
fn a_role_has_one_alias_a_query_and_a_tenant_to_read() {
    let configuration = alice()
        .inside("web", &["User:alice"], &[LIST_PODS])
        .configuration(&[]);
    assert_eq!(configuration.warnings, [""; 0]);
    insta::assert_json_snapshot!(configuration.json(), @r#"
    {
      "roles": {
        "fleetdex_user_alice": {
          "cluster_permissions": [
            "indices:data/read/mget",
            "indices:data/read/msearch"
          ],
          "index_permissions": [
            {
              "index_patterns": [
                "fleetdex"
              ],
              "dls": "{\"bool\":{\"filter\":[{\"terms\":{\"search.group\":[\"\"]}},{\"terms\":{\"search.resource\":[\"pods\"]}},{\"terms\":{\"metadata.namespace\":[\"web\"]}}]}}",
              "allowed_actions": [
                "indices:data/read/search*",
                "indices:data/read/field_caps*"
              ]
            },
            {
              "index_patterns": [
                ".kibana"
              ],
              "allowed_actions": [
                "read"
              ]
            }
          ],
          "tenant_permissions": [
            {
              "tenant_patterns": [
                "global_tenant"
              ],
              "allowed_actions": [
                "kibana_all_read"
              ]
            }
          ]
        }
      },
      "rolesmapping": {
        "fleetdex_user_alice": {
          "users": [
            "alice"
          ],
          "backend_roles": []
        }
      }
    }
    "#);
}

#[test]
fn files_begin_with_their_type() {
    let [roles, mappings] = alice()
        .everywhere(&["User:alice"], &[LIST_PODS])
        .configuration(&[])
        .files();
    let names = |file: &Value| {
        file.as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&roles), ["_meta", "fleetdex_user_alice"]);
    assert_eq!(names(&mappings), ["_meta", "fleetdex_user_alice"]);
    assert_eq!(
        mappings["_meta"],
        json!({ "type": "rolesmapping", "config_version": 2 })
    );
}

#[test]
fn resources_of_the_same_rules_share_an_alternative() {
    let apps = ("list", "apps", "*", &[][..]);
    let filter = alice()
        .inside("db", &["User:alice"], &[LIST_PODS])
        .inside("web", &["User:alice"], &[LIST_PODS, apps])
        .everywhere(
            &["User:alice"],
            &[("list", ",apps", "services,deployments", &[])],
        )
        .filter_of_alice();
    insta::assert_snapshot!(filter.unwrap(), @r#"{"bool":{"should":[{"bool":{"filter":[{"terms":{"search.group":["","apps"]}},{"terms":{"search.resource":["deployments","services"]}}]}},{"bool":{"filter":[{"terms":{"search.group":[""]}},{"terms":{"search.resource":["pods"]}},{"terms":{"metadata.namespace":["db","web"]}}]}},{"bool":{"filter":[{"terms":{"search.group":["apps"]}},{"terms":{"metadata.namespace":["web"]}}]}}],"minimum_should_match":1}}"#);
}

#[test]
fn rights_on_everything_are_a_query_that_matches_everything() {
    let all = ("*", "*", "*", &[][..]);
    let filters = Rbac::default()
        .everywhere(&["Group:system:masters"], &[all])
        .filters(&[]);
    let expected = (
        "fleetdex_group_system_3amasters".to_owned(),
        r#"{"match_all":{}}"#.to_owned(),
    );
    assert_eq!(filters, BTreeMap::from([expected]));
}

#[test]
fn nothing_is_shown_without_both_rights() {
    let list_only = Rbac::default().everywhere(&["User:alice"], &[LIST_PODS]);
    assert_eq!(list_only.filter_of_alice(), None);
    assert_eq!(list_only.configuration(&[]).warnings.len(), 1);
    assert_eq!(alice().filter_of_alice(), None);
    // The query API's own resources have no namespace.
    let in_namespace = Rbac::default().inside("web", &["User:alice"], &[QUERY, LIST_PODS]);
    assert_eq!(in_namespace.filter_of_alice(), None);
}

#[test]
fn rules_that_do_not_let_list_a_whole_kind_grant_nothing() {
    for rule in [
        ("get,watch", "", "pods", &[][..]),
        ("list", "", "pods/log", &[]),
        ("list", "", "*/status", &[]),
        ("list", "", "pods", &["web-0"]),
        ("list", "", "${user.name}", &[]),
    ] {
        let rbac = alice().everywhere(&["User:alice"], &[rule]);
        assert_eq!(rbac.filter_of_alice(), None, "{rule:?}");
    }
}

#[test]
fn the_right_to_query_bounds_groups_and_clusters() {
    let filter = |rules: &[RuleText]| {
        let rbac = Rbac::default().everywhere(&["User:alice"], rules);
        rbac.everywhere(&["User:alice"], &[("list", "*", "*", &[])])
            .filter_of_alice()
    };
    let group = "search.fleetdex.io";
    let clusters = ("get", group, "clusters", &[][..]);
    let core = QUERY_CORE;
    assert_eq!(
        filter(&[clusters, core, ("get", group, "search/apps", &["apis"])]).unwrap(),
        r#"{"terms":{"search.group":["","apps"]}}"#
    );
    let one = ("get", group, "clusters,clusters/api", &["member1"][..]);
    assert_eq!(
        filter(&[one, core]).unwrap(),
        r#"{"bool":{"filter":[{"terms":{"search.group":[""]}},{"terms":{"cluster":["member1"]}}]}}"#
    );
    let rbac = Rbac::default().everywhere(&["User:alice"], &[one, QUERY_CORE, LIST_PODS]);
    let role = &rbac.configuration(&[]).roles["fleetdex_user_alice"];
    assert_eq!(
        role["index_permissions"][0]["index_patterns"],
        json!(["fleetdex-member1"])
    );
    for too_little in [
        &[core][..],
        &[clusters],
        &[clusters, ("get", group, "search/v1", &["apis"])],
        &[clusters, ("get", group, "search/*", &[])],
        &[clusters, ("list", group, "objects", &[])],
        &[("get", group, "clusters", &["*", "${user.name}"]), core],
        &[("get", group, "*", &["member1"])],
    ] {
        assert_eq!(filter(too_little), None, "{too_little:?}");
    }
}

#[test]
fn rights_of_everybody_and_of_named_groups_count_for_a_user() {
    let rbac = Rbac::default()
        .everywhere(&["Group:system:authenticated"], &[QUERY])
        .inside("web", &["User:alice"], &[LIST_PODS])
        .inside("db", &["Group:dba"], &[LIST_PODS]);
    let without = rbac.filters(&[]);
    assert!(without["fleetdex_user_alice"].contains(r#"{"metadata.namespace":["web"]}"#));
    let with = rbac.filters(&[("alice", "dba"), ("bob", "dba")]);
    assert!(with["fleetdex_user_alice"].contains(r#"{"metadata.namespace":["db","web"]}"#));
    assert_eq!(with["fleetdex_user_bob"], with["fleetdex_group_dba"]);
}

#[test]
fn people_in_two_groups_see_what_one_lists_and_the_other_may_query() {
    let rbac = Rbac::default()
        .everywhere(&["Group:developers"], &[QUERY])
        .inside("web", &["Group:team web"], &[LIST_PODS])
        .inside("web", &["User:alice"], &[LIST_PODS]);
    let configuration = rbac.configuration(&[]);
    let name = "fleetdex_groups_developers_team_20web";
    assert_eq!(configuration.roles.keys().collect::<Vec<_>>(), [name]);
    assert_eq!(
        configuration.mappings[name],
        json!({ "and_backend_roles": ["developers", "team web"] })
    );
    // Whether alice is a developer cannot be known.
    assert_eq!(configuration.warnings.len(), 1);
    assert!(
        configuration.warnings[0].contains("--groups alice=GROUP"),
        "{:?}",
        configuration.warnings
    );
    let with = rbac.configuration(&[("alice", "developers")]);
    assert!(with.warnings.is_empty() && with.roles.contains_key("fleetdex_user_alice"));
}

#[test]
fn names_that_opensearch_reads_as_patterns_get_no_role() {
    for name in ["*", "al?ce", "/.*/", "dev*"] {
        let who = [&*format!("User:{name}"), &*format!("Group:{name}")];
        let configuration = Rbac::default()
            .everywhere(&who, &[QUERY, LIST_PODS])
            .configuration(&[]);
        assert!(configuration.roles.is_empty(), "{name}");
        assert_eq!(configuration.warnings.len(), 2, "{name}");
    }
}

#[test]
fn components_of_kubernetes_and_service_accounts_get_no_role() {
    let who = ["User:system:kube-scheduler", "Group:system:serviceaccounts"];
    let mut rbac = Rbac::default().everywhere(&who, &[QUERY, LIST_PODS]);
    let account = json!({ "kind": "ServiceAccount", "name": "bot", "namespace": "ci" });
    let subjects = rbac.0.cluster_role_bindings[0].subjects.as_mut().unwrap();
    subjects.push(serde_json::from_value(account).unwrap());
    let configuration = rbac.configuration(&[]);
    assert!(configuration.roles.is_empty() && configuration.warnings.is_empty());
}

#[test]
fn a_query_with_too_many_alternatives_is_left_out() {
    let rules: Vec<Value> = (0..1_001)
        .map(|number| json!({ "verbs": ["list"], "apiGroups": [format!("g{number}")], "resources": ["a"] }))
        .collect();
    let mut rbac = alice().everywhere(&["User:alice"], &[]);
    rbac.0.cluster_roles[1] =
        serde_json::from_value(json!({ "metadata": { "name": "role-1" }, "rules": rules }))
            .unwrap();
    let configuration = rbac.configuration(&[]);
    assert!(configuration.roles.is_empty());
    assert!(
        configuration.warnings[0].contains("1001 different sets"),
        "{:?}",
        configuration.warnings
    );
}
