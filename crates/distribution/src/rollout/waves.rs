//! Which clusters belong to which wave.

use std::collections::BTreeSet;

use fleetdex_crds::{affinity::ClusterAffinity, distribution::RolloutWave};
use jiff::SignedDuration;

use crate::cluster::TargetCluster;

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
    /// Reads a wave of a spec. An error names the field that makes no sense.
    pub fn read(wave: &RolloutWave) -> Result<Self, &'static str> {
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
