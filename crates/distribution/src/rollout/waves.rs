//! Which clusters belong to which wave.

use std::collections::BTreeSet;

use fleetdex_crds::{
    affinity::ClusterAffinity,
    distribution::{Rollout, RolloutWave},
};
use fleetdex_interpreter::value::text;
use jiff::SignedDuration;
use serde_json::Value;

use crate::cluster::TargetCluster;

/// The annotation of a policy with the waves of its templates.
const WAVES: &str = "distribute.fleetdex.io/rollout";
/// Most waves of a policy.
const MOST: usize = 100;

/// The order in which clusters get the changed templates of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateWaves {
    /// The waves.
    pub rules: Vec<WaveRules>,
    /// Whether no further wave begins.
    pub is_paused: bool,
}

/// Waves make no sense.
#[derive(Debug, thiserror::Error)]
pub enum InvalidWaves {
    /// They are not written as waves are.
    #[error("the annotation {WAVES} is not written as spec.rollout of a Distribution is")]
    Unreadable(#[from] serde_saphyr::Error),
    /// There are none.
    #[error("waves is empty")]
    Empty,
    /// There are too many.
    #[error("waves has more than {MOST} entries")]
    TooMany,
    /// A field makes no sense.
    #[error("waves[{0}].{1} makes no sense")]
    Field(usize, &'static str),
}

impl TemplateWaves {
    /// The waves of a policy, if it has some.
    pub fn of_policy(policy: &Value) -> Result<Option<Self>, InvalidWaves> {
        match text(policy, &["metadata", "annotations", WAVES]) {
            "" => Ok(None),
            text => Self::parse(text).map(Some),
        }
    }

    /// Reads what the annotation of a policy says, as `spec.rollout` of a `Distribution` does.
    fn parse(text: &str) -> Result<Self, InvalidWaves> {
        let rollout: Rollout = serde_saphyr::from_str(text)?;
        if rollout.waves.len() > MOST {
            return Err(InvalidWaves::TooMany);
        }
        Ok(Self {
            rules: WaveRules::read_all(&rollout)?,
            is_paused: rollout.paused,
        })
    }
}

/// What the spec says of a wave.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveRules {
    /// The clusters.
    pub affinity: Option<ClusterAffinity>,
    /// As many clusters that this part of all has the change.
    pub percent: Option<usize>,
    /// Whether the next wave begins only when it is resumed.
    pub pause: bool,
    /// How long it has to be healthy.
    pub healthy_for: SignedDuration,
    /// In how many clusters objects may be unhealthy all the same.
    pub max_unhealthy: usize,
    /// How long after it began it has failed if it is not healthy.
    pub deadline: SignedDuration,
}

impl Default for WaveRules {
    fn default() -> Self {
        Self {
            affinity: None,
            percent: None,
            pause: false,
            healthy_for: SignedDuration::ZERO,
            max_unhealthy: 0,
            deadline: SignedDuration::from_mins(10),
        }
    }
}

impl WaveRules {
    /// Reads all waves of a rollout.
    pub fn read_all(rollout: &Rollout) -> Result<Vec<Self>, InvalidWaves> {
        if rollout.waves.is_empty() {
            return Err(InvalidWaves::Empty);
        }
        let waves = rollout.waves.iter().enumerate();
        waves
            .map(|(position, wave)| {
                Self::read(wave).map_err(|field| InvalidWaves::Field(position, field))
            })
            .collect()
    }

    /// Reads a wave of a spec. An error names the field that makes no sense.
    pub(super) fn read(wave: &RolloutWave) -> Result<Self, &'static str> {
        let defaults = Self::default();
        let duration = |text: &Option<String>, default: SignedDuration, field: &'static str| {
            let Some(text) = text else {
                return Ok(default);
            };
            let parsed: Result<SignedDuration, _> = text.parse();
            parsed.ok().filter(|one| !one.is_negative()).ok_or(field)
        };
        let number = |value: Option<i32>, field: &'static str| {
            let number = value.map(usize::try_from).transpose();
            number.map_err(|_| field)
        };
        if wave.cluster_affinity.is_some() && wave.percent.is_some() {
            return Err("percent");
        }
        Ok(Self {
            affinity: wave.cluster_affinity.clone(),
            percent: number(wave.percent, "percent")?,
            pause: wave.pause,
            healthy_for: duration(&wave.healthy_for, defaults.healthy_for, "healthyFor")?,
            max_unhealthy: number(wave.max_unhealthy, "maxUnhealthy")?.unwrap_or(0),
            deadline: duration(&wave.deadline, defaults.deadline, "deadline")?,
        })
    }
}

/// The clusters of each wave; one of all clusters if there are no rules. Clusters that no rule
/// selects are one more wave, the last one. Within a percentage, those that are reached come first,
/// so that a cluster that joins takes the place of none of them; then names decide.
pub fn waves(
    rules: &[WaveRules],
    clusters: &[&TargetCluster],
    reached: &BTreeSet<String>,
) -> Vec<BTreeSet<String>> {
    let mut left: Vec<&TargetCluster> = clusters.to_vec();
    left.sort_by_key(|cluster| (!reached.contains(&cluster.name), &cluster.name));
    let mut waves = Vec::new();
    for rule in rules {
        let taken = clusters.len() - left.len();
        let most = match rule.percent {
            Some(percent) => (percent * clusters.len())
                .div_ceil(100)
                .saturating_sub(taken),
            None => clusters.len(),
        };
        let is_selected = |cluster: &TargetCluster| {
            let affinity = rule.affinity.as_ref();
            affinity.is_none_or(|affinity| affinity.matches(cluster.properties()))
        };
        let (mut wave, mut others) = (BTreeSet::new(), Vec::new());
        for cluster in left {
            if wave.len() < most && is_selected(cluster) {
                wave.insert(cluster.name.clone());
            } else {
                others.push(cluster);
            }
        }
        left = others;
        waves.push(wave);
    }
    if !left.is_empty() {
        waves.push(left.iter().map(|cluster| cluster.name.clone()).collect());
    }
    waves
}
