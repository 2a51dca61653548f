//! How an object of a set differs between clusters: by what it was rendered for, and by how far a
//! rollout has come.

use std::collections::{BTreeMap, BTreeSet};

use super::held_names::{VersionlessName, identity};
use crate::{
    sets::{ObjectInCluster, ObjectSet, ObjectVariants, SetObjects},
    template_name::NamedTemplate,
};

/// How an object differs between clusters.
#[derive(Clone)]
pub(super) struct SetObjectChange<'a> {
    /// The object in the set, which clusters have that are reached.
    after: ObjectVariants<'a>,
    /// What the others have; `None`: all are reached.
    before: Option<UnreachedObject<'a>>,
    /// The variants of the set that have the object in another version of its kind.
    other_versions: BTreeSet<usize>,
}

/// An object in clusters that a rollout has not reached.
#[derive(Clone)]
struct UnreachedObject<'a> {
    /// The clusters that are reached.
    reached: &'a BTreeSet<String>,
    stable: ObjectVariants<'a>,
}

/// An object of a set, or one that is only where a rollout has not come to.
pub(super) struct SetMember<'a> {
    /// Where it goes is computed from this one.
    pub(super) base: &'a NamedTemplate,
    /// `None`: it is the same in all clusters.
    pub(super) change: Option<SetObjectChange<'a>>,
    /// The variants of the set that have it.
    pub(super) variants: BTreeSet<usize>,
}

impl<'a> SetObjectChange<'a> {
    /// Whether the set does not have it any more.
    pub(super) fn is_removed(&self) -> bool {
        self.after.is_absent()
    }

    /// Whether a cluster has what the set has now.
    pub(super) fn is_reached(&self, cluster: &str) -> bool {
        let before = self.before.as_ref();
        before.is_none_or(|before| before.reached.contains(cluster))
    }

    /// Whether clusters that are not reached have an object of this name, in some variant.
    pub(super) fn was_there(&self) -> bool {
        let before = self.before.as_ref();
        before.is_some_and(|before| !before.stable.is_absent())
    }

    /// The object that is written to a cluster.
    pub(super) fn in_cluster(&self, cluster: &str) -> ObjectInCluster<'a> {
        match &self.before {
            Some(before) if !before.reached.contains(cluster) => {
                if self.is_of_other_version(cluster) {
                    // It is no other object, and is left as it is.
                    return ObjectInCluster::Lacks;
                }
                before.stable.in_cluster(cluster)
            }
            _ => self.after.in_cluster(cluster),
        }
    }

    /// The object by which it is placed.
    fn placed(&self) -> &ObjectVariants<'a> {
        match &self.before {
            Some(before) if self.is_removed() => &before.stable,
            _ => &self.after,
        }
    }

    /// Whether it is not known yet whether a cluster has it.
    pub(super) fn is_undecided(&self, cluster: &str) -> bool {
        self.placed().in_cluster(cluster) == ObjectInCluster::Unknown
    }

    /// Why an object is not placed in a cluster; `None`: it may be. `was_there`: whether it was
    /// placed there before, where it stays until more is known.
    pub(super) fn reason_against(&self, cluster: &str, was_there: bool) -> Option<String> {
        let placed = self.placed();
        if self.is_undecided(cluster) && !was_there {
            let reason = "it is not known yet for which version of Kubernetes its set counts there";
            return Some(reason.to_owned());
        }
        if self.is_removed() && self.is_of_other_version(cluster) {
            return Some("its set has it in another version of its kind".to_owned());
        }
        let lacks = placed.in_cluster(cluster) == ObjectInCluster::Lacks;
        lacks.then(|| match placed.version_for(cluster) {
            Some(version) => format!(
                "its set has no such object for Kubernetes {version} and the API versions of the \
                 cluster"
            ),
            None => "its set has no such object".to_owned(),
        })
    }

    /// Whether a cluster that is not reached keeps what the set does not have for it any more.
    pub(super) fn keeps(&self, cluster: &str) -> bool {
        !self.is_reached(cluster)
            && self.after.in_cluster(cluster) == ObjectInCluster::Lacks
            && matches!(self.in_cluster(cluster), ObjectInCluster::Has(_))
    }

    /// Whether one of these clusters has it, or is to get it.
    pub(super) fn is_in_any<'c>(&self, clusters: impl IntoIterator<Item = &'c str>) -> bool {
        let mut clusters = clusters.into_iter();
        clusters.any(|cluster| {
            let lacks = |found: ObjectInCluster<'_>| found == ObjectInCluster::Lacks;
            !lacks(self.after.in_cluster(cluster)) || !lacks(self.in_cluster(cluster))
        })
    }

    fn is_of_other_version(&self, cluster: &str) -> bool {
        let variant = self.after.variant_of(cluster);
        variant.is_some_and(|variant| self.other_versions.contains(&variant))
    }
}

/// The objects of a set, and those that are only where a rollout has not come to. An object that is
/// in another version of its kind now is no other object, and is not written before it is reached.
pub(super) fn members_of_set(set: &ObjectSet) -> Vec<SetMember<'_>> {
    let Some(objects) = set.objects() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    let mut stable = set.unreached.as_ref().map(|unreached| {
        let before = unreached.objects.by_name().into_iter();
        let before: BTreeMap<_, _> = before.map(|one| (one.name, one)).collect();
        (&unreached.reached, &unreached.objects, before)
    });
    let mut versions: BTreeMap<VersionlessName<'_>, BTreeSet<usize>> = BTreeMap::new();
    for after in objects.by_name() {
        let variants = after.variants();
        let known = versions.entry(identity(after.name)).or_default();
        known.extend(variants.iter().copied());
        let before = stable
            .as_mut()
            .map(|(reached, set, before)| UnreachedObject {
                reached,
                stable: before
                    .remove(after.name)
                    .unwrap_or_else(|| ObjectVariants::absent(after.base, set)),
            });
        found.push(SetMember {
            base: after.base,
            variants,
            change: changed(after, before),
        });
    }
    let Some((reached, _, removed)) = stable else {
        return found;
    };
    for before in removed.into_values() {
        let other_versions = versions.get(&identity(before.name));
        found.extend(removed_member(reached, before, objects, other_versions));
    }
    found
}

/// How an object differs between clusters; `None`: it does not.
fn changed<'a>(
    after: ObjectVariants<'a>,
    before: Option<UnreachedObject<'a>>,
) -> Option<SetObjectChange<'a>> {
    if let Some(object) = after.same() {
        let stable = before.as_ref().map(|before| before.stable.same());
        if stable.is_none_or(|stable| stable == Some(object)) {
            return None;
        }
    }
    Some(SetObjectChange {
        after,
        before,
        other_versions: BTreeSet::new(),
    })
}

/// An object that the set does not have any more; `None`: it has it in another version of its kind,
/// in all variants.
fn removed_member<'a>(
    reached: &'a BTreeSet<String>,
    stable: ObjectVariants<'a>,
    objects: &'a SetObjects,
    other_versions: Option<&BTreeSet<usize>>,
) -> Option<SetMember<'a>> {
    let other_versions = other_versions.cloned().unwrap_or_default();
    if other_versions.len() == objects.number_of_variants() {
        return None;
    }
    let base = stable.base;
    Some(SetMember {
        base,
        variants: BTreeSet::new(),
        change: Some(SetObjectChange {
            after: ObjectVariants::absent(base, objects),
            before: Some(UnreachedObject { reached, stable }),
            other_versions,
        }),
    })
}
