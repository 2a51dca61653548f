//! Bounds and CEL rules of [`ClusterPlacement`](super::ClusterPlacement).
//!
//! Karmada has no bounds. These exist because the API server multiplies the cost of a rule with the
//! greatest length of each list around it, and refuses a CRD with a rule that may cost too much.

use schemars::{Schema, SchemaGenerator, json_schema};

/// Most groups of clusters. Their names are compared with each other.
pub(super) const AFFINITIES: usize = 100;
/// Most groups that one group overflows into.
pub(super) const OVERFLOWS: usize = 16;
/// Most spread constraints. Their labels are compared with each other.
pub(super) const CONSTRAINTS: usize = 100;
/// Most fixed weights.
pub(super) const WEIGHTS: usize = 1_000;
/// Most tolerations.
pub(super) const TOLERATIONS: usize = 1_000;

pub(super) const ONE_AFFINITY: &str = "use clusterAffinity or clusterAffinities, not both";
pub(super) const OVERFLOW_BY_ROOM: &str =
    "overflowAffinities need replicas that are Divided by room: Aggregated or dynamicWeight";
pub(super) const OVERFLOW_FROM: &str = "overflowAffinities need an affinity to overflow from";
pub(super) const NEW_NAME: &str = "another group has this affinityName";
pub(super) const FIELD_OR_LABEL: &str = "use spreadByField or spreadByLabel, not both";
pub(super) const GROUPS_IN_ORDER: &str = "minGroups is greater than maxGroups";
pub(super) const SPREAD_ONCE: &str = "another constraint spreads by the same";
pub(super) const CLUSTERS_TOO: &str =
    "a constraint by region, zone or provider needs one with spreadByField: cluster beside it";

pub(super) const PLACEMENT_RULES: &[(&str, &str)] = &[
    (
        "!has(self.clusterAffinity) || !has(self.clusterAffinities) || size(self.clusterAffinities) == 0",
        ONE_AFFINITY,
    ),
    (
        "!has(self.clusterAffinities) || !self.clusterAffinities.exists(term, has(term.overflowAffinities) && size(term.overflowAffinities) > 0) || \
         (has(self.replicaScheduling) && \
         (!has(self.replicaScheduling.replicaSchedulingType) || self.replicaScheduling.replicaSchedulingType == 'Divided') && \
         ((has(self.replicaScheduling.replicaDivisionPreference) && self.replicaScheduling.replicaDivisionPreference == 'Aggregated') || \
         (has(self.replicaScheduling.weightPreference) && has(self.replicaScheduling.weightPreference.dynamicWeight))))",
        OVERFLOW_BY_ROOM,
    ),
];

/// Of `clusterAffinities`.
pub(super) const AFFINITIES_RULES: &[(&str, &str)] = &[(UNIQUE_NAMES, NEW_NAME)];
/// Of `overflowAffinities`.
pub(super) const OVERFLOWS_RULES: &[(&str, &str)] = &[(UNIQUE_NAMES, NEW_NAME)];
const UNIQUE_NAMES: &str =
    "self.all(term, self.exists_one(other, other.affinityName == term.affinityName))";

/// Of one of `clusterAffinities`.
pub(super) const TERM_RULES: &[(&str, &str)] = &[
    (
        "!has(self.overflowAffinities) || self.overflowAffinities.all(term, term.affinityName != self.affinityName)",
        NEW_NAME,
    ),
    (
        "!has(self.overflowAffinities) || size(self.overflowAffinities) == 0 || has(self.labelSelector) || has(self.fieldSelector) || \
         (has(self.clusterNames) && size(self.clusterNames) > 0) || (has(self.exclude) && size(self.exclude) > 0)",
        OVERFLOW_FROM,
    ),
];

/// Of one of `spreadConstraints`.
pub(super) const CONSTRAINT_RULES: &[(&str, &str)] = &[
    (
        "!has(self.spreadByField) || !has(self.spreadByLabel) || self.spreadByLabel == ''",
        FIELD_OR_LABEL,
    ),
    (
        "!has(self.maxGroups) || self.maxGroups == 0 || !has(self.minGroups) || self.minGroups <= self.maxGroups",
        GROUPS_IN_ORDER,
    ),
];

/// Of `spreadConstraints`. One without field and label is by cluster.
pub(super) const CONSTRAINTS_RULES: &[(&str, &str)] = &[
    (
        "['region', 'zone', 'provider'].all(field, size(self.filter(one, has(one.spreadByField) && one.spreadByField == field)) <= 1) && \
         size(self.filter(one, has(one.spreadByField) ? one.spreadByField == 'cluster' : (!has(one.spreadByLabel) || one.spreadByLabel == ''))) <= 1",
        SPREAD_ONCE,
    ),
    (
        "self.all(one, !has(one.spreadByLabel) || one.spreadByLabel == '' || \
         self.exists_one(other, has(other.spreadByLabel) && other.spreadByLabel == one.spreadByLabel))",
        SPREAD_ONCE,
    ),
    (
        "self.all(one, !has(one.spreadByField) || one.spreadByField == 'cluster') || \
         self.exists(one, has(one.spreadByField) ? one.spreadByField == 'cluster' : (!has(one.spreadByLabel) || one.spreadByLabel == ''))",
        CLUSTERS_TOO,
    ),
];

/// Tolerations whose operators Karmada knows: those of Pods have `Lt` and `Gt` as well.
pub(super) fn tolerations(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": TOLERATIONS,
        "items": {
            "type": "object",
            "properties": {
                "key": {"type": "string", "description": "The key of the taint; empty, with Exists: every one.", "maxLength": 317},
                "operator": {"type": "string", "description": "Exists, or Equal (the default).", "enum": ["Exists", "Equal"]},
                "value": {"type": "string", "description": "The value of the taint, with Equal.", "maxLength": 63},
                "effect": {"type": "string", "description": "The effect of the taint; empty: every one.", "maxLength": 63},
                "tolerationSeconds": {
                    "type": "integer",
                    "format": "int64",
                    "description": "How long a taint with the effect NoExecute is tolerated; absent: for ever.",
                },
            },
        },
    })
}
