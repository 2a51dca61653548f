//! From what was rendered to the objects of a set, and the rights that they need.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_clusters::discovery::Discovery;
use fleetdex_core::{
    kinds,
    model::{Gvk, split_api_version},
};
use fleetdex_distribution::template_name::TemplateName;
use fleetdex_interpreter::value::text;
use fleetdex_rendering::{hooks::ChartHook, rendered::RenderedSet, scopes::KindScopes};
use serde_json::Value;

use super::{
    failure::{SetFailure, named},
    rights::NeededRight,
};

/// Objects that a message names, at most.
const NAMED: usize = 5;
const RBAC: &str = "rbac.authorization.k8s.io";
/// Fields of metadata that a server sets.
const OF_SERVERS: [&str; 6] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The kinds of a set, by what it defines and what servers have.
pub struct SetKinds<'d> {
    scopes: KindScopes,
    /// The plurals of definitions in the set, by group and kind.
    defined: BTreeMap<(String, String), String>,
    served: &'d [Arc<Discovery>],
}

impl<'d> SetKinds<'d> {
    /// Of a set, with what its clusters and the control plane serve.
    pub fn of(set: &RenderedSet, served: &'d [Arc<Discovery>]) -> Self {
        let mut scopes = KindScopes::of(set);
        let hooks = || set.hooks.iter().map(|hook| &hook.object);
        let objects = || set.crds.iter().chain(&set.objects).chain(hooks());
        let kinds: BTreeSet<(&str, &str)> = objects().map(group_kind).collect();
        for (group, kind) in kinds {
            let mut found = served.iter().flat_map(|one| &one.served);
            let found = found.find(|one| {
                let gvk = &one.resource.gvk;
                &*gvk.group == group && &*gvk.kind == kind
            });
            if let Some(found) = found {
                scopes.add(group, kind, found.resource.namespaced);
            }
        }
        let definitions = objects().filter(|one| one["kind"] == "CustomResourceDefinition");
        let defined = definitions.map(|one| {
            let of = |path: &[&str]| text(one, path).to_owned();
            let key = (of(&["spec", "group"]), of(&["spec", "names", "kind"]));
            (key, of(&["spec", "names", "plural"]))
        });
        Self {
            defined: defined.collect(),
            scopes,
            served,
        }
    }

    /// Adds kinds without namespaces that something else serves, by group and kind.
    pub fn add_cluster_scoped(&mut self, kinds: &BTreeSet<(String, String)>) {
        for (group, kind) in kinds {
            self.scopes.add(group, kind, false);
        }
    }

    fn plural(&self, group: &str, kind: &str) -> Option<String> {
        let key = (group.to_owned(), kind.to_owned());
        if let Some(plural) = self.defined.get(&key).filter(|plural| !plural.is_empty()) {
            return Some(plural.clone());
        }
        let mut built_in = kinds::all().iter();
        if let Some(found) = built_in.find(|one| one.group == group && one.kind == kind) {
            return Some(found.plural.to_owned());
        }
        let mut served = self.served.iter().flat_map(|one| &one.served);
        let found = served.find(|one| {
            let gvk = &one.resource.gvk;
            &*gvk.group == group && &*gvk.kind == kind
        });
        found.map(|one| one.resource.plural.to_string())
    }
}

/// The objects of a set, with their namespaces, definitions first.
pub fn objects(
    mut set: RenderedSet,
    namespace: &str,
    kinds: &SetKinds<'_>,
) -> Result<Vec<Value>, SetFailure> {
    set.fill_namespaces(namespace, |kind: &Gvk| kinds.scopes.is_namespaced(kind));
    let mut objects = set.crds;
    objects.append(&mut set.objects);
    objects.iter_mut().for_each(strip);
    let mut known = BTreeSet::new();
    let mut repeated = Vec::new();
    for object in &objects {
        let name = TemplateName::of(object);
        let (group, kind) = group_kind(object);
        let identity = (group, kind, name.namespace.clone(), name.name.clone());
        if !known.insert(identity) {
            repeated.push(name);
        }
    }
    if !repeated.is_empty() {
        return Err(SetFailure::new(
            "DuplicateObjects",
            format!(
                "the source has these objects twice: {}",
                named(repeated.iter(), NAMED)
            ),
        ));
    }
    Ok(objects)
}

/// The hooks of a set, with their namespaces, in the order in which those of one step run.
pub fn hooks(set: &RenderedSet, namespace: &str, kinds: &SetKinds<'_>) -> Vec<ChartHook> {
    let mut set = RenderedSet {
        hooks: set.hooks.clone(),
        ..RenderedSet::default()
    };
    set.fill_namespaces(namespace, |kind: &Gvk| kinds.scopes.is_namespaced(kind));
    for hook in &mut set.hooks {
        strip(&mut hook.object);
    }
    set.hooks
}

/// The rights that an account needs for these objects. `has_overrides`: they may become others in
/// some clusters.
pub fn needed_rights<'o>(
    objects: impl IntoIterator<Item = &'o Value>,
    kinds: &SetKinds<'_>,
    has_overrides: bool,
) -> Result<BTreeSet<NeededRight>, SetFailure> {
    let mut needed = BTreeSet::new();
    let mut unknown = BTreeSet::new();
    for object in objects {
        let (group, kind) = group_kind(object);
        let Some(plural) = kinds.plural(group, kind) else {
            unknown.insert(format!("{kind} of {}", text(object, &["apiVersion"])));
            continue;
        };
        let right = |verb: &'static str| NeededRight {
            verb,
            group: group.to_owned(),
            resource: plural.clone(),
            namespace: text(object, &["metadata", "namespace"]).to_owned(),
            name: String::new(),
        };
        needed.insert(right("create"));
        // As the API server has it: an account grants no rights that it does not have.
        match (group, kind) {
            (RBAC, "Role" | "ClusterRole") => {
                needed.insert(right("escalate"));
            }
            (RBAC, "RoleBinding" | "ClusterRoleBinding") => {
                needed.insert(bind(object, has_overrides));
            }
            _ => {}
        }
    }
    if unknown.is_empty() {
        return Ok(needed);
    }
    Err(SetFailure::new(
        "KindNotServed",
        format!(
            "neither the control plane nor a cluster serves {}, and the source does not define it",
            named(unknown.iter(), NAMED)
        ),
    ))
}

