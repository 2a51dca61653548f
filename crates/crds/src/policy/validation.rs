//! What of policies makes no sense. The rules are those of Karmada's admission webhooks
//! (`pkg/util/validation`), which refuse such policies when they are applied.

mod overriders;

use std::collections::BTreeSet;

use super::{
    AffinityTerm, ClusterPlacement, Failover, OverrideSpec, PropagationSpec, ReplicaScheduling,
    SpreadConstraint, StatePreservation, TemplateSelector,
    override_schema::{ONE_FORM, RULES},
    placement_schema::{
        AFFINITIES, CLUSTERS_TOO, CONSTRAINTS, FIELD_OR_LABEL, GROUPS_IN_ORDER, NEW_NAME,
        ONE_AFFINITY, OVERFLOW_BY_ROOM, OVERFLOW_FROM, OVERFLOWS, SPREAD_ONCE, TOLERATIONS,
        WEIGHTS,
    },
    propagation_schema::{
        DEPENDENCIES_NEEDED, NAMES_NEEDED, ONE_SUSPENSION, ONLY_GRACEFUL, SELECTORS,
        STATE_PATH_NEEDED,
    },
    state_path::state_steps,
};
use crate::{
    affinity::ClusterAffinity,
    validation::{InvalidField, InvalidFields},
};

/// How long the name of a group of clusters may be.
const LONGEST_AFFINITY_NAME: usize = 32;

/// What of a `PropagationPolicy` (`namespace` is its own) or of a `ClusterPropagationPolicy` makes
/// no sense.
pub fn invalid_propagation(spec: &PropagationSpec, namespace: Option<&str>) -> Vec<InvalidField> {
    let mut found = InvalidFields::default();
    let selectors = &spec.resource_selectors;
    found.require(
        !selectors.is_empty(),
        "spec.resourceSelectors",
        "name at least one kind, such as {apiVersion: apps/v1, kind: Deployment}",
    );
    found.selectors(selectors, namespace);
    found.one_of(
        "spec.preemption",
        spec.preemption.as_deref(),
        &["Always", "Never"],
    );
    let is_exact = selectors.iter().all(|one| !one.name.is_empty());
    found.require(
        spec.preemption.as_deref() != Some("Always") || is_exact,
        "spec.preemption",
        NAMES_NEEDED,
    );
    found.one_of(
        "spec.conflictResolution",
        spec.conflict_resolution.as_deref(),
        &["Abort", "Overwrite"],
    );
    found.one_of(
        "spec.activationPreference",
        spec.activation_preference.as_deref(),
        &["Lazy"],
    );
    if let Some(suspension) = &spec.suspension {
        found.require(
            suspension.dispatching != Some(true) || suspension.dispatching_on_clusters.is_none(),
            "spec.suspension",
            ONE_SUSPENSION,
        );
    }
    if let Some(failover) = &spec.failover {
        found.failover(failover, spec.propagate_deps);
    }
    found.placement(&spec.placement);
    found.into_fields()
}

/// What of an `OverridePolicy` (`namespace` is its own) or of a `ClusterOverridePolicy` makes no
/// sense.
pub fn invalid_override(spec: &OverrideSpec, namespace: Option<&str>) -> Vec<InvalidField> {
    let mut found = InvalidFields::default();
    found.selectors(&spec.resource_selectors, namespace);
    let is_old = spec.target_cluster.is_some() || spec.overriders.is_some();
    found.require(
        !is_old || spec.override_rules.is_empty(),
        "spec.overrideRules",
        ONE_FORM,
    );
    found.count("spec.overrideRules", spec.override_rules.len(), RULES);
    for (index, rule) in spec.override_rules.iter().enumerate() {
        let path = format!("spec.overrideRules[{index}]");
        if let Some(affinity) = &rule.target_cluster {
            found.affinity(&format!("{path}.targetCluster"), affinity);
        }
        found.overriders(&format!("{path}.overriders"), &rule.overriders);
    }
    if let Some(affinity) = &spec.target_cluster {
        found.affinity("spec.targetCluster", affinity);
    }
    if let Some(overriders) = &spec.overriders {
        found.overriders("spec.overriders", overriders);
    }
    found.into_fields()
}

impl InvalidFields {
    /// A text that is absent or one of these.
    fn one_of(&mut self, path: &str, text: Option<&str>, known: &[&str]) {
        let is_known = text.is_none_or(|text| known.contains(&text));
        self.require(
            is_known,
            path,
            &format!("it must be {}", known.join(" or ")),
        );
    }

