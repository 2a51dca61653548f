//! The objects of sets: which of them are distributed, and which names belong to sets.
//!
//! A copy in a cluster is of one object of the control plane. What has a binding keeps its name:
//! an object of a set whose name another set or a template has is refused, and so is a template
//! whose name a set has.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_crds::affinity::ClusterAffinity;

use super::{
    claimed::Claimed,
    dependencies::Dependencies,
    held_names::{HeldNames, VersionlessName, identity},
    set_change::{SetMember, members_of_set},
    values::DistributionInputs,
};
use crate::{
    cluster::TargetCluster,
    desired::write_order,
    sets::{ObjectSet, RefusedMember, SetName, SetObjects, may_select},
    template_name::NamedTemplate,
    templates::never_propagated,
};

/// The objects of sets that are distributed, definitions first, and those that are refused.
pub(super) fn members<'a>(
    inputs: &'a DistributionInputs,
    held: &HeldNames<'_>,
    claimed: &[Claimed<'_>],
) -> (Vec<Claimed<'a>>, Vec<RefusedMember>) {
    let found = candidates(inputs, held);
    let claimed = claimed.iter().map(|one| (identity(&one.name), one));
    let mut taken = TakenNames {
        inputs,
        held,
        claimed: claimed.collect(),
        by_sets: BTreeMap::new(),
    };
    let (mut members, mut refused) = (Vec::new(), Vec::new());
    for MemberCandidate { one, set, variants } in &found {
        let never = never_propagated(one.object);
        let never = never.map(|reason| format!("it is never distributed: {reason}"));
        let is_never_distributed = never.is_some();
        match never.or_else(|| taken.reason_against(one, set, variants)) {
            Some(reason) => refused.push(RefusedMember {
                set: Arc::clone(set),
                resource: one.name.clone(),
                reason,
                is_never_distributed,
            }),
            None => {
                let known = taken.by_sets.entry(identity(&one.name)).or_default();
                known.push((set, variants));
                members.push(one.clone());
            }
        }
    }
    members.sort_by_cached_key(|one| (write_order(&one.name) > 1, one.name.clone()));
    (members, refused)
}

/// An object of a set.
struct MemberCandidate<'a> {
    one: Claimed<'a>,
    set: &'a Arc<SetName>,
    /// The variants of the set that have it.
    variants: BTreeSet<usize>,
}

/// All objects of all sets: first those that have a binding, then those of the oldest sets.
fn candidates<'a>(
    inputs: &'a DistributionInputs,
    held: &HeldNames<'_>,
) -> Vec<MemberCandidate<'a>> {
    let mut sets: Vec<_> = inputs.sets.iter().collect();
    sets.sort_by_key(|set| (&set.created, &set.name));
    let mut found = Vec::new();
    for set in sets {
        let clusters = SetClusters::of(inputs, set);
        for member in members_of_set(set) {
            if !clusters.may_have(&member, inputs) {
                continue;
            }
            let NamedTemplate { name, object } = member.base;
            let one = Claimed {
                name: name.clone(),
                object,
                policy: set.policy_of(object),
                set: Some(set),
                change: member.change,
            };
            found.push(MemberCandidate {
                one,
                set: &set.name,
                variants: member.variants,
            });
        }
    }
    found.sort_by_key(|candidate| held.holder(&candidate.one.name) != Some(candidate.set));
    found
}

/// The clusters of a set whose objects differ between clusters.
struct SetClusters<'a>(Option<BTreeSet<&'a str>>);

impl<'a> SetClusters<'a> {
    fn of(inputs: &'a DistributionInputs, set: &ObjectSet) -> Self {
        let unreached = set.unreached.iter();
        let mut contents = set
            .objects()
            .into_iter()
            .chain(unreached.map(|unreached| &unreached.objects));
        let has_variants = contents.any(SetObjects::has_variants);
        let selected = || selected_clusters(inputs, set).map(|cluster| cluster.name.as_str());
        Self(has_variants.then(|| selected().collect()))
    }

