//! Who owns the fields of a CRD.
//!
//! A server-side apply removes a field only if no other manager owns it. A CRD that helm or kubectl
//! created would keep every field that a later version drops, so the ownership of `spec` is taken
//! over first, as kubectl does on the way from client-side to server-side apply:
//! <https://kubernetes.io/docs/reference/using-api/server-side-apply/#upgrading-from-client-side-apply-to-server-side-apply>

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use serde_json::{Map, Value};

/// The field manager of the CRDs.
pub(super) const MANAGER: &str = "fleetdex";
const APPLY: &str = "Apply";
const SPEC: &str = "f:spec";

/// The entries with [`MANAGER`] as the only owner of `spec`; `None` if no other manager owns any of
/// it.
pub(super) fn take_over(entries: &[ManagedFieldsEntry]) -> Option<Vec<ManagedFieldsEntry>> {
    let (mut kept, mut ours) = (Vec::new(), None);
    let (mut spec, mut is_changed) = (Map::new(), false);
    for entry in entries {
        let is_ours =
            entry.manager.as_deref() == Some(MANAGER) && entry.operation.as_deref() == Some(APPLY);
        if is_ours && !is_of_subresource(entry) {
            ours = Some(entry.clone());
            continue;
        }
        let mut entry = entry.clone();
        if let Some(Value::Object(theirs)) = remove_spec(&mut entry) {
            merge(&mut spec, theirs);
            is_changed = true;
        }
        kept.push(entry);
    }
    if !is_changed {
        return None;
    }
    let api_version = kept.iter().find_map(|entry| entry.api_version.clone());
    let mut ours = ours.unwrap_or_else(|| ManagedFieldsEntry {
        api_version,
        fields_type: Some("FieldsV1".to_owned()),
        manager: Some(MANAGER.to_owned()),
        operation: Some(APPLY.to_owned()),
        ..ManagedFieldsEntry::default()
    });
    add_spec(&mut ours, spec);
    // An entry that owns nothing is not valid.
    kept.retain(|entry| {
        let fields = entry.fields_v1.as_ref();
        let fields = fields.and_then(|fields| fields.0.as_object());
        fields.is_some_and(|fields| !fields.is_empty())
    });
    kept.push(ours);
    Some(kept)
}

fn is_of_subresource(entry: &ManagedFieldsEntry) -> bool {
    entry
        .subresource
        .as_deref()
        .is_some_and(|name| !name.is_empty())
}

fn remove_spec(entry: &mut ManagedFieldsEntry) -> Option<Value> {
    if is_of_subresource(entry) {
        return None;
    }
    let fields = entry.fields_v1.as_mut()?.0.as_object_mut()?;
    fields.shift_remove(SPEC)
}

fn add_spec(entry: &mut ManagedFieldsEntry, spec: Map<String, Value>) {
    let fields = entry
        .fields_v1
        .get_or_insert_with(|| FieldsV1(Value::Object(Map::new())));
    if let Value::Object(fields) = &mut fields.0 {
        merge(
            fields,
            Map::from_iter([(SPEC.to_owned(), Value::Object(spec))]),
        );
    }
}

/// The union of two sets of fields: each is a tree of the names of fields.
fn merge(into: &mut Map<String, Value>, from: Map<String, Value>) {
    for (name, below) in from {
        match (into.get_mut(&name), below) {
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (Some(_), _) => {}
            (None, below) => {
                into.insert(name, below);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, fields: Value) -> ManagedFieldsEntry {
        ManagedFieldsEntry {
            api_version: Some("apiextensions.k8s.io/v1".to_owned()),
            fields_type: Some("FieldsV1".to_owned()),
            fields_v1: Some(FieldsV1(fields)),
            manager: Some(manager.to_owned()),
            operation: Some(operation.to_owned()),
            ..ManagedFieldsEntry::default()
        }
    }

    #[test]
    fn the_spec_of_other_managers_becomes_ours_and_the_rest_stays_theirs() {
        let mut status = entry(
            "kube-apiserver",
            "Update",
            json!({"f:status": {"f:conditions": {}}}),
        );
        status.subresource = Some("status".to_owned());
        let theirs = entry(
            "helm",
            "Update",
            json!({"f:metadata": {"f:labels": {}}, "f:spec": {"f:group": {}, "f:names": {"f:kind": {}}}}),
        );
        let also = entry(
            "kubectl",
            "Apply",
            json!({"f:spec": {"f:names": {"f:plural": {}}}}),
        );
        let taken = take_over(&[status.clone(), theirs, also]).unwrap();
        let ours = entry(
            MANAGER,
            APPLY,
            json!({"f:spec": {"f:group": {}, "f:names": {"f:kind": {}, "f:plural": {}}}}),
        );
        let rest = entry("helm", "Update", json!({"f:metadata": {"f:labels": {}}}));
        assert_eq!(taken, [status, rest, ours.clone()]);
        // Once taken over, nothing is left to do.
        assert_eq!(take_over(&taken), None);
        assert_eq!(take_over(&[]), None);
    }

    #[test]
    fn what_is_ours_already_is_kept() {
        let ours = entry(
            MANAGER,
            APPLY,
            json!({"f:metadata": {}, "f:spec": {"f:scope": {}}}),
        );
        let edited = entry("kubectl-edit", "Update", json!({"f:spec": {"f:group": {}}}));
        let taken = take_over(&[ours, edited]).unwrap();
        let fields = json!({"f:metadata": {}, "f:spec": {"f:scope": {}, "f:group": {}}});
        assert_eq!(taken, [entry(MANAGER, APPLY, fields)]);
    }
}