    fn selectors(&mut self, selectors: &[TemplateSelector], namespace: Option<&str>) {
        self.count("spec.resourceSelectors", selectors.len(), SELECTORS);
        for (index, selector) in selectors.iter().enumerate() {
            let path = format!("spec.resourceSelectors[{index}]");
            let has_kind = !selector.api_version.is_empty() && !selector.kind.is_empty();
            self.require(has_kind, &path, "apiVersion and kind are needed");
            let is_own = selector.namespace.is_empty()
                || namespace.is_none_or(|own| own == selector.namespace);
            self.require(
                is_own,
                &format!("{path}.namespace"),
                "it must be the namespace of the policy",
            );
            if let Some(labels) = &selector.label_selector {
                self.labels(&format!("{path}.labelSelector"), labels);
            }
        }
    }

    fn failover(&mut self, failover: &Failover, propagates_deps: bool) {
        if let Some(application) = &failover.application {
            let path = "spec.failover.application";
            self.require(propagates_deps, path, DEPENDENCIES_NEEDED);
            self.one_of(
                &format!("{path}.purgeMode"),
                application.purge_mode.as_deref(),
                &["Directly", "Gracefully", "Never"],
            );
            let is_graceful =
                matches!(application.purge_mode.as_deref(), None | Some("Gracefully"));
            let seconds = application.grace_period_seconds;
            let path = format!("{path}.gracePeriodSeconds");
            self.require(seconds.is_none() || is_graceful, &path, ONLY_GRACEFUL);
            let is_positive = seconds.is_none_or(|seconds| seconds > 0);
            self.require(is_positive, &path, "it must be at least 1");
            let preservation = application.state_preservation.as_ref();
            self.state_preservation("spec.failover.application", preservation);
        }
        if let Some(cluster) = &failover.cluster {
            self.one_of(
                "spec.failover.cluster.purgeMode",
                cluster.purge_mode.as_deref(),
                &["Directly", "Gracefully"],
            );
            let preservation = cluster.state_preservation.as_ref();
            self.state_preservation("spec.failover.cluster", preservation);
        }
    }

    fn state_preservation(&mut self, path: &str, preservation: Option<&StatePreservation>) {
        let rules = preservation.into_iter().flat_map(|one| &one.rules);
        for (index, rule) in rules.enumerate() {
            let path = format!("{path}.statePreservation.rules[{index}].jsonPath");
            self.require(
                state_steps(&rule.json_path).is_some(),
                &path,
                STATE_PATH_NEEDED,
            );
        }
    }

    fn placement(&mut self, placement: &ClusterPlacement) {
        let path = "spec.placement";
        self.require(
            placement.cluster_affinity.is_none() || placement.cluster_affinities.is_empty(),
            path,
            ONE_AFFINITY,
        );
        if let Some(affinity) = &placement.cluster_affinity {
            self.affinity(&format!("{path}.clusterAffinity"), affinity);
        }
        let mut names = BTreeSet::new();
        self.count(
            &format!("{path}.clusterAffinities"),
            placement.cluster_affinities.len(),
            AFFINITIES,
        );
        for (index, term) in placement.cluster_affinities.iter().enumerate() {
            let path = format!("{path}.clusterAffinities[{index}]");
            self.term(
                &path,
                term,
                &mut names,
                placement.replica_scheduling.as_ref(),
            );
        }
        for (index, toleration) in placement.cluster_tolerations.iter().enumerate() {
            self.one_of(
                &format!("{path}.clusterTolerations[{index}].operator"),
                toleration.operator.as_deref(),
                &["Exists", "Equal"],
            );
        }
        self.count(
            &format!("{path}.clusterTolerations"),
            placement.cluster_tolerations.len(),
            TOLERATIONS,
        );
        self.count(
            &format!("{path}.spreadConstraints"),
            placement.spread_constraints.len(),
            CONSTRAINTS,
        );
        self.spread(&placement.spread_constraints);
        if let Some(scheduling) = &placement.replica_scheduling {
            self.scheduling(&format!("{path}.replicaScheduling"), scheduling);
        }
    }