    /// Whether a cluster has an object, or is to get it: others may have been rendered for clusters
    /// that the set has left. Without a cluster everything stays as it is.
    fn may_have(&self, member: &SetMember<'_>, inputs: &DistributionInputs) -> bool {
        let (Some(selected), Some(change)) = (&self.0, &member.change) else {
            return true;
        };
        let previous = inputs.previous.get(&member.base.name);
        let bound = previous.into_iter().flat_map(|one| one.clusters.keys());
        let bound = bound.map(String::as_str);
        selected.is_empty() || change.is_in_any(selected.iter().copied().chain(bound))
    }
}

/// The clusters that the placement of a set selects: see [`may_select`].
pub fn selected_clusters<'i>(
    inputs: &'i DistributionInputs,
    set: &ObjectSet,
) -> impl Iterator<Item = &'i TargetCluster> {
    let allowed = inputs.allowed_clusters.get(&set.name.namespace);
    inputs.clusters.iter().filter(move |cluster| {
        let may_reach = allowed.is_none_or(|allowed| allowed.contains(&cluster.name));
        let matches = |affinity: &ClusterAffinity| affinity.matches(cluster.properties());
        may_reach && !cluster.is_terminating && may_select(&set.policy.spec, matches)
    })
}

/// A set that has a name, and the variants of it that do.
type NameHolder<'n> = (&'n Arc<SetName>, &'n BTreeSet<usize>);

/// Who has which names.
struct TakenNames<'n> {
    inputs: &'n DistributionInputs,
    held: &'n HeldNames<'n>,
    claimed: BTreeMap<VersionlessName<'n>, &'n Claimed<'n>>,
    /// With the variants of the set that have it: an object may be in another version of its kind
    /// in each.
    by_sets: BTreeMap<VersionlessName<'n>, Vec<NameHolder<'n>>>,
}

impl TakenNames<'_> {
    /// What else has the name of an object of a set; `None`: nothing has.
    fn reason_against(
        &self,
        one: &Claimed<'_>,
        set: &Arc<SetName>,
        variants: &BTreeSet<usize>,
    ) -> Option<String> {
        let key = identity(&one.name);
        let is_other =
            |(other, of_other): &&NameHolder<'_>| *other != set || !of_other.is_disjoint(variants);
        let mut taken = self.by_sets.get(&key).into_iter().flatten();
        if let Some((other, _)) = taken.find(is_other) {
            return Some(format!("{} has an object of this name", other.shown()));
        }
        let holder = self.held.holder(&one.name);
        if holder == Some(set) {
            return None;
        }
        if let Some(holder) = holder {
            let holder = holder.shown();
            return Some(format!("{holder} has, or had, an object of this name"));
        }
        if let Some(template) = self.claimed.get(&key) {
            let policy = template.policy.shown();
            return Some(format!("{policy} distributes an object of this name"));
        }
        let is_bound = self.inputs.previous.contains_key(&one.name);
        is_bound.then(|| "another binding has an object of this name: delete that one".to_owned())
    }
}

/// That an object of a set is refused because a template of its name goes where others need it;
/// `None`: it is not, or it was there before.
pub(super) fn needed_elsewhere(
    one: &Claimed<'_>,
    inputs: &DistributionInputs,
    dependencies: &Dependencies,
) -> Option<RefusedMember> {
    let set = one
        .set
        .filter(|_| dependencies.may_need(&one.name))
        .filter(|_| !inputs.previous.contains_key(&one.name))?;
    let mut templates = inputs.templates.iter();
    let template = templates.find(|template| template.name == one.name)?;
    let is_needed = !dependencies.of(&one.name, &template.object).is_empty();
    is_needed.then(|| RefusedMember {
        set: Arc::clone(&set.name),
        resource: one.name.clone(),
        reason: "a template of this name goes where others need it".to_owned(),
        is_never_distributed: false,
    })
}
