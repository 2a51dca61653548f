//! How Fleetdex marks what it has written to a cluster.
//!
//! A label says which control plane an object is from. An annotation has two hashes. The first is
//! of what was written: a field that has left the template is noticed by another hash, as the
//! object alone does not say whose a field is. The second is of the cluster, the kind and the name:
//! operators and users copy labels and annotations to other objects, which are not Fleetdex's.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::model::{hex, split_api_version};
use fleetdex_interpreter::value::{flag, list, text};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::{template_name::TemplateName, templates::CONTROL_PLANE_LABEL};

/// The annotation with the hash of what was written.
pub const WRITTEN_ANNOTATION: &str = "distribute.fleetdex.io/written";

/// The hash of an object before a cluster's own values are filled in.
pub fn hash(desired: &Value) -> String {
    hash_of_text(&sorted(desired).to_string())
}

/// The hash of a text.
pub fn hash_of_text(text: &str) -> String {
    let mut hash = hex(&Sha256::digest(text));
    hash.truncate(32);
    hash
}

/// The value with its members by name: a list of a server has another order than its watch.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let members: BTreeMap<&String, &Value> = members.iter().collect();
            let members = members.into_iter();
            let members = members.map(|(name, member)| (name.clone(), sorted(member)));
            members.collect::<Map<String, Value>>().into()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

/// From where an object is and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyOrigin {
    /// The UID of the control plane.
    pub control_plane: Arc<str>,
    /// The cluster; empty for objects of the control plane itself.
    pub cluster: Arc<str>,
}

impl CopyOrigin {
    /// The hash of which object it is.
    fn identity(&self, object: &Value) -> String {
        let name = TemplateName::of(object);
        let (group, _) = split_api_version(&name.api_version);
        let parts = json!([self.cluster, group, name.kind, name.namespace, name.name]);
        hash(&parts)
    }

    /// Whether an object was written by this control plane, for this cluster and under this name.
    /// An object of a controller of the cluster is not, whatever it has been given.
    pub fn has_written(&self, object: &Value) -> bool {
        let mark = text(object, &["metadata", "annotations", WRITTEN_ANNOTATION]);
        let owners = list(object, &["metadata", "ownerReferences"]).iter();
        let mut controllers = owners.filter(|owner| flag(*owner, &["controller"]));
        text(object, &["metadata", "labels", CONTROL_PLANE_LABEL]) == &*self.control_plane
            && mark.split_once('.').map(|(_, identity)| identity) == Some(&*self.identity(object))
            && controllers.next().is_none()
    }
}

/// An object with the marks of its origin.
#[must_use]
pub fn marked(object: Value, origin: &CopyOrigin, hash: &str) -> Value {
    let mark = format!("{hash}.{}", origin.identity(&object));
    with_entries(
        object,
        [
            ("labels", CONTROL_PLANE_LABEL, &*origin.control_plane),
            ("annotations", WRITTEN_ANNOTATION, &*mark),
        ],
    )
}

/// An object with these labels and annotations, too.
pub(crate) fn with_entries(mut object: Value, entries: [(&str, &str, &str); 2]) -> Value {
    let metadata = member(&mut object, "metadata");
    for (member_name, key, value) in entries {
        if let Some(metadata) = metadata.as_object_mut() {
            let entries = metadata
                .entry(member_name)
                .or_insert_with(|| Map::new().into());
            if !entries.is_object() {
                *entries = Map::new().into();
            }
            entries[key] = value.into();
        }
    }
    object
}

fn member<'v>(object: &'v mut Value, name: &str) -> &'v mut Value {
    if !object.get(name).is_some_and(Value::is_object) {
        object[name] = Map::new().into();
    }
    &mut object[name]
}

/// What a server has made of an object that it was sent: the values that it stores for the fields
/// that were sent, such as `"1"` for `"1000m"`. Fields that it has dropped are absent.
#[must_use]
pub fn accepted(sent: &Value, stored: &Value) -> Value {
    match (sent, stored) {
        (Value::Object(sent), Value::Object(stored)) => sent
            .iter()
            .filter_map(|(name, sent)| {
                let stored = stored.get(name)?;
                Some((name.clone(), accepted(sent, stored)))
            })
            .collect::<Map<String, Value>>()
            .into(),
        (Value::Array(sent), Value::Array(stored)) if sent.len() == stored.len() => sent
            .iter()
            .zip(stored)
            .map(|(sent, stored)| accepted(sent, stored))
            .collect(),
        (Value::Array(_), Value::Array(_)) => sent.clone(),
        _ => stored.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contains::contains;

    fn origin(control_plane: &str, cluster: &str) -> CopyOrigin {
        CopyOrigin {
            control_plane: control_plane.into(),
            cluster: cluster.into(),
        }
    }

    #[test]
    fn a_marked_object_has_its_other_labels_and_says_where_it_is_from() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "web", "labels": {"app": "web"}, "annotations": null},
        });
        let own = origin("u", "m1");
        let marked = marked(object, &own, &hash(&json!(1)));
        assert_eq!(
            marked["metadata"]["labels"],
            json!({"app": "web", CONTROL_PLANE_LABEL: "u"})
        );
        assert!(own.has_written(&marked));
        for other in [origin("v", "m1"), origin("u", "m2")] {
            assert!(!other.has_written(&marked), "{other:?}");
        }
        let controller = json!([{"kind": "Shop", "controller": true}]);
        for (path, value) in [
            ("/kind", json!("Secret")),
            ("/metadata/name", json!("other")),
            ("/metadata/namespace", json!("shop")),
            ("/metadata/ownerReferences", controller),
            ("/metadata/annotations", json!({})),
        ] {
            let mut copied = marked.clone();
            let (parent, member) = path.rsplit_once('/').unwrap();
            copied.pointer_mut(parent).unwrap()[member] = value;
            assert!(!own.has_written(&copied), "{path}");
        }
    }

    #[test]
    fn the_order_of_members_is_not_in_the_hash() {
        let (one, other) = (
            r#"{"a":[{"b":1,"c":2}],"d":3}"#,
            r#"{"d":3,"a":[{"c":2,"b":1}]}"#,
        );
        let hash_of = |text: &str| hash(&serde_json::from_str(text).unwrap());
        assert_eq!(hash_of(one), hash_of(other));
        assert_ne!(hash_of(one), hash_of(r#"{"a":[],"d":3}"#));
    }

    #[test]
    fn what_a_server_accepts_is_compared_with_what_it_stores() {
        for (sent, stored, expected) in [
            (
                json!({"cpu": "1000m"}),
                json!({"cpu": "1", "x": 2}),
                json!({"cpu": "1"}),
            ),
            (
                json!({"unknown": 1, "a": 1}),
                json!({"a": 1}),
                json!({"a": 1}),
            ),
            (
                json!([{"name": "a", "cpu": "1000m"}]),
                json!([{"name": "a", "cpu": "1", "pull": "Always"}]),
                json!([{"name": "a", "cpu": "1"}]),
            ),
            (json!([1]), json!([1, 2]), json!([1])),
        ] {
            let accepted = accepted(&sent, &stored);
            assert_eq!(accepted, expected, "{sent}");
            assert_eq!(contains(&stored, &accepted), sent != json!([1]), "{sent}");
        }
    }
}
