//! Lazy activation: a change of a policy has an effect when the object changes.
//!
//! Source: `pkg/detector` of Karmada. The binding notes the content of the object for which it was
//! made; while the object has that content, it is placed by the rules of before.

use fleetdex_interpreter::value::{map, text};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    claim::Policy,
    cluster::TargetCluster,
    marks,
    placing::{NotChosen, Placed, PlacedReplicas, PreviousPlacement},
};

/// Why an object does not follow its policy.
const WAITS: &str = "its policy has activationPreference: Lazy, and has an effect when the object \
                     changes";

/// What of annotations and labels is not the user's.
const OF_CONTROLLERS: [&str; 2] = [".karmada.io", ".fleetdex.io"];

/// Instead of a hash: the policy has an effect, and the object could not be placed yet.
const NOT_PLACED: &str = "not-placed";

/// The content of an object whose policy is lazy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LazyContent {
    /// The hash of what users have written.
    pub hash: String,
    /// Whether the object waits for a change, and is placed by the rules of before until then.
    pub waits: bool,
}

impl LazyContent {
    /// Of an object; `None`: its policy is not lazy. `previous`: where the object was, if it has a
    /// binding.
    pub fn of(
        object: &Value,
        policy: &Policy,
        previous: Option<&PreviousPlacement>,
    ) -> Option<Self> {
        if policy.spec.activation_preference.as_deref() != Some("Lazy") {
            return None;
        }
        let hash = content_hash(object);
        let waits = match previous {
            Some(previous) => match &previous.activated_for {
                Some(before) => *before == hash,
                // Its policy was not lazy before.
                None => true,
            },
            None => match (creation_time(object), policy.created) {
                (Some(object), Some(policy)) => object < policy,
                _ => false,
            },
        };
        Some(Self { hash, waits })
    }

    /// What is noted of an object. One that could not be placed is placed when it can be.
    #[must_use]
    pub fn noted(self, is_placed: bool) -> Self {
        if is_placed || self.waits {
            return self;
        }
        Self {
            hash: NOT_PLACED.to_owned(),
            ..self
        }
    }
}

/// Where an object stays that waits for a change, and of which no rules of before are known;
/// nowhere, if it was nowhere.
pub fn waiting(previous: &PreviousPlacement, clusters: &[TargetCluster]) -> Placed {
    let others = clusters
        .iter()
        .filter(|cluster| !previous.clusters.contains_key(&cluster.name));
    let placed = previous.clusters.iter();
    Placed {
        clusters: placed
            .map(|(name, replicas)| PlacedReplicas {
                name: name.clone(),
                replicas: *replicas,
            })
            .collect(),
        affinity_name: previous.affinity_name.clone(),
        unschedulable: previous.clusters.is_empty().then(|| WAITS.to_owned()),
        not_chosen: others
            .map(|cluster| NotChosen {
                cluster: cluster.name.clone(),
                reason: WAITS.to_owned(),
            })
            .collect(),
    }
}

/// When an object was created; `None`: it is not stored yet.
pub fn creation_time(object: &Value) -> Option<Timestamp> {
    text(object, &["metadata", "creationTimestamp"])
        .parse()
        .ok()
}

/// The hash of what users write: everything but the status, and in `metadata` labels and
/// annotations that no controller has set.
pub fn content_hash(object: &Value) -> String {
    let own = |member: &str| -> Map<String, Value> {
        let all = map(object, &["metadata", member]).into_iter().flatten();
        let is_own = |(key, _): &(&String, &Value)| {
            let (prefix, _) = key.split_once('/').unwrap_or_default();
            !OF_CONTROLLERS.iter().any(|suffix| prefix.ends_with(suffix))
        };
        let own = all.filter(is_own);
        own.map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let mut content = object.clone();
    if let Some(members) = content.as_object_mut() {
        members.shift_remove("status");
    }
    content["metadata"] = json!({
        "labels": own("labels"), "annotations": own("annotations"),
    });
    marks::hash(&content)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn policy(preference: &Value, created: &str) -> Policy {
        let spec = json!({"activationPreference": preference, "resourceSelectors": []});
        Policy {
            namespace: None,
            name: "all".to_owned(),
            created: created.parse().ok(),
            spec: Arc::new(serde_json::from_value(spec).unwrap()),
        }
    }

    fn object(image: &str, annotation: &str, created: &str) -> Value {
        json!({
            "kind": "Deployment",
            "metadata": {
                "creationTimestamp": created, "generation": image.len(),
                "annotations": {annotation: "1"},
            },
            "spec": {"image": image},
            "status": {"image": image},
        })
    }

    #[test]
    fn only_what_users_write_is_content() {
        let first = content_hash(&object("a", "policy.karmada.io/x", "2026-11-30T00:00:00Z"));
        for (image, annotation, is_same) in [
            ("a", "distribute.fleetdex.io/x", true),
            ("a", "example.com/x", false),
            ("a", "x", false),
            ("b", "policy.karmada.io/x", false),
        ] {
            let other = content_hash(&object(image, annotation, "2026-11-30T01:00:00Z"));
            assert_eq!(first == other, is_same, "{image} {annotation}");
        }
    }

    #[test]
    fn an_object_waits_until_it_changes() {
        let (early, late) = ("2026-11-30T00:00:00Z", "2026-11-30T01:00:00Z");
        let known = content_hash(&object("a", "x", early));
        let bound = |activated_for: Option<String>| PreviousPlacement {
            activated_for,
            ..PreviousPlacement::default()
        };
        for (of_object, of_policy, image, previous, waits) in [
            (early, late, "a", None, true),
            (late, early, "a", None, false),
            (early, early, "a", None, false),
            (early, late, "a", Some(bound(None)), true),
            (late, early, "a", Some(bound(Some(known.clone()))), true),
            (early, late, "b", Some(bound(Some(known))), false),
            (
                early,
                late,
                "a",
                Some(bound(Some(NOT_PLACED.to_owned()))),
                false,
            ),
        ] {
            let object = object(image, "x", of_object);
            let policy = policy(&json!("Lazy"), of_policy);
            let found = LazyContent::of(&object, &policy, previous.as_ref()).unwrap();
            assert_eq!(
                found.waits, waits,
                "{of_object} {of_policy} {image} {previous:?}"
            );
        }
        let eager = policy(&Value::Null, late);
        assert_eq!(
            LazyContent::of(&object("a", "x", early), &eager, None),
            None
        );
    }
}
