//! From the hooks of a chart to those of a set.

use std::collections::BTreeSet;

use fleetdex_distribution::{
    hooks::{HookDeletion, HookStep, ReleaseChange, SetHook},
    template_name::{NamedTemplate, TemplateName},
    templates::never_propagated,
};
use fleetdex_rendering::hooks::{ChartHook, HookDeletePolicy, HookEvent};

use super::failure::{SetFailure, named};

/// Hooks of a chart, at most: all of them are looked at for each cluster.
const MOST_HOOKS: usize = 200;
/// Objects that a message names, at most.
const NAMED: usize = 5;

/// The hooks of a set with these objects; an error: what cannot be run, by name.
pub fn set_hooks(
    hooks: Vec<ChartHook>,
    objects: &[NamedTemplate],
) -> Result<Vec<SetHook>, SetFailure> {
    let number = hooks.len();
    if number > MOST_HOOKS {
        let message = format!("the chart has {number} hooks, and {MOST_HOOKS} are possible");
        return Err(SetFailure::new("TooLarge", message));
    }
    let hooks: Vec<SetHook> = hooks.into_iter().map(set_hook).collect();
    let known: BTreeSet<&TemplateName> = objects.iter().map(|one| &one.name).collect();
    let names = hooks.iter().map(|hook| &hook.template.name);
    let repeated: Vec<&TemplateName> = names.filter(|name| known.contains(name)).collect();
    if !repeated.is_empty() {
        let message = format!(
            "these are hooks and objects of the chart at the same time: {}",
            named(repeated.iter(), NAMED)
        );
        return Err(SetFailure::new("DuplicateObjects", message));
    }
    let refused = hooks.iter().find_map(|hook| {
        let reason = never_propagated(&hook.template.object)?;
        Some((&hook.template.name, reason))
    });
    match refused {
        None => Ok(hooks),
        Some((name, reason)) => Err(SetFailure::new(
            "NeverDistributed",
            format!("the hook {name} is never distributed: {reason}"),
        )),
    }
}

fn set_hook(hook: ChartHook) -> SetHook {
    let deletes = |policy: HookDeletePolicy| hook.delete_policies.contains(&policy);
    SetHook {
        steps: hook.events.iter().map(|event| step(*event)).collect(),
        deletion: HookDeletion {
            before_creation: deletes(HookDeletePolicy::BeforeHookCreation),
            when_succeeded: deletes(HookDeletePolicy::HookSucceeded),
            when_failed: deletes(HookDeletePolicy::HookFailed),
        },
        template: NamedTemplate::from(hook.object),
    }
}

fn step(event: HookEvent) -> HookStep {
    match event {
        HookEvent::PreInstall => HookStep::pre(ReleaseChange::Install),
        HookEvent::PostInstall => HookStep::post(ReleaseChange::Install),
        HookEvent::PreDelete => HookStep::pre(ReleaseChange::Delete),
        HookEvent::PostDelete => HookStep::post(ReleaseChange::Delete),
        HookEvent::PreUpgrade => HookStep::pre(ReleaseChange::Upgrade),
        HookEvent::PostUpgrade => HookStep::post(ReleaseChange::Upgrade),
        HookEvent::PreRollback => HookStep::pre(ReleaseChange::Rollback),
        HookEvent::PostRollback => HookStep::post(ReleaseChange::Rollback),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hook(namespace: &str) -> ChartHook {
        ChartHook {
            events: [HookEvent::PreUpgrade, HookEvent::PostDelete].into(),
            weight: 0,
            delete_policies: [HookDeletePolicy::HookFailed].into(),
            object: json!({"apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": "migrate", "namespace": namespace}}),
        }
    }

    #[test]
    fn hooks_keep_their_steps_and_policies() {
        let found = set_hooks(vec![hook("shop")], &[]).unwrap();
        let steps: Vec<&str> = found[0].steps.iter().map(|step| step.as_str()).collect();
        assert_eq!(steps, ["pre-upgrade", "post-delete"]);
        let HookDeletion {
            before_creation,
            when_succeeded,
            when_failed,
        } = found[0].deletion;
        assert_eq!(
            (before_creation, when_succeeded, when_failed),
            (false, false, true)
        );
    }

    #[test]
    fn what_cannot_be_run_is_refused_by_name() {
        let object = NamedTemplate::from(hook("shop").object);
        for (hooks, objects, reason, part) in [
            (
                vec![hook("shop")],
                vec![object],
                "DuplicateObjects",
                "Job shop/migrate",
            ),
            (
                vec![hook("kube-system")],
                Vec::new(),
                "NeverDistributed",
                "Job kube-system/migrate",
            ),
            (
                vec![hook("shop"); MOST_HOOKS + 1],
                Vec::new(),
                "TooLarge",
                "201",
            ),
        ] {
            let failure = set_hooks(hooks, &objects).unwrap_err();
            assert_eq!(failure.reason, reason);
            assert!(failure.message.contains(part), "{}", failure.message);
        }
    }
}
