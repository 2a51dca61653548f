//! What the pods of a template need, as the built-in rules find it. Custom kinds that make pods
//! have a template, too.

use fleetdex_interpreter::{
    InterpretError,
    native::requirements as required,
    pod_dependencies,
    request::{DependentObject, ReplicaRequirements},
};
use serde_json::Value;

/// What a pod requires of its node: resources, selectors, tolerations; `None` if it requires
/// nothing. `template` has the pod's `spec`.
///
/// An error names a quantity that is none.
pub fn requirements(template: &Value) -> Result<Option<ReplicaRequirements>, InterpretError> {
    required::of_pod_template(&template.into())
}

/// The config maps, secrets, service account and persistent volume claims that a pod refers to,
/// each once. `template` has the pod's `spec`, `namespace` is that of the object; an empty one
/// stays empty.
pub fn dependencies(template: &Value, namespace: &str) -> Vec<DependentObject> {
    pod_dependencies::of_pod_spec(&(&template["spec"]).into(), namespace)
}
