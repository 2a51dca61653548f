//! The rights of each subject of RBAC: of its bindings, without those of its groups.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};

use super::rules::{ListedResources, QueryRights, listed, queried};

/// The roles and bindings of a control plane.
#[derive(Clone, Debug, Default)]
pub struct RbacObjects {
    /// All `ClusterRole`s.
    pub cluster_roles: Vec<ClusterRole>,
    /// The `Role`s of all namespaces.
    pub roles: Vec<Role>,
    /// All `ClusterRoleBinding`s.
    pub cluster_role_bindings: Vec<ClusterRoleBinding>,
    /// The `RoleBinding`s of all namespaces.
    pub role_bindings: Vec<RoleBinding>,
}

/// Who has rights.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RbacSubject {
    User(String),
    Group(String),
}

/// What one or several subjects may query and list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SubjectRights {
    pub(super) query: QueryRights,
    /// In all namespaces, and objects without one.
    pub(super) everywhere: BTreeSet<ListedResources>,
    /// In some namespaces.
    pub(super) in_namespaces: BTreeMap<ListedResources, BTreeSet<String>>,
}

impl SubjectRights {
    pub(super) fn can_list(&self) -> bool {
        !self.everywhere.is_empty() || !self.in_namespaces.is_empty()
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.query.add(&other.query);
        self.add_lists(other);
    }

    pub(super) fn add_lists(&mut self, other: &Self) {
        self.everywhere.extend(other.everywhere.iter().cloned());
        for (resources, namespaces) in &other.in_namespaces {
            let known = self.in_namespaces.entry(resources.clone()).or_default();
            known.extend(namespaces.iter().cloned());
        }
    }

    /// Whether all that `other` may list is listed here, as far as the rules are written alike.
    pub(super) fn lists_all_of(&self, other: &Self) -> bool {
        other.everywhere.is_subset(&self.everywhere)
            && other.in_namespaces.iter().all(|(resources, namespaces)| {
                let known = self.in_namespaces.get(resources);
                self.everywhere.contains(resources)
                    || known.is_some_and(|known| known.is_superset(namespaces))
            })
    }

    fn add_rules(&mut self, rules: &[PolicyRule], namespace: Option<&str>) {
        for rule in rules {
            let resources = listed(rule);
            let Some(namespace) = namespace else {
                // The query API's own resources have no namespace: only these bindings grant them.
                self.query.add(&queried(rule));
                self.everywhere.extend(resources);
                continue;
            };
            if let Some(resources) = resources {
                let namespaces = self.in_namespaces.entry(resources).or_default();
                namespaces.insert(namespace.to_owned());
            }
        }
    }
}

/// The rights of every subject that is named in a binding.
pub(super) fn rights_by_subject(rbac: &RbacObjects) -> BTreeMap<RbacSubject, SubjectRights> {
    let roles = RulesOfRoles::of(rbac);
    let mut rights = BTreeMap::<RbacSubject, SubjectRights>::new();
    for binding in &rbac.cluster_role_bindings {
        let rules = roles.rules(&binding.role_ref, None);
        for subject in subjects(binding.subjects.as_ref()) {
            rights.entry(subject).or_default().add_rules(rules, None);
        }
    }
    for binding in &rbac.role_bindings {
        let Some(namespace) = binding.metadata.namespace.as_deref() else {
            continue;
        };
        let rules = roles.rules(&binding.role_ref, Some(namespace));
        for subject in subjects(binding.subjects.as_ref()) {
            rights
                .entry(subject)
                .or_default()
                .add_rules(rules, Some(namespace));
        }
    }
    rights
}

/// Rules by the names of roles, those of a `ClusterRole` without a namespace.
struct RulesOfRoles<'r>(BTreeMap<(Option<&'r str>, &'r str), &'r [PolicyRule]>);

impl<'r> RulesOfRoles<'r> {
    fn of(rbac: &'r RbacObjects) -> Self {
        let mut rules = BTreeMap::new();
        for role in &rbac.cluster_roles {
            let name = role.metadata.name.as_deref().unwrap_or_default();
            rules.insert((None, name), role.rules.as_deref().unwrap_or_default());
        }
        for role in &rbac.roles {
            let name = role.metadata.name.as_deref().unwrap_or_default();
            let key = (role.metadata.namespace.as_deref(), name);
            rules.insert(key, role.rules.as_deref().unwrap_or_default());
        }
        Self(rules)
    }

    /// The rules of the role that a binding in a namespace, or in none, refers to. A role that does
    /// not exist has none.
    fn rules(&self, role: &RoleRef, namespace: Option<&str>) -> &'r [PolicyRule] {
        let key = match (role.kind.as_str(), namespace) {
            ("ClusterRole", _) => (None, role.name.as_str()),
            ("Role", Some(namespace)) => (Some(namespace), role.name.as_str()),
            _ => return &[],
        };
        self.0.get(&key).copied().unwrap_or_default()
    }
}

/// The subjects of a binding. A service account is a user.
fn subjects(list: Option<&Vec<Subject>>) -> impl Iterator<Item = RbacSubject> {
    list.into_iter().flatten().filter_map(|subject| {
        let name = subject.name.clone();
        match (subject.kind.as_str(), subject.namespace.as_deref()) {
            ("User", _) => Some(RbacSubject::User(name)),
            ("Group", _) => Some(RbacSubject::Group(name)),
            ("ServiceAccount", Some(namespace)) => {
                let user = format!("system:serviceaccount:{namespace}:{name}");
                Some(RbacSubject::User(user))
            }
            _ => None,
        }
    })
}
