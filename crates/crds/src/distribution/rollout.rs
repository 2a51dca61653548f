//! The order in which clusters get changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    affinity::ClusterAffinity,
    schema::{requires, rules},
};

/// A duration as Go writes it.
pub(super) const DURATION: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";
/// Most waves. Their percentages are compared with each other.
const WAVES: usize = 100;

const ONE_CHOICE: &str = "use clusterAffinity or percent, not both";
const PERCENT_IN_ORDER: &str =
    "percent is of all clusters, with those of the waves before: it must not shrink";

const DEADLINE_PASSES: &str = "deadline must be longer than 0s";

/// Of one of `waves`.
const WAVE_RULES: &[(&str, &str)] = &[
    (
        "!has(self.clusterAffinity) || !has(self.percent)",
        ONE_CHOICE,
    ),
    (
        "!has(self.deadline) || duration(self.deadline) > duration('0s')",
        DEADLINE_PASSES,
    ),
];
/// Of `waves`.
const WAVES_RULES: &[(&str, &str)] = &[(
    "self.filter(one, has(one.percent)).map(one, one.percent).isSorted()",
    PERCENT_IN_ORDER,
)];

/// The order in which clusters get changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = requires(&["waves"]))]
pub struct Rollout {
    /// Whether no further wave begins for the time being.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// The waves. Clusters that none selects are the last wave.
    #[serde(default)]
    #[schemars(extend("minItems" = 1, "maxItems" = WAVES, "x-kubernetes-validations" = rules(WAVES_RULES)))]
    pub waves: Vec<RolloutWave>,
}

/// Clusters that get changes together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(WAVE_RULES)))]
pub struct RolloutWave {
    /// The clusters, of those that were not in a wave before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_affinity: Option<ClusterAffinity>,
    /// As many clusters that this part of all of them has the change, rounded up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100))]
    pub percent: Option<i32>,
    /// Whether the next wave begins only when it is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pause: bool,
    /// How long all objects have to be healthy before the next wave, such as `5m`. Default: `0s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("pattern" = DURATION))]
    pub healthy_for: Option<String>,
    /// In how many clusters objects may be unhealthy all the same. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_unhealthy: Option<i32>,
    /// How long after it began the wave has failed if it is not healthy. Default: `10m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32), extend("pattern" = DURATION))]
    pub deadline: Option<String>,
}
