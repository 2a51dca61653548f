//! The role of OpenSearch's security plugin with the permissions that Fleetdex needs, and no more.
//!
//! A test on a secured server takes each permission away and sees that something fails without it.

use fleetdex_core::model::IndexPrefix;
use serde_json::{Value, json};

/// Actions on indices that are permitted on the whole cluster, as these requests name their indices
/// in bodies, and index templates are no indices.
pub const CLUSTER_ACTIONS: [&str; 4] = [
    "indices:admin/index_template/delete",
    "indices:admin/index_template/put",
    "indices:data/read/mget",
    "indices:data/write/bulk",
];

/// Actions that count shards and let `fleetdex doctor` check the nodes. They disclose no document.
pub const MONITORING_ACTIONS: [&str; 4] = [
    "cluster:monitor/health",
    "cluster:monitor/main",
    "cluster:monitor/nodes/stats",
    "cluster:monitor/state",
];

/// Actions on the indices and aliases of a prefix.
pub const INDEX_ACTIONS: [&str; 17] = [
    "indices:admin/aliases",
    "indices:admin/create",
    "indices:admin/delete",
    "indices:admin/get",
    "indices:admin/mapping/put",
    "indices:admin/mappings/get",
    "indices:admin/refresh*",
    "indices:admin/settings/update",
    "indices:data/read/get",
    "indices:data/read/mget[shard]",
    "indices:data/read/point_in_time/create",
    "indices:data/read/point_in_time/delete",
    "indices:data/read/search",
    "indices:data/write/bulk[s]",
    "indices:data/write/delete",
    "indices:data/write/index",
    "indices:monitor/settings/get",
];

/// The body of `PUT _plugins/_security/api/roles/<name>`.
pub fn role(prefix: &IndexPrefix) -> Value {
    let cluster: Vec<&str> = MONITORING_ACTIONS
        .into_iter()
        .chain(CLUSTER_ACTIONS)
        .collect();
    json!({
        "cluster_permissions": cluster,
        "index_permissions": [{
            "index_patterns": index_patterns(prefix),
            "allowed_actions": INDEX_ACTIONS,
        }],
    })
}

/// Patterns that all indices and aliases of a prefix match, and none of another prefix.
fn index_patterns(prefix: &IndexPrefix) -> [String; 3] {
    // A prefix has neither of the characters that follow it here.
    let prefix = prefix.as_str();
    [
        prefix.to_owned(),
        format!("{prefix}-*"),
        format!("{prefix}.*"),
    ]
}

/// The action that a refusal of the security plugin names.
pub fn missing_action(refusal: &str) -> Option<&str> {
    let (_, actions) = refusal.split_once("no permissions for [")?;
    let (action, _) = actions.split_once("] and ")?;
    let is_known = |byte: u8| byte.is_ascii_alphanumeric() || b":_/*[]".contains(&byte);
    action.bytes().all(is_known).then_some(action)
}

/// A refusal for lack of a permission, with what to do.
pub(crate) fn with_remedy(refusal: String) -> String {
    match missing_action(&refusal) {
        Some(action) => format!(
            "{refusal}; the user lacks {action}: give it the role that `fleetdex store role` prints"
        ),
        None => refusal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_action_and_the_remedy() {
        let refusal = "security_exception: no permissions for [indices:data/read/mget[shard]] and User [name=x, backend_roles=[], requestedTenant=null]";
        assert_eq!(
            missing_action(refusal),
            Some("indices:data/read/mget[shard]")
        );
        let text = with_remedy(refusal.to_owned());
        assert!(text.starts_with(refusal) && text.ends_with("`fleetdex store role` prints"));
        assert_eq!(with_remedy("blocked".to_owned()), "blocked");
    }

    #[test]
    fn patterns_match_nothing_of_another_prefix() {
        let body = role(&"prod".parse().unwrap());
        let patterns = &body["index_permissions"][0]["index_patterns"];
        assert_eq!(*patterns, json!(["prod", "prod-*", "prod.*"]));
    }
}
