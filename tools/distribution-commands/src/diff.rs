//! Prints what would change in members as unified diffs, as `kubectl diff` does.

use std::{collections::BTreeMap, io, time::Duration};

use fleetdex_core::{
    model::{
        CLUSTER_ANNOTATION, INDEXED_ANNOTATION, MEMBER_VERSION_ANNOTATION, REDACTED_ANNOTATION,
    },
    terminal::escaped,
    yaml,
};
use fleetdex_distribution::{
    contains::contains, object_text::ObjectText, plan::DistributionPlan,
    template_name::TemplateName,
};
use serde_json::{Map, Value};
use similar::TextDiff;

/// Equal lines that are shown around a difference.
const CONTEXT: usize = 3;
/// How long two objects are compared. What is left then counts as different as a whole.
const TIME: Duration = Duration::from_millis(500);
/// Annotations that the query API adds to what members have.
const OF_INDEX: [&str; 4] = [
    CLUSTER_ANNOTATION,
    MEMBER_VERSION_ANNOTATION,
    REDACTED_ANNOTATION,
    INDEXED_ANNOTATION,
];

/// What would change of an object.
struct ShownChange<'p> {
    resource: &'p TemplateName,
    /// What the member has; `None`: nothing.
    found: Option<&'p Value>,
    /// What it would have; `None`: nothing.
    wanted: Option<&'p ObjectText>,
}

/// Prints the changes, cluster by cluster: what is written, in the order of writing, and then what
/// is deleted.
pub fn write(
    plan: &DistributionPlan,
    observed: &BTreeMap<String, BTreeMap<TemplateName, Value>>,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let found = |cluster: &str, name: &TemplateName| observed.get(cluster)?.get(name);
    let mut changes: BTreeMap<&str, Vec<ShownChange<'_>>> = BTreeMap::new();
    for one in &plan.objects {
        let of_cluster = changes.entry(one.cluster.as_str()).or_default();
        of_cluster.push(ShownChange {
            resource: &one.resource,
            found: found(&one.cluster, &one.resource),
            wanted: Some(&one.object),
        });
    }
    for one in &plan.deletions {
        let of_cluster = changes.entry(one.cluster.as_str()).or_default();
        of_cluster.push(ShownChange {
            resource: &one.resource,
            found: found(&one.cluster, &one.resource),
            wanted: None,
        });
    }
    for (cluster, changes) in changes {
        for change in changes {
            change.write(cluster, out)?;
        }
    }
    Ok(())
}

impl ShownChange<'_> {
    fn write(&self, cluster: &str, out: &mut dyn io::Write) -> io::Result<()> {
        let wanted = self.wanted.map(ObjectText::value);
        let (mut before, mut after) = match (self.found, wanted) {
            (Some(found), Some(wanted)) if contains(found, &wanted) => return Ok(()),
            (Some(found), Some(wanted)) => (projected(found, &wanted), wanted),
            (found, wanted) => (
                found.cloned().unwrap_or_default(),
                wanted.unwrap_or_default(),
            ),
        };
        if self.resource.api_version == "v1" && self.resource.kind == "Secret" {
            mask(&mut before, &mut after);
        }
        let (before, after) = (shown(before)?, shown(after)?);
        let diff = TextDiff::configure()
            .timeout(TIME)
            .diff_lines(&before, &after);
        let name = format!("{cluster}/{}", self.resource);
        let mut unified = diff.unified_diff();
        unified.context_radius(CONTEXT).header(&name, &name);
        out.write_all(escaped(&unified.to_string()).as_bytes())
    }
}

/// What a value has of the members that another one sets. Lists without names have all items.
fn projected(found: &Value, wanted: &Value) -> Value {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let members = wanted.iter().filter_map(|(name, wanted)| {
                let found = found.get(name).filter(|found| !found.is_null())?;
                Some((name.clone(), projected(found, wanted)))
            });
            Value::Object(members.collect::<Map<String, Value>>())
        }
        (Value::Array(found), Value::Array(wanted)) => projected_items(found, wanted),
        (found, _) => found.clone(),
    }
}

/// Items with names, such as containers, may have others beside them.
fn projected_items(found: &[Value], wanted: &[Value]) -> Value {
    let name = |item: &Value| item.get("name").and_then(Value::as_str).map(str::to_owned);
    if !wanted.is_empty() && wanted.iter().all(|item| name(item).is_some()) {
        let items = wanted.iter().filter_map(|wanted| {
            let found = found.iter().find(|found| name(found) == name(wanted))?;
            Some(projected(found, wanted))
        });
        return items.collect();
    }
    let items = found.iter().enumerate();
    let items = items.map(|(index, found)| match wanted.get(index) {
        Some(wanted) => projected(found, wanted),
        None => found.clone(),
    });
    items.collect()
}

/// Hides the values of a Secret, and shows which are different.
///
/// Source: `Masker` of <https://github.com/kubernetes/kubectl/blob/master/pkg/cmd/diff/diff.go>
fn mask(before: &mut Value, after: &mut Value) {
    for member in ["data", "stringData"] {
        let values = |side: &Value| side[member].as_object().cloned().unwrap_or_default();
        let (old, new) = (values(before), values(after));
        for (side, other, note) in [
            (&mut *before, &new, " (before)"),
            (&mut *after, &old, " (after)"),
        ] {
            let own = side.get_mut(member).and_then(Value::as_object_mut);
            for (key, value) in own.into_iter().flatten() {
                let differs = other.get(key).is_some_and(|other| other != value);
                *value = format!("***{}", if differs { note } else { "" }).into();
            }
        }
    }
}

/// An object as YAML, without its status and what the index adds; nothing for null.
fn shown(mut object: Value) -> io::Result<String> {
    let Some(members) = object.as_object_mut() else {
        return Ok(String::new());
    };
    members.shift_remove("status");
    if let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("managedFields");
        if let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
        {
            for key in OF_INDEX {
                annotations.shift_remove(key);
            }
            if annotations.is_empty() {
                metadata.shift_remove("annotations");
            }
        }
    }
    yaml::to_string(&object).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_member_adds_is_not_shown() {
        let wanted = json!({
            "spec": {"replicas": 2, "containers": [{"name": "a", "image": "b"}], "args": ["x"]},
        });
        let found = json!({
            "spec": {
                "replicas": 1, "paused": true, "args": ["x", "y"],
                "containers": [
                    {"name": "sidecar"}, {"name": "a", "image": "c", "pullPolicy": "Always"},
                ],
            },
            "status": {},
        });
        let expected = json!({
            "spec": {"replicas": 1, "containers": [{"name": "a", "image": "c"}], "args": ["x", "y"]},
        });
        assert_eq!(projected(&found, &wanted), expected);
    }

    #[test]
    fn values_of_secrets_are_not_shown() {
        let mut before = json!({"data": {"same": "1", "changed": "2", "gone": "3"}});
        let mut after = json!({"data": {"same": "1", "changed": "4", "new": "5"}});
        mask(&mut before, &mut after);
        let expected = json!({"data": {"same": "***", "changed": "*** (before)", "gone": "***"}});
        assert_eq!(before, expected);
        let expected = json!({"data": {"same": "***", "changed": "*** (after)", "new": "***"}});
        assert_eq!(after, expected);
    }
}