    fn term<'t>(
        &mut self,
        path: &str,
        term: &'t AffinityTerm,
        names: &mut BTreeSet<&'t str>,
        scheduling: Option<&ReplicaScheduling>,
    ) {
        self.affinity(path, &term.affinity);
        self.affinity_name(path, &term.affinity_name, names);
        if term.overflow_affinities.is_empty() {
            return;
        }
        let is_by_room = scheduling.is_some_and(|one| {
            let weights = one.weight_preference.as_ref();
            one.replica_scheduling_type.as_deref() != Some("Duplicated")
                && (one.replica_division_preference.as_deref() == Some("Aggregated")
                    || weights.is_some_and(|weights| weights.dynamic_weight.is_some()))
        });
        let overflows = format!("{path}.overflowAffinities");
        self.count(&overflows, term.overflow_affinities.len(), OVERFLOWS);
        self.require(is_by_room, &overflows, OVERFLOW_BY_ROOM);
        let has_affinity = term.affinity != ClusterAffinity::default();
        self.require(has_affinity, &overflows, OVERFLOW_FROM);
        let mut own = BTreeSet::from([term.affinity_name.as_str()]);
        for (index, overflow) in term.overflow_affinities.iter().enumerate() {
            let path = format!("{path}.overflowAffinities[{index}]");
            self.affinity(&format!("{path}.affinity"), &overflow.affinity);
            self.affinity_name(&path, &overflow.affinity_name, &mut own);
        }
    }

    fn affinity_name<'t>(&mut self, path: &str, name: &'t str, names: &mut BTreeSet<&'t str>) {
        let path = format!("{path}.affinityName");
        self.require(
            !name.is_empty() && name.len() <= LONGEST_AFFINITY_NAME,
            &path,
            "a name of 1 to 32 characters is needed",
        );
        let is_new = names.insert(name);
        self.require(is_new, &path, NEW_NAME);
    }

    fn spread(&mut self, constraints: &[SpreadConstraint]) {
        let mut by = BTreeSet::new();
        for (index, constraint) in constraints.iter().enumerate() {
            let path = format!("spec.placement.spreadConstraints[{index}]");
            let field = constraint.spread_by_field.as_deref().unwrap_or_default();
            let label = constraint.spread_by_label.as_deref().unwrap_or_default();
            self.require(field.is_empty() || label.is_empty(), &path, FIELD_OR_LABEL);
            self.one_of(
                &format!("{path}.spreadByField"),
                Some(field).filter(|field| !field.is_empty()),
                &["cluster", "region", "zone", "provider"],
            );
            let (least, most) = (
                constraint.min_groups.unwrap_or(0),
                constraint.max_groups.unwrap_or(0),
            );
            self.require(
                least >= 0 && most >= 0,
                &path,
                "minGroups and maxGroups cannot be negative",
            );
            self.require(most == 0 || least <= most, &path, GROUPS_IN_ORDER);
            let group = if label.is_empty() && field.is_empty() {
                "cluster"
            } else {
                field
            };
            let is_new = by.insert((group, label));
            self.require(is_new, &path, SPREAD_ONCE);
        }
        let has_field = by
            .iter()
            .any(|(field, _)| !matches!(*field, "" | "cluster"));
        self.require(
            !has_field || by.contains(&("cluster", "")),
            "spec.placement.spreadConstraints",
            CLUSTERS_TOO,
        );
    }

    fn scheduling(&mut self, path: &str, scheduling: &ReplicaScheduling) {
        self.one_of(
            &format!("{path}.replicaSchedulingType"),
            scheduling.replica_scheduling_type.as_deref(),
            &["Duplicated", "Divided"],
        );
        self.one_of(
            &format!("{path}.replicaDivisionPreference"),
            scheduling.replica_division_preference.as_deref(),
            &["Aggregated", "Weighted"],
        );
        let Some(weights) = &scheduling.weight_preference else {
            return;
        };
        let path = format!("{path}.weightPreference");
        self.one_of(
            &format!("{path}.dynamicWeight"),
            weights
                .dynamic_weight
                .as_deref()
                .filter(|by| !by.is_empty()),
            &["AvailableReplicas"],
        );
        self.count(
            &format!("{path}.staticWeightList"),
            weights.static_weight_list.len(),
            WEIGHTS,
        );
        for (index, weight) in weights.static_weight_list.iter().enumerate() {
            let path = format!("{path}.staticWeightList[{index}]");
            self.affinity(&format!("{path}.targetCluster"), &weight.target_cluster);
            self.require(
                weight.weight >= 1,
                &format!("{path}.weight"),
                "it must be at least 1",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(fields: &[InvalidField]) -> Vec<String> {
        fields.iter().map(ToString::to_string).collect()
    }

    fn propagation(change: &Value) -> Vec<String> {
        let mut spec =
            json!({"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]});
        for (member, value) in change.as_object().unwrap() {
            spec[member] = value.clone();
        }
        let spec = serde_json::from_value(spec).unwrap();
        shown(&invalid_propagation(&spec, Some("shop")))
    }

    #[test]
    fn policies_that_make_no_sense_are_found() {
        let both = json!([{"affinityName": "a"}]);
        let divided = json!({"replicaSchedulingType": "Divided"});
        for (change, expected) in [
            (json!({}), ""),
            (
                json!({"resourceSelectors": []}),
                "spec.resourceSelectors: name at least one kind",
            ),
            (
                json!({"resourceSelectors": [{"apiVersion": "v1", "kind": "Pod", "namespace": "other"}]}),
                "spec.resourceSelectors[0].namespace: it must be the namespace of the policy",
            ),
            (
                json!({"preemption": "Always"}),
                "spec.preemption: preemption Always needs a name",
            ),
            (
                json!({"conflictResolution": "Merge"}),
                "spec.conflictResolution: it must be Abort or Overwrite",
            ),
            (
                json!({"suspension": {"dispatching": true, "dispatchingOnClusters": {}}}),
                "spec.suspension: dispatching suspends all",
            ),
            (
                json!({"failover": {"application": {}}}),
                "spec.failover.application: failover.application needs propagateDeps",
            ),
            (
                json!({"propagateDeps": true, "failover": {"application": {"purgeMode": "Never", "gracePeriodSeconds": 5}}}),
                "spec.failover.application.gracePeriodSeconds",
            ),
            (
                json!({"placement": {"clusterAffinity": {}, "clusterAffinities": both}}),
                "spec.placement: use clusterAffinity or clusterAffinities",
            ),
            (
                json!({"placement": {"clusterAffinities": [{"affinityName": "a"}, {"affinityName": "a"}]}}),
                "spec.placement.clusterAffinities[1].affinityName: another group",
            ),
            (
                json!({"placement": {"clusterAffinities": [{"affinityName": "a", "clusterNames": ["m1"],
                    "overflowAffinities": [{"affinityName": "b"}]}], "replicaScheduling": divided}}),
                "spec.placement.clusterAffinities[0].overflowAffinities: overflowAffinities need",
            ),
            (
                json!({"placement": {"spreadConstraints": [{"spreadByField": "region"}]}}),
                "spec.placement.spreadConstraints: a constraint by region",
            ),
            (
                json!({"placement": {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 3, "maxGroups": 2}]}}),
                "spec.placement.spreadConstraints[0]: minGroups is greater",
            ),
            (
                json!({"placement": {"spreadConstraints": [{}, {"spreadByField": "cluster"}]}}),
                "spec.placement.spreadConstraints[1]: another constraint",
            ),
            (
                json!({"placement": {"replicaScheduling": {"replicaSchedulingType": "Even"}}}),
                "spec.placement.replicaScheduling.replicaSchedulingType: it must be",
            ),
            (
                json!({"placement": {"replicaScheduling": {"weightPreference": {"staticWeightList": [
                    {"targetCluster": {}, "weight": 0}]}}}}),
                "spec.placement.replicaScheduling.weightPreference.staticWeightList[0].weight: it must",
            ),
        ] {
            let found = propagation(&change).join("\n");
            assert!(found.starts_with(expected), "{change}: {found}");
            assert_eq!(found.is_empty(), expected.is_empty(), "{change}: {found}");
        }
    }

    #[test]
    fn overrides_that_make_no_sense_are_found() {
        for (overriders, expected) in [
            (
                json!({"plaintext": [{"path": "/a", "operator": "add", "value": null}]}),
                "spec.overrideRules[0].overriders.plaintext[0]: add and",
            ),
            (
                json!({"plaintext": [{"path": "/a", "operator": "remove"}]}),
                "",
            ),
            (
                json!({"plaintext": [{"path": "a", "operator": "add", "value": 1}]}),
                "spec.overrideRules[0].overriders.plaintext[0].path: it must",
            ),
            (
                json!({"plaintext": [{"path": "/a", "operator": "test", "value": 1}]}),
                "spec.overrideRules[0].overriders.plaintext[0].operator: it",
            ),
            (
                json!({"imageOverrider": [{"component": "Digest", "operator": "remove"}]}),
                "spec.overrideRules[0].overriders.imageOverrider[0].component",
            ),
            (
                json!({"argsOverrider": [{"containerName": "a", "operator": "replace"}]}),
                "spec.overrideRules[0].overriders.argsOverrider[0].operator",
            ),
            (
                json!({"labelsOverrider": [{"operator": "set"}]}),
                "spec.overrideRules[0].overriders.labelsOverrider[0].operator",
            ),
            (
                json!({"fieldOverrider": [{"fieldPath": "/data/a"}]}),
                "spec.overrideRules[0].overriders.fieldOverrider[0]: changes of",
            ),
        ] {
            let spec = json!({"overrideRules": [{"overriders": overriders}]});
            let spec: OverrideSpec = serde_json::from_value(spec).unwrap();
            let found = shown(&invalid_override(&spec, None)).join("\n");
            assert!(found.starts_with(expected), "{overriders}: {found}");
            assert_eq!(
                found.is_empty(),
                expected.is_empty(),
                "{overriders}: {found}"
            );
        }
        let old = json!({"overriders": {}, "overrideRules": [{"overriders": {}}]});
        let old: OverrideSpec = serde_json::from_value(old).unwrap();
        assert!(
            shown(&invalid_override(&old, None))[0]
                .starts_with("spec.overrideRules: targetCluster")
        );
    }
}
