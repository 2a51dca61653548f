//! Roles of OpenSearch's security plugin that show users what Kubernetes' RBAC lets them list.
//!
//! Guarantee: a role never shows a document that the query API would not list for the same user, as
//! long as RBAC is the only authorizer of the control plane, `fleetdex run` has
//! `--authorization control-plane`, and the names of users and groups mean the same people in both.
//! What cannot be said for sure is left out, with a warning.
//!
//! The query API needs two rights: to query (`get` on `search/GROUP` and `clusters` in
//! `search.fleetdex.io`), and to `list` the objects. Both are in one query, because OpenSearch
//! shows what any role of a user shows.

mod filter;
mod rights;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::{ClusterName, IndexPrefix};
use serde_json::{Map, Value, json};

pub use self::rights::RbacObjects;
use self::{
    filter::document_filter,
    rights::{RbacSubject, SubjectRights, rights_by_subject},
    rules::RuleNames,
};

/// Every user of Kubernetes is in this group.
const AUTHENTICATED: &str = "system:authenticated";
const ADMINISTRATORS: &str = "system:masters";
/// The name of the global tenant.
pub const GLOBAL_TENANT: &str = "global_tenant";
/// The alias of the saved objects of the global tenant. A wildcard would show those of all tenants.
const GLOBAL_OBJECTS: &str = ".kibana";
/// What Dashboards needs to search, and nothing that reads a document by another way.
const INDEX_ACTIONS: [&str; 2] = ["indices:data/read/search*", "indices:data/read/field_caps*"];
/// What Dashboards needs to read its own saved objects, and to search for several panels at once.
const CLUSTER_ACTIONS: [&str; 2] = ["indices:data/read/mget", "indices:data/read/msearch"];

/// What roles are made of, besides RBAC.
#[derive(Clone, Debug, Default)]
pub struct RoleOptions {
    /// The prefix of the indices.
    pub prefix: IndexPrefix,
    /// The tenant whose saved objects the users may read, such as [`GLOBAL_TENANT`].
    pub tenant: String,
    /// The groups of users, which RBAC does not know.
    pub groups_of_users: BTreeMap<String, BTreeSet<String>>,
}

/// Roles and their mappings, by the names of the roles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SecurityConfiguration {
    /// Bodies of `PUT _plugins/_security/api/roles/<name>`.
    pub roles: Map<String, Value>,
    /// Bodies of `PUT _plugins/_security/api/rolesmapping/<name>`.
    pub mappings: Map<String, Value>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

/// The roles for everybody whom RBAC lets query and list.
pub fn security_configuration(rbac: &RbacObjects, options: &RoleOptions) -> SecurityConfiguration {
    let by_subject = rights_by_subject(rbac);
    let everybody = RbacSubject::Group(AUTHENTICATED.to_owned());
    let mut configuration = SecurityConfiguration::default();
    let mut writer = RoleWriter {
        options,
        of_everybody: by_subject.get(&everybody).cloned().unwrap_or_default(),
        by_subject: &by_subject,
        configuration: &mut configuration,
    };
    writer.write_subjects();
    writer.write_pairs_of_groups();
    writer.warn_of_users_without_groups();
    configuration
}

impl SecurityConfiguration {
    /// Both as one JSON object.
    pub fn json(&self) -> Value {
        json!({ "roles": self.roles, "rolesmapping": self.mappings })
    }

    /// The files `roles.yml` and `roles_mapping.yml` of securityadmin, as values.
    pub fn files(&self) -> [Value; 2] {
        [("roles", &self.roles), ("rolesmapping", &self.mappings)].map(|(file_type, entries)| {
            let mut file = Map::new();
            let meta = json!({ "type": file_type, "config_version": 2 });
            file.insert("_meta".to_owned(), meta);
            file.extend(entries.clone());
            Value::Object(file)
        })
    }
}

struct RoleWriter<'w> {
    options: &'w RoleOptions,
    of_everybody: SubjectRights,
    by_subject: &'w BTreeMap<RbacSubject, SubjectRights>,
    configuration: &'w mut SecurityConfiguration,
}

