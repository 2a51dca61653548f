//! Hooks of charts: objects that exist for one step of an installation.
//!
//! Names are those of helm's [hooks](https://helm.sh/docs/topics/charts_hooks/).

use std::collections::BTreeSet;

use fleetdex_core::model::quoted;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The annotation that makes an object a hook.
pub const HOOK_ANNOTATION: &str = "helm.sh/hook";
const WEIGHT_ANNOTATION: &str = "helm.sh/hook-weight";
const DELETE_ANNOTATION: &str = "helm.sh/hook-delete-policy";
/// Hooks of `helm test`, which nothing else runs.
const TESTS: [&str; 3] = ["test", "test-success", "test-failure"];

/// An object that exists for a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartHook {
    /// The steps.
    pub events: BTreeSet<HookEvent>,
    /// Of the hooks of one step, smaller weights come first.
    pub weight: i32,
    /// When it is deleted.
    pub delete_policies: BTreeSet<HookDeletePolicy>,
    /// The object.
    pub object: Value,
}

/// A step of an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookEvent {
    /// Before anything is installed.
    PreInstall,
    /// When everything is installed.
    PostInstall,
    /// Before anything is deleted.
    PreDelete,
    /// When everything is deleted.
    PostDelete,
    /// Before anything is changed.
    PreUpgrade,
    /// When everything is changed.
    PostUpgrade,
    /// Before a change is undone.
    PreRollback,
    /// When a change is undone.
    PostRollback,
}

/// When a hook is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookDeletePolicy {
    /// When it has succeeded.
    HookSucceeded,
    /// When it has failed.
    HookFailed,
    /// Before it is made again. What a hook without a policy has.
    BeforeHookCreation,
}

/// A hook cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{object} has the annotation {annotation}: {value}, which is not supported; use {supported}"
)]
pub struct UnsupportedHook {
    object: String,
    annotation: &'static str,
    value: String,
    supported: &'static str,
}

/// What an object is for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ObjectRole {
    /// It belongs to the set.
    Member(Value),
    /// It exists for a step.
    Hook(ChartHook),
    /// It is for `helm test` alone.
    Test,
}

/// What an object is for, as its annotations say.
pub(crate) fn role_of(object: Value) -> Result<ObjectRole, UnsupportedHook> {
    let Some(hooks) = annotation(&object, HOOK_ANNOTATION) else {
        return Ok(ObjectRole::Member(object));
    };
    let unsupported = |annotation, value: &str, supported| UnsupportedHook {
        object: named(&object),
        annotation,
        value: quoted(value),
        supported,
    };
    let mut events = BTreeSet::new();
    for name in names(hooks).filter(|name| !TESTS.contains(&name.as_str())) {
        let event = parse(&name).ok_or_else(|| {
            unsupported(
                HOOK_ANNOTATION,
                &name,
                "pre- or post- with install, upgrade, delete or rollback",
            )
        })?;
        events.insert(event);
    }
    if events.is_empty() {
        return Ok(ObjectRole::Test);
    }
    let mut delete_policies = BTreeSet::new();
    for name in names(annotation(&object, DELETE_ANNOTATION).unwrap_or_default()) {
        let policy = parse(&name).ok_or_else(|| {
            unsupported(
                DELETE_ANNOTATION,
                &name,
                "hook-succeeded, hook-failed or before-hook-creation",
            )
        })?;
        delete_policies.insert(policy);
    }
    if delete_policies.is_empty() {
        delete_policies.insert(HookDeletePolicy::BeforeHookCreation);
    }
    // As in helm, a weight that is no number counts as 0.
    let weight = annotation(&object, WEIGHT_ANNOTATION).and_then(|text| text.parse().ok());
    Ok(ObjectRole::Hook(ChartHook {
        events,
        weight: weight.unwrap_or_default(),
        delete_policies,
        object,
    }))
}

fn names(text: &str) -> impl Iterator<Item = String> {
    let names = text.split(',').map(|name| name.trim().to_ascii_lowercase());
    names.filter(|name| !name.is_empty())
}

fn parse<T: for<'de> Deserialize<'de>>(name: &str) -> Option<T> {
    serde_json::from_value(Value::String(name.to_owned())).ok()
}

fn annotation<'o>(object: &'o Value, key: &str) -> Option<&'o str> {
    object
        .get("metadata")?
        .get("annotations")?
        .get(key)?
        .as_str()
}

/// The kind and the name of an object.
fn named(object: &Value) -> String {
    let text = |value: Option<&Value>| {
        let text = value.and_then(Value::as_str).unwrap_or_default();
        quoted(text)
    };
    let name = object.get("metadata").and_then(|all| all.get("name"));
    format!("{} {}", text(object.get("kind")), text(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(annotations: &Value) -> Result<ObjectRole, UnsupportedHook> {
        role_of(json!({
            "kind": "Job", "metadata": {"name": "migrate", "annotations": annotations},
        }))
    }

    #[test]
    fn hooks_have_their_steps_weights_and_policies() {
        for (annotations, events, weight, policies) in [
            (
                json!({"helm.sh/hook": "pre-install"}),
                "pre-install",
                0,
                "before-hook-creation",
            ),
            (
                json!({
                    "helm.sh/hook": "post-install, Post-Upgrade", "helm.sh/hook-weight": "-5",
                    "helm.sh/hook-delete-policy": "hook-succeeded,hook-failed",
                }),
                "post-install post-upgrade",
                -5,
                "hook-succeeded hook-failed",
            ),
            (
                json!({"helm.sh/hook": "pre-rollback,test", "helm.sh/hook-weight": "x"}),
                "pre-rollback",
                0,
                "before-hook-creation",
            ),
        ] {
            let ObjectRole::Hook(hook) = role(&annotations).unwrap() else {
                panic!("{annotations} is a hook");
            };
            assert_eq!(written(&hook.events), events);
            assert_eq!(hook.weight, weight);
            assert_eq!(written(&hook.delete_policies), policies);
        }
    }

    fn written<T: Serialize>(all: &BTreeSet<T>) -> String {
        let names = all.iter().map(|one| match serde_json::to_value(one) {
            Ok(Value::String(name)) => name,
            other => panic!("{other:?}"),
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tests_are_no_hooks_and_other_objects_are_members() {
        for hook in ["test", "test-success", " test-failure "] {
            assert_eq!(role(&json!({"helm.sh/hook": hook})), Ok(ObjectRole::Test));
        }
        for annotations in [json!({}), json!(null), json!({"helm.sh/hook": 1})] {
            assert!(matches!(role(&annotations), Ok(ObjectRole::Member(_))));
        }
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        for (annotations, expected) in [
            (
                json!({"helm.sh/hook": "crd-install"}),
                "Job migrate has the annotation helm.sh/hook: crd-install, which is not supported; \
                 use pre- or post- with install, upgrade, delete or rollback",
            ),
            (
                json!({"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "never"}),
                "Job migrate has the annotation helm.sh/hook-delete-policy: never, which is not \
                 supported; use hook-succeeded, hook-failed or before-hook-creation",
            ),
        ] {
            assert_eq!(role(&annotations).unwrap_err().to_string(), expected);
        }
    }
}