/// The right to bind the role that a binding names.
fn bind(binding: &Value, has_overrides: bool) -> NeededRight {
    let is_role = text(binding, &["roleRef", "kind"]) == "Role";
    let namespace = if is_role {
        text(binding, &["metadata", "namespace"])
    } else {
        ""
    };
    // An override may name another role.
    let name = if has_overrides {
        ""
    } else {
        text(binding, &["roleRef", "name"])
    };
    NeededRight {
        verb: "bind",
        group: RBAC.to_owned(),
        resource: if is_role && !has_overrides {
            "roles".to_owned()
        } else {
            "clusterroles".to_owned()
        },
        namespace: if has_overrides { "" } else { namespace }.to_owned(),
        name: name.to_owned(),
    }
}

/// Removes what belongs to a server that an object was read from.
fn strip(object: &mut Value) {
    if let Some(members) = object.as_object_mut() {
        members.shift_remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in OF_SERVERS {
            metadata.shift_remove(field);
        }
    }
}

fn group_kind(object: &Value) -> (&str, &str) {
    let (group, _) = split_api_version(text(object, &["apiVersion"]));
    (group, text(object, &["kind"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(objects: &Value) -> RenderedSet {
        RenderedSet {
            objects: objects.as_array().unwrap().clone(),
            ..RenderedSet::default()
        }
    }

    fn rights(objects: &Value, has_overrides: bool) -> Result<Vec<String>, SetFailure> {
        let set = set(objects);
        let kinds = SetKinds::of(&set, &[]);
        let objects = super::objects(set.clone(), "shop", &kinds)?;
        let needed = needed_rights(&objects, &kinds, has_overrides)?;
        Ok(needed.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn objects_have_their_namespaces_and_nothing_of_a_server() {
        let set = RenderedSet {
            crds: vec![json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": "fleets.example.com", "namespace": "x"},
                "spec": {"group": "example.com", "scope": "Cluster",
                    "names": {"kind": "Fleet", "plural": "fleets"}},
            })],
            objects: vec![
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {},
                    "metadata": {"name": "web", "uid": "u", "creationTimestamp": null}}),
                json!({"apiVersion": "example.com/v1", "kind": "Fleet",
                    "metadata": {"name": "all", "namespace": "x"}}),
            ],
            ..RenderedSet::default()
        };
        let kinds = SetKinds::of(&set, &[]);
        let found = objects(set.clone(), "shop", &kinds).unwrap();
        assert_eq!(found[0]["metadata"], json!({"name": "fleets.example.com"}));
        assert_eq!(
            found[1],
            json!({"apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": {"name": "web", "namespace": "shop"}})
        );
        assert_eq!(found[2]["metadata"], json!({"name": "all"}));
        let needed = needed_rights(&found, &kinds, false).unwrap();
        let needed: Vec<String> = needed.iter().map(ToString::to_string).collect();
        assert_eq!(
            needed,
            [
                "create customresourcedefinitions.apiextensions.k8s.io",
                "create deployments.apps in namespace shop",
                "create fleets.example.com",
            ]
        );
    }

    #[test]
    fn who_binds_a_role_needs_the_right_to_bind_it() {
        let binding = |kind: &str, role: &str| {
            json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": "a"}, "roleRef": {"kind": role, "name": "admin"}}])
        };
        let of = |right: &str| format!("{right}.rbac.authorization.k8s.io");
        for (kind, role, has_overrides, expected) in [
            (
                "ClusterRoleBinding",
                "ClusterRole",
                false,
                of("bind clusterroles") + " admin",
            ),
            (
                "RoleBinding",
                "ClusterRole",
                false,
                of("bind clusterroles") + " admin",
            ),
            (
                "RoleBinding",
                "Role",
                false,
                of("bind roles") + " admin in namespace shop",
            ),
            ("RoleBinding", "Role", true, of("bind clusterroles")),
        ] {
            let found = rights(&binding(kind, role), has_overrides).unwrap();
            assert!(found.contains(&expected), "{kind} {role}: {found:?}");
            assert_eq!(found.len(), 2);
        }
        let role = json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "a"}}]);
        let found = rights(&role, false).unwrap();
        assert!(found.contains(&of("escalate clusterroles")), "{found:?}");
    }

    #[test]
    fn repeated_objects_and_unknown_kinds_are_refused_by_name() {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
        let fleet = json!({"apiVersion": "example.com/v1", "kind": "Fleet",
            "metadata": {"name": "all"}});
        for (objects, reason, part) in [
            (json!([secret, secret]), "DuplicateObjects", "Secret shop/a"),
            (json!([fleet]), "KindNotServed", "Fleet of example.com/v1"),
        ] {
            let failure = rights(&objects, false).unwrap_err();
            assert_eq!(failure.reason, reason);
            assert!(failure.message.contains(part), "{}", failure.message);
            assert!(!failure.stops_writing);
        }
    }
}
