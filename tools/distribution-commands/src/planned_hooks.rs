//! Which hooks the sets of a plan run in their clusters.

use std::collections::BTreeSet;

use fleetdex_distribution::{
    hooks::{HookStep, ReleaseChange, SetHook, hooks_of},
    plan::{DistributionInputs, selected_clusters},
    sets::{ObjectSet, SetName},
};

/// Clusters that a line names, at most.
const NAMED: usize = 5;

/// A line for the clusters that get the set, and one for those that have it.
pub fn shown_hooks(set: &ObjectSet, hooks: &[SetHook], inputs: &DistributionInputs) -> Vec<String> {
    let is_of_set =
        |name: &SetName| name.namespace == set.name.namespace && name.name == set.name.name;
    let bound = inputs.previous.values();
    let bound = bound.filter(|one| one.set.as_deref().is_some_and(is_of_set));
    let have: BTreeSet<&String> = bound.flat_map(|one| one.clusters.keys()).collect();
    let selected = selected_clusters(inputs, set).map(|cluster| &cluster.name);
    let (upgraded, installed): (Vec<&String>, Vec<&String>) =
        selected.partition(|cluster| have.contains(cluster));
    let changes = [
        (ReleaseChange::Install, installed),
        (ReleaseChange::Upgrade, upgraded),
    ];
    let mut lines = Vec::new();
    for (change, clusters) in changes {
        let steps = [HookStep::pre(change), HookStep::post(change)];
        let run = steps.into_iter().flat_map(|step| {
            let hooks = hooks_of(hooks, step).into_iter();
            hooks.map(move |hook| format!("{} {}", step.as_str(), hook.template.name))
        });
        let run: Vec<String> = run.collect();
        if run.is_empty() || clusters.is_empty() {
            continue;
        }
        let first: Vec<&str> = clusters
            .iter()
            .take(NAMED)
            .map(|one| one.as_str())
            .collect();
        let more = match clusters.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        lines.push(format!(
            "{} runs hooks in {}{more}: {}",
            set.name.shown(),
            first.join(", "),
            run.join(", ")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fleetdex_crds::policy::PropagationSpec;
    use fleetdex_distribution::{
        cluster::TargetCluster,
        hooks::HookDeletion,
        placing::PreviousPlacement,
        template_name::{NamedTemplate, TemplateName},
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn each_cluster_has_the_hooks_of_what_changes_there() {
        let name = SetName {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            uid: "u".to_owned(),
        };
        let set = ObjectSet::new(name.clone(), &PropagationSpec::default(), true);
        let hook = |name: &str, steps: &[&str]| SetHook {
            template: NamedTemplate::from(json!({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": name, "namespace": "shop"},
            })),
            steps: steps
                .iter()
                .filter_map(|step| HookStep::parse(step))
                .collect(),
            deletion: HookDeletion::default(),
        };
        let hooks = [
            hook("migrate", &["pre-upgrade"]),
            hook("seed", &["post-install", "pre-delete"]),
        ];
        let clusters = ["m1", "m2"].map(|name| TargetCluster {
            name: name.to_owned(),
            ..TargetCluster::default()
        });
        let previous = PreviousPlacement {
            clusters: [("m1".to_owned(), 0)].into(),
            set: Some(Arc::new(name)),
            ..PreviousPlacement::default()
        };
        let inputs = DistributionInputs {
            clusters: clusters.to_vec(),
            previous: [(TemplateName::default(), Arc::new(previous))].into(),
            ..DistributionInputs::default()
        };
        assert_eq!(
            shown_hooks(&set, &hooks, &inputs),
            [
                "Distribution shop/web runs hooks in m2: post-install Job shop/seed",
                "Distribution shop/web runs hooks in m1: pre-upgrade Job shop/migrate",
            ]
        );
    }
}
