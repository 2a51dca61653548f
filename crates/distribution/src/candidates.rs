//! Which clusters an object can go to, and every reason why the others do not fit.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_crds::{affinity::ClusterAffinity, policy::ClusterPlacement};

use crate::{
    cluster::{TargetCluster, taint_text},
    division::Shares,
    spread::SpreadKey,
    template_name::KindName,
};

/// Where workloads run with which an object runs together, or apart: a label and its value, and the
/// clusters; `None`: nowhere yet.
#[derive(Clone, Debug, Default)]
pub struct Companions {
    /// Only these clusters are chosen.
    pub together: Option<(String, BTreeSet<String>)>,
    /// None of these clusters is chosen.
    pub apart: Option<(String, BTreeSet<String>)>,
}

/// The clusters that an object must not go to, and why.
pub type AvoidedClusters = BTreeMap<String, String>;

/// What is asked of clusters.
#[derive(Clone, Copy, Debug)]
pub struct Requirements<'a> {
    /// The kind of the object.
    pub kind: &'a KindName,
    /// The clusters that the policy wants.
    pub affinities: &'a [&'a ClusterAffinity],
    /// Its other rules.
    pub placement: &'a ClusterPlacement,
    /// The clusters that have the object now. A new taint, or a list of kinds that is incomplete,
    /// takes nothing away from them.
    pub current: &'a Shares,
    /// The clusters that the object is leaving, and those that it would leave at once.
    pub avoided: &'a AvoidedClusters,
    /// Where its companions run.
    pub companions: &'a Companions,
}

impl Requirements<'_> {
    /// All reasons why the object does not go to a cluster; none: it can.
    pub fn reasons(&self, cluster: &TargetCluster) -> Vec<String> {
        let mut reasons = Vec::new();
        if cluster.is_terminating {
            reasons.push("the cluster is being deleted".to_owned());
        }
        let properties = cluster.properties();
        let is_selected =
            self.affinities.is_empty() || self.affinities.iter().any(|one| one.matches(properties));
        if !is_selected {
            reasons.push("the policy's cluster affinity does not select it".to_owned());
        }
        let is_current = self.current.contains_key(&cluster.name);
        if !is_current {
            let tolerations = &self.placement.cluster_tolerations;
            if let Some(taint) = cluster.untolerated_taint(tolerations) {
                reasons.push(format!("its taint {} is not tolerated", taint_text(taint)));
            }
            if cluster.serves(self.kind) == Some(false) {
                let (api_version, kind) = self.kind;
                reasons.push(format!("it does not serve {kind} of {api_version}"));
            }
        }
        for constraint in &self.placement.spread_constraints {
            let key = SpreadKey::of(constraint);
            if key.groups(cluster).is_empty() {
                reasons.push(format!("it has no {key}, by which the policy spreads"));
            }
        }
        if let Some((group, clusters)) = &self.companions.together
            && !clusters.contains(&cluster.name)
        {
            reasons.push(format!("workloads with {group} run in other clusters"));
        }
        if let Some((group, clusters)) = &self.companions.apart
            && clusters.contains(&cluster.name)
        {
            reasons.push(format!("a workload with {group} runs there"));
        }
        // Its taint may be a reason already.
        let avoided = self.avoided.get(&cluster.name);
        let avoided = avoided.filter(|reason| !reasons.contains(reason));
        reasons.extend(avoided.cloned());
        reasons
    }
}
