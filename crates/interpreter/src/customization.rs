//! `ResourceInterpreterCustomization`: Lua scripts for the operations on one kind.
//!
//! The texts of the scripts only; what they do is elsewhere.
//!
//! Source: `pkg/apis/config/v1alpha1/resourceinterpretercustomization_types.go` of
//! <https://github.com/karmada-io/karmada>.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_core::model::Gvk;
use serde_json::Value;

use crate::{
    Operation,
    field_problem::{FieldProblem, shown},
    request::DependentObject,
    value,
    webhook::API_VERSION,
};

/// Its kind.
pub const KIND: &str = "ResourceInterpreterCustomization";

/// The members of `spec.customizations`, each of which has the script of one operation.
pub const MEMBERS: [(&str, Operation); 8] = [
    ("retention", Operation::Retain),
    ("replicaResource", Operation::InterpretReplica),
    ("componentResource", Operation::InterpretComponent),
    ("replicaRevision", Operation::ReviseReplica),
    ("statusReflection", Operation::InterpretStatus),
    ("statusAggregation", Operation::AggregateStatus),
    ("healthInterpretation", Operation::InterpretHealth),
    ("dependencyInterpretation", Operation::InterpretDependency),
];

/// The scripts of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Customization {
    /// The name of the object.
    pub name: Arc<str>,
    /// The kind that the scripts are for, exactly.
    pub target: Gvk,
    /// The scripts that are not empty.
    pub scripts: BTreeMap<Operation, Arc<str>>,
}

impl Customization {
    /// The customization that an object is; `None` if it is of another kind.
    pub fn parse(object: &Value) -> Option<Self> {
        if value::text(object, &["apiVersion"]) != API_VERSION
            || value::text(object, &["kind"]) != KIND
        {
            return None;
        }
        let scripts = MEMBERS.into_iter().filter_map(|(member, operation)| {
            let script = script(object, member).filter(|script| !script.is_empty())?;
            Some((operation, script.into()))
        });
        Some(Self {
            name: value::text(object, &["metadata", "name"]).into(),
            target: Gvk::from_api_version(
                value::text(object, &["spec", "target", "apiVersion"]),
                value::text(object, &["spec", "target", "kind"]),
            ),
            scripts: scripts.collect(),
        })
    }
}

/// The member of `spec.customizations` for an operation; `None` for one that no script answers.
pub fn member(operation: Operation) -> Option<&'static str> {
    MEMBERS
        .into_iter()
        .find(|(_, of_member)| *of_member == operation)
        .map(|(member, _)| member)
}

/// What is wrong with one object, but for its scripts' syntax and for what other objects define.
pub fn validate(object: &Value) -> Vec<FieldProblem> {
    let mut problems = Vec::new();
    for part in ["apiVersion", "kind"] {
        let text = value::text(object, &["spec", "target", part]);
        if text.is_empty() || text.contains('*') {
            let message = format!(
                "{} must name one kind: wildcards are not supported",
                shown(text)
            );
            problems.push(FieldProblem::new(format!("spec.target.{part}"), message));
        }
    }
    let customizations = value::at(object, &["spec", "customizations"]);
    if !customizations.is_null() && !customizations.is_object() {
        let message = "must have a member for each operation, such as healthInterpretation";
        problems.push(FieldProblem::new("spec.customizations", message));
    }
    for (member, _) in MEMBERS {
        let is_set = !value::at(customizations, &[member]).is_null();
        if is_set && script(object, member).is_none_or(str::is_empty) {
            let path = format!("spec.customizations.{member}.luaScript");
            let message =
                "holds no script: remove the member to leave the operation to the next level";
            problems.push(FieldProblem::new(path, message));
        }
    }
    problems
}

fn script<'v>(object: &'v Value, member: &str) -> Option<&'v str> {
    value::at(object, &["spec", "customizations", member, "luaScript"]).as_str()
}

/// One script and the object that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomScript {
    /// The name of the customization.
    pub customization: Arc<str>,
    /// The script.
    pub text: Arc<str>,
}

/// Two customizations for the same operation on the same kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptConflict {
    /// The kind.
    pub target: Gvk,
    /// The operation.
    pub operation: Operation,
    /// The customization whose script is used.
    pub used: Arc<str>,
    /// The customization whose script is not used.
    pub unused: Arc<str>,
}

impl ScriptConflict {
    /// The problem, for the status of the customization whose script is not used.
    pub fn problem(&self) -> FieldProblem {
        let member = member(self.operation).unwrap_or_default();
        let message = format!(
            "is not used: customization {} has a script for {} on {} already; remove one of them",
            shown(&self.used),
            self.operation,
            shown(&self.target.to_string())
        );
        FieldProblem::new(format!("spec.customizations.{member}"), message)
    }
}

/// The scripts of all customizations together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomizationSet {
    scripts: BTreeMap<Gvk, BTreeMap<Operation, Vec<CustomScript>>>,
    conflicts: Vec<ScriptConflict>,
}

impl CustomizationSet {
    /// Puts customizations together, in the order of their names whatever the order here: per
    /// operation the first script counts, but of dependencies all do.
    pub fn new<'c>(customizations: impl IntoIterator<Item = &'c Customization>) -> Self {
        let mut sorted: Vec<&Customization> = customizations.into_iter().collect();
        sorted.sort_by(|left, right| left.name.cmp(&right.name));
        let mut set = Self::default();
        for customization in sorted {
            for (operation, text) in &customization.scripts {
                set.insert(customization, *operation, text);
            }
        }
        set
    }

    fn insert(&mut self, customization: &Customization, operation: Operation, text: &Arc<str>) {
        let target = &customization.target;
        let scripts = self
            .scripts
            .entry(target.clone())
            .or_default()
            .entry(operation)
            .or_default();
        let united = operation == Operation::InterpretDependency;
        match scripts.first().filter(|_| !united) {
            Some(first) => self.conflicts.push(ScriptConflict {
                target: target.clone(),
                operation,
                used: first.customization.clone(),
                unused: customization.name.clone(),
            }),
            None => scripts.push(CustomScript {
                customization: customization.name.clone(),
                text: text.clone(),
            }),
        }
    }

    /// The scripts that answer an operation on a kind: at most one, but of dependencies all, whose
    /// results are [`united`].
    pub fn scripts(&self, target: &Gvk, operation: Operation) -> &[CustomScript] {
        self.scripts
            .get(target)
            .and_then(|operations| operations.get(&operation))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    /// The kinds that have scripts.
    pub fn targets(&self) -> impl Iterator<Item = &Gvk> {
        self.scripts.keys()
    }

    /// Scripts that are not used because of others.
    pub fn conflicts(&self) -> &[ScriptConflict] {
        &self.conflicts
    }
}

/// The results of several dependency scripts as one, without repetitions: sorted by `apiVersion`,
/// kind, namespace and name.
pub fn united(results: impl IntoIterator<Item = Vec<DependentObject>>) -> Vec<DependentObject> {
    let mut all: Vec<DependentObject> = results.into_iter().flatten().collect();
    all.sort_by_cached_key(|dependency| {
        (
            dependency.api_version.clone(),
            dependency.kind.clone(),
            dependency.namespace.clone(),
            dependency.name.clone(),
            dependency.label_selector.as_ref().map(Value::to_string),
        )
    });
    all.dedup();
    all
}

#[cfg(test)]
mod tests;