impl RoleWriter<'_> {
    fn write_subjects(&mut self) {
        let named = self.options.groups_of_users.keys();
        let named = named.map(|user| RbacSubject::User(user.clone()));
        let all: BTreeSet<RbacSubject> = self.by_subject.keys().cloned().chain(named).collect();
        for subject in all.iter().filter(|subject| is_for_people(subject)) {
            let mut rights = self.of_everybody.clone();
            for each in self.identities(subject) {
                if let Some(more) = self.by_subject.get(&each) {
                    rights.add(more);
                }
            }
            let (name, users, groups) = match subject {
                RbacSubject::User(user) => (format!("user_{}", escaped(user)), vec![user], vec![]),
                RbacSubject::Group(group) => {
                    (format!("group_{}", escaped(group)), vec![], vec![group])
                }
            };
            self.write(
                &name,
                &rights,
                &json!({ "users": users, "backend_roles": groups }),
            );
        }
    }

    /// The subject and the groups that it surely has.
    fn identities(&self, subject: &RbacSubject) -> Vec<RbacSubject> {
        let mut all = vec![subject.clone()];
        if let RbacSubject::User(user) = subject {
            let groups = self.options.groups_of_users.get(user);
            all.extend(
                groups
                    .into_iter()
                    .flatten()
                    .cloned()
                    .map(RbacSubject::Group),
            );
        }
        all
    }

    /// One group may be the one that queries, another one that lists: people in both see what the
    /// second one lists.
    fn write_pairs_of_groups(&mut self) {
        let of_groups: Vec<(&String, &SubjectRights)> = self
            .by_subject
            .iter()
            .filter(|(subject, _)| is_for_people(subject))
            .filter_map(|(subject, rights)| match subject {
                RbacSubject::Group(group) => Some((group, rights)),
                RbacSubject::User(_) => None,
            })
            .collect();
        for (asks, query) in &of_groups {
            for (lists, listed) in &of_groups {
                if self.adds_nothing(query, listed) {
                    continue;
                }
                let mut rights = self.of_everybody.clone();
                rights.query.add(&query.query);
                rights.add_lists(listed);
                let name = format!("groups_{}_{}", escaped(asks), escaped(lists));
                self.write(
                    &name,
                    &rights,
                    &json!({ "and_backend_roles": [asks, lists] }),
                );
            }
        }
    }

    /// Whether people in two groups see what the roles of the single groups show.
    fn adds_nothing(&self, query: &SubjectRights, listed: &SubjectRights) -> bool {
        let mut known = self.of_everybody.clone();
        known.query.add(&listed.query);
        known.query.contains(&query.query) || query.lists_all_of(listed)
    }

    /// A user and a group together are no mapping of the security plugin.
    fn warn_of_users_without_groups(&mut self) {
        for (subject, rights) in self.by_subject {
            let RbacSubject::User(user) = subject else {
                continue;
            };
            let is_known = self.options.groups_of_users.contains_key(user);
            let mut query = self.of_everybody.query.clone();
            query.add(&rights.query);
            if !is_for_people(subject) || is_known || !rights.can_list() || !query.is_empty() {
                continue;
            }
            self.configuration.warnings.push(format!(
                "user {user:?} may list objects, and query them only as a member of a group: no role; name the groups with --groups {user}=GROUP,GROUP"
            ));
        }
    }

    fn write(&mut self, name: &str, rights: &SubjectRights, mapping: &Value) {
        let name = format!("{}_{name}", self.options.prefix.as_str());
        let filter = match document_filter(rights) {
            Ok(Some(filter)) => filter,
            Ok(None) => return,
            Err(error) => {
                self.configuration
                    .warnings
                    .push(format!("no role {name}: {error}"));
                return;
            }
        };
        if let Some(pattern) = mapped_names(mapping).find(|name| is_pattern(name)) {
            self.configuration.warnings.push(format!(
                "no role {name}: OpenSearch would take {pattern:?} for a pattern of several names"
            ));
            return;
        }
        let role = self.role(&filter, &self.indices(&rights.query.clusters));
        self.configuration.roles.insert(name.clone(), role);
        self.configuration.mappings.insert(name, mapping.clone());
    }

    /// The aliases: over all clusters, or of the only clusters that the user may see.
    fn indices(&self, clusters: &RuleNames) -> Vec<String> {
        let prefix = &self.options.prefix;
        let RuleNames::Only(names) = clusters else {
            return vec![prefix.as_str().to_owned()];
        };
        // A name that is none of a cluster has no index.
        let names = names
            .iter()
            .filter_map(|name| name.parse::<ClusterName>().ok());
        names
            .map(|name| prefix.cluster_alias(&name).as_str().to_owned())
            .collect()
    }

    fn role(&self, filter: &Value, indices: &[String]) -> Value {
        let documents = json!({
            "index_patterns": indices,
            "dls": filter.to_string(),
            "allowed_actions": INDEX_ACTIONS,
        });
        let mut index_permissions = vec![documents];
        if self.options.tenant == GLOBAL_TENANT {
            // The saved objects of other tenants are in indices that the tenant's permission opens.
            let objects =
                json!({ "index_patterns": [GLOBAL_OBJECTS], "allowed_actions": ["read"] });
            index_permissions.push(objects);
        }
        json!({
            "cluster_permissions": CLUSTER_ACTIONS,
            "index_permissions": index_permissions,
            "tenant_permissions": [{
                "tenant_patterns": [self.options.tenant],
                "allowed_actions": ["kibana_all_read"],
            }],
        })
    }
}

/// Components of Kubernetes and service accounts do not use Dashboards.
fn is_for_people(subject: &RbacSubject) -> bool {
    match subject {
        RbacSubject::User(name) => !name.starts_with("system:"),
        RbacSubject::Group(name) => name == ADMINISTRATORS || !name.starts_with("system:"),
    }
}

fn mapped_names(mapping: &Value) -> impl Iterator<Item = &str> {
    let lists = mapping.as_object().into_iter().flat_map(Map::values);
    lists
        .flat_map(|list| list.as_array().into_iter().flatten())
        .filter_map(Value::as_str)
}

/// Whether a mapping reads a name as a wildcard or a regular expression: `WildcardMatcher` of
/// <https://github.com/opensearch-project/security>.
fn is_pattern(name: &str) -> bool {
    let is_expression = name.len() > 1 && name.starts_with('/') && name.ends_with('/');
    name.is_empty() || is_expression || name.contains(['*', '?'])
}

/// A part of a role's name: letters, digits, `.`, `@` and `-` stay, every other byte is `_` and two
/// hex digits, so that no two subjects share a role.
fn escaped(name: &str) -> String {
    let escape = |byte: u8| match byte {
        b'.' | b'@' | b'-' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        _ => format!("_{byte:02x}"),
    };
    name.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests;
