//! The plan as the appliers of clusters see it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::planted::{Bug, planted};
use fleetdex_distribution::{
    brake::DeletionBrake,
    marks,
    object_text::ObjectText,
    plan::{DistributionPlan, Leftovers, PlannedObject},
    template_name::{KindName, TemplateName},
};

/// An object as a cluster shall have it.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredObject {
    /// The object.
    pub object: ObjectText,
    /// Whether an object that Fleetdex did not make may be taken over.
    pub overwrites: bool,
    /// Whether it is written only where the cluster has none.
    pub is_only_needed: bool,
}

impl DesiredObject {
    /// The hash that marks what is written.
    pub fn hash(&self) -> String {
        if planted(Bug::DistributionKeepsRemovedFields) {
            return String::new();
        }
        if planted(Bug::DistributionAppliesForEver) {
            return fastrand::u64(..).to_string();
        }
        marks::hash(&self.object.value())
    }
}

impl From<&PlannedObject> for DesiredObject {
    fn from(planned: &PlannedObject) -> Self {
        Self {
            object: planned.object.clone(),
            overwrites: planned.overwrites,
            is_only_needed: planned.is_only_needed,
        }
    }
}

/// What a cluster shall have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DesiredCluster {
    /// The objects.
    pub objects: BTreeMap<TemplateName, DesiredObject>,
    /// The kinds of which the cluster may have copies.
    pub kinds: BTreeSet<KindName>,
    /// What is not written, and why.
    pub conflicts: BTreeMap<TemplateName, String>,
}

impl DesiredCluster {
    /// How many objects policies place here.
    pub fn count(&self) -> usize {
        let placed = self.objects.values().filter(|one| !one.is_only_needed);
        placed.count() + self.conflicts.len()
    }

    /// The names of objects that are new or others than before, and of those that are gone.
    pub fn changes_since<'c>(
        &'c self,
        before: &'c Self,
    ) -> (Vec<&'c TemplateName>, Vec<&'c TemplateName>) {
        let (mut changed, mut gone) = (Vec::new(), Vec::new());
        let mut before = before.objects.iter().peekable();
        for (name, object) in &self.objects {
            while let Some((old, _)) = before.next_if(|(old, _)| *old < name) {
                gone.push(old);
            }
            let same = before.next_if(|(old, _)| *old == name);
            if same.is_none_or(|(_, old)| old != object) {
                changed.push(name);
            }
        }
        gone.extend(before.map(|(old, _)| old));
        (changed, gone)
    }

    /// Those of a kind's names, in their order, that are of no object here.
    pub fn others_of(&self, names: Vec<TemplateName>) -> Vec<TemplateName> {
        let Some(first) = names.first().cloned() else {
            return names;
        };
        let mut own = self.objects.range(first..).peekable();
        let others = names.into_iter().filter(|name| {
            while own.next_if(|(own, _)| *own < name).is_some() {}
            own.next_if(|(own, _)| *own == name).is_none()
        });
        others.collect()
    }
}

/// A plan that is to be applied.
#[derive(Clone, Debug, Default)]
pub struct PublishedPlan {
    /// What clusters shall have.
    pub clusters: BTreeMap<String, Arc<DesiredCluster>>,
    /// What is left over.
    pub leftovers: Arc<Leftovers>,
    /// The objects whose bindings do not say yet where they go; their copies stay.
    pub unwritten: Arc<BTreeSet<TemplateName>>,
    /// Whether everything that the plan depends on is known. If not, nothing is deleted.
    pub is_complete: bool,
    /// The objects whose held deletions are let go.
    pub released: Arc<BTreeSet<TemplateName>>,
    /// What holds deletions.
    pub brake: DeletionBrake,
}

impl PublishedPlan {
    /// What a plan says of clusters. `copies`: the kinds of which clusters may have copies besides
    /// those that are planned. A cluster of which nothing has changed keeps what `before` has.
    pub fn of(
        plan: &DistributionPlan,
        copies: BTreeMap<&str, BTreeSet<&KindName>>,
        before: &Self,
    ) -> BTreeMap<String, Arc<DesiredCluster>> {
        let mut clusters: BTreeMap<&str, DesiredCluster> = BTreeMap::new();
        for objects in plan
            .objects
            .chunk_by(|one, other| one.cluster == other.cluster)
        {
            let Some(first) = objects.first() else {
                continue;
            };
            let cluster = clusters.entry(&first.cluster).or_default();
            for of_kind in objects.chunk_by(has_same_kind) {
                let kinds = of_kind.first().map(|one| one.resource.kind_name());
                cluster.kinds.extend(kinds);
            }
            let desired = objects.iter();
            let desired = desired.map(|one| (one.resource.clone(), DesiredObject::from(one)));
            cluster.objects = desired.collect();
        }
        for one in &plan.conflicts {
            let cluster = clusters.entry(&one.cluster).or_default();
            cluster
                .conflicts
                .insert(one.resource.clone(), one.reason.clone());
        }
        for (name, kinds) in copies {
            let cluster = clusters.entry(name).or_default();
            cluster.kinds.extend(kinds.into_iter().cloned());
        }
        let kept = clusters.into_iter().map(|(name, cluster)| {
            let same = before.clusters.get(name);
            let same = same.filter(|same| ***same == cluster).cloned();
            let kept = same.unwrap_or_else(|| Arc::new(cluster));
            (name.to_owned(), kept)
        });
        kept.collect()
    }

    /// What a cluster shall have of an object; `None`: nothing, or its binding does not say it yet.
    pub fn desired(&self, name: &TemplateName, cluster: &str) -> Option<&DesiredObject> {
        let desired = self.clusters.get(cluster)?.objects.get(name);
        desired.filter(|_| !self.unwritten.contains(name))
    }

    /// Whether a cluster shall have an object of this name.
    pub fn has(&self, object: &PlannedObject) -> bool {
        let cluster = self.clusters.get(&object.cluster);
        cluster.is_some_and(|cluster| cluster.objects.contains_key(&object.resource))
    }

    /// Clusters get these objects instead of those with their names.
    pub fn change(&mut self, objects: &[PlannedObject]) {
        for object in objects.iter().filter(|object| !object.is_only_needed) {
            if let Some(cluster) = self.clusters.get_mut(&object.cluster) {
                let desired = DesiredObject::from(object);
                let objects = &mut Arc::make_mut(cluster).objects;
                objects.insert(object.resource.clone(), desired);
            }
        }
    }

    /// Objects whose bindings do not say yet where they go stay in `clusters` as they are here.
    pub fn keep_unwritten(
        &self,
        clusters: &mut BTreeMap<String, Arc<DesiredCluster>>,
        unwritten: &BTreeSet<TemplateName>,
    ) {
        for (cluster, desired) in clusters {
            let known = self.clusters.get(cluster);
            let desired = Arc::make_mut(desired);
            for name in unwritten {
                match known.and_then(|known| known.objects.get(name)) {
                    Some(object) => desired.objects.insert(name.clone(), object.clone()),
                    None => desired.objects.remove(name),
                };
            }
        }
    }
}

fn has_same_kind(one: &PlannedObject, other: &PlannedObject) -> bool {
    let (one, other) = (&one.resource, &other.resource);
    (&one.api_version, &one.kind) == (&other.api_version, &other.kind)
}
