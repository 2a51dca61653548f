//! Indices that small clusters share: each revision of one of them is a partition.
//!
//! The documents of a partition carry its number as their routing and in their ids. Its write alias
//! has the number in its name, and that routing as its filter, which also names the cluster and its
//! UID: the aliases alone say what an index holds. The alias of the cluster shows the partition, or
//! its complete resources. The alias over all clusters has one filter for the whole index, which
//! shows what the aliases of the clusters show.
//!
//! Several replicas change that filter. So every change of the aliases is a compare-and-swap: it
//! removes the alias that names the version that it was made from, which has to exist, and adds
//! that of the next version. A request that was made from an earlier state, or that arrives late,
//! changes nothing. A change that adds partitions raises the version by as many, and their numbers
//! are the versions up to the new one. No number is used again: what arrives late for a partition
//! that is gone is seen by no query.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_core::model::{ClusterName, IndexName, IndexPrefix, Partition};
use serde_json::{Value, json};

use super::alias_filters::{
    ClusterPartition, filter_over_all, read_over_all, read_partitions, visible_over_all,
};
use crate::{
    CompleteResources, IndexRevision,
    opensearch::indices::{
        alias_actions::{remove, remove_existing},
        surveyed_index::SurveyedIndex,
    },
};

/// What the aliases of a shared index say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedIndex {
    pub(crate) index: IndexName,
    version: IndexVersion,
    /// The store's own id of the index.
    id: String,
    pub(crate) partitions: BTreeMap<Partition, ClusterPartition>,
    /// What the alias over all clusters shows.
    over_all: BTreeMap<Partition, CompleteResources>,
}

/// The version of the aliases of a shared index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexVersion {
    Known(u64),
    /// Its alias is gone, though Fleetdex never removes it alone. The next change goes on from this
    /// version, which is beyond all that have been.
    Lost(u64),
    /// The index is about to be deleted.
    Closed,
}

impl IndexVersion {
    /// The version of the next change.
    fn next(self) -> Option<u64> {
        match self {
            Self::Known(version) | Self::Lost(version) => version.checked_add(1),
            Self::Closed => None,
        }
    }

    /// The action that fails if this is not the version any more.
    fn check(self, index: &IndexName) -> Option<Value> {
        match self {
            Self::Known(version) => {
                let alias = index.version_alias(version);
                Some(remove_existing(index, &alias))
            }
            Self::Lost(_) | Self::Closed => None,
        }
    }
}

/// By how much a version is higher that follows a lost one.
const LOST_VERSIONS: u64 = 1_000_000;

/// A change of the aliases of a shared index: the state from which it was made, and the next one.
#[derive(Clone, Debug)]
pub(crate) struct SharedIndexChange<'s> {
    before: &'s SharedIndex,
    pub(crate) after: BTreeMap<Partition, ClusterPartition>,
    /// How many partitions were added.
    added: u64,
}

impl SharedIndex {
    /// Reads the aliases of an index.
    pub(crate) fn of(found: &SurveyedIndex, prefix: &IndexPrefix) -> Self {
        let index = found.index.clone();
        let versions = found
            .aliases()
            .filter_map(|alias| index.version_of_alias(alias));
        let version = versions.max();
        let partitions = read_partitions(found, prefix);
        let highest = partitions.keys().next_back().map_or(0, |last| last.0);
        let version = match version {
            Some(version) => IndexVersion::Known(version),
            None if found.alias(&closed_alias(&index)).is_some() => IndexVersion::Closed,
            None => IndexVersion::Lost(highest.saturating_add(LOST_VERSIONS)),
        };
        Self {
            index,
            version,
            id: found.id.clone(),
            partitions,
            over_all: read_over_all(found.alias(prefix.as_str()).as_ref()),
        }
    }

    /// The id of the revision that has a partition.
    pub(crate) fn revision_id(&self, partition: Partition) -> String {
        format!("{}/{}", self.id, partition.0)
    }

    /// The partition of a revision.
    pub(crate) fn partition_of(&self, revision: &IndexRevision) -> Option<Partition> {
        let partition = revision.target.partition()?;
        let is_there = self.partitions.contains_key(&partition);
        (is_there && *self.revision_id(partition) == *revision.id).then_some(partition)
    }

    /// What queries see of a partition both through the alias of the cluster and the one over all
    /// clusters.
    pub(crate) fn visible(&self, partition: Partition) -> CompleteResources {
        let nothing = || CompleteResources::Only(BTreeSet::new());
        let of_cluster = self
            .partitions
            .get(&partition)
            .and_then(|of_cluster| of_cluster.visible.clone());
        let over_all = self.over_all.get(&partition).cloned();
        of_cluster
            .unwrap_or_else(nothing)
            .and(over_all.unwrap_or_else(nothing))
    }

    /// Whether the alias over all clusters shows what the aliases of the clusters show.
    pub(crate) fn is_consistent(&self) -> bool {
        self.over_all == visible_over_all(&self.partitions)
    }

    /// How many further partitions fit. Without the alias of its version two requests could add
    /// some with the same numbers.
    pub(crate) fn room(&self, clusters: usize) -> usize {
        match self.version {
            IndexVersion::Known(_) => clusters.saturating_sub(self.partitions.len()),
            IndexVersion::Lost(_) | IndexVersion::Closed => 0,
        }
    }

    pub(crate) fn routings(&self) -> Vec<String> {
        self.partitions
            .keys()
            .map(|partition| partition.routing())
            .collect()
    }

    /// Whether a routing is that of a partition that was there before this state, and is gone.
    pub(crate) fn is_gone(&self, routing: &str) -> bool {
        let partition = routing.parse().ok().map(Partition);
        let next = self.version.next().unwrap_or(u64::MAX);
        partition.is_some_and(|partition| {
            partition.0 < next && !self.partitions.contains_key(&partition)
        })
    }

    pub(crate) fn change(&self) -> SharedIndexChange<'_> {
        SharedIndexChange {
            before: self,
            after: self.partitions.clone(),
            added: 0,
        }
    }

    /// The actions that restore the alias of its version, if that is lost.
    pub(crate) fn restoring(&self) -> Option<Vec<Value>> {
        let IndexVersion::Lost(version) = self.version else {
            return None;
        };
        let alias = self.index.version_alias(version);
        Some(vec![
            json!({ "add": { "index": self.index, "alias": alias } }),
        ])
    }

    /// The actions after which nothing is added to an index without partitions, so that it can be
    /// deleted. `None` if another request has begun that.
    pub(crate) fn closing(&self) -> Option<Vec<Value>> {
        self.version.next()?;
        let alias = closed_alias(&self.index);
        let close = json!({ "add": { "index": self.index, "alias": alias } });
        Some(
            self.version
                .check(&self.index)
                .into_iter()
                .chain([close])
                .collect(),
        )
    }
}

impl SharedIndexChange<'_> {
    /// Adds a partition; `None` if the index is about to be deleted.
    pub(crate) fn add(&mut self, added: ClusterPartition) -> Option<Partition> {
        let partition = Partition(self.before.version.next()?.checked_add(self.added)?);
        self.after.insert(partition, added);
        self.added += 1;
        Some(partition)
    }

    /// Shows resources of a partition, and not less than before. The alias of its cluster leads to
    /// no other partition then.
    pub(crate) fn show(&mut self, partition: Partition, visible: &CompleteResources) {
        let Some(cluster) = self
            .after
            .get(&partition)
            .map(|shown| shown.cluster.clone())
        else {
            return;
        };
        for (other, of_cluster) in &mut self.after {
            if *other == partition {
                let before = of_cluster.visible.take();
                let nothing = CompleteResources::Only(BTreeSet::new());
                of_cluster.visible = Some(visible.clone().or(before.unwrap_or(nothing)));
            } else if of_cluster.cluster == cluster {
                of_cluster.visible = None;
            }
        }
    }

    /// The actions of the change, which fail if the index is not in the state before it any more.
    /// `None` if the index is about to be deleted.
    pub(crate) fn actions(&self, prefix: &IndexPrefix) -> Option<Vec<Value>> {
        let SharedIndex {
            index,
            version,
            partitions: before,
            ..
        } = self.before;
        let next = version.next()?.checked_add(self.added.saturating_sub(1))?;
        let next = index.version_alias(next);
        let mut actions: Vec<Value> = version.check(index).into_iter().collect();
        actions.push(json!({ "add": { "index": index, "alias": next } }));
        let is_read = |partitions: &BTreeMap<Partition, ClusterPartition>,
                       cluster: &ClusterName| {
            partitions
                .values()
                .any(|other| other.cluster == *cluster && other.visible.is_some())
        };
        for (partition, removed) in before {
            if self.after.contains_key(partition) {
                continue;
            }
            let alias = removed.write_alias(*partition, prefix);
            actions.push(remove(index, &alias));
            if removed.visible.is_some() && !is_read(&self.after, &removed.cluster) {
                let alias = prefix.cluster_alias(&removed.cluster);
                actions.push(remove(index, &alias));
            }
        }
        for (partition, changed) in &self.after {
            if before.get(partition) == Some(changed) {
                continue;
            }
            let routing = partition.routing();
            let filter = changed.filter(*partition, &CompleteResources::All);
            actions.push(json!({ "add": { "index": index, "alias": changed.write_alias(*partition, prefix), "routing": routing, "filter": filter } }));
            if let Some(visible) = &changed.visible {
                let filter = changed.filter(*partition, visible);
                actions.push(json!({ "add": { "index": index, "alias": prefix.cluster_alias(&changed.cluster), "search_routing": routing, "filter": filter } }));
            }
        }
        actions.push(match filter_over_all(&self.after) {
            Some(filter) => {
                json!({ "add": { "index": index, "alias": prefix.all(), "filter": filter } })
            }
            None => remove(index, &prefix.all()),
        });
        Some(actions)
    }
}

/// The aliases of a new index with its first partitions.
pub(crate) fn first_aliases(
    index: &IndexName,
    first: &[ClusterPartition],
    prefix: &IndexPrefix,
) -> Value {
    let numbered = (1..).map(Partition).zip(first);
    let mut aliases: serde_json::Map<String, Value> = numbered
        .map(|(partition, first)| {
            let alias = first.write_alias(partition, prefix);
            let filter = first.filter(partition, &CompleteResources::All);
            let alias = alias.as_str().to_owned();
            (
                alias,
                json!({ "routing": partition.routing(), "filter": filter }),
            )
        })
        .collect();
    let version = index.version_alias(first.len() as u64);
    aliases.insert(version.as_str().to_owned(), json!({}));
    aliases.into()
}

/// The alias of an index that nothing is added to any more.
fn closed_alias(index: &IndexName) -> String {
    format!("{index}.closed")
}

#[cfg(test)]
mod tests {
    use fleetdex_core::query::ResourceName;

    use super::*;
    use crate::opensearch::sharing::alias_filters::MAX_CLAUSES;

    fn partition(number: u64, visible: CompleteResources) -> (Partition, ClusterPartition) {
        let of_cluster = ClusterPartition {
            cluster: format!("member{number}").parse().unwrap(),
            uid: None,
            revision: 1,
            is_written: true,
            visible: Some(visible),
        };
        (Partition(number), of_cluster)
    }

    fn resources(groups: impl Iterator<Item = u64>) -> CompleteResources {
        let of_group = |group| ResourceName::new(&format!("group{group}"), "pods");
        CompleteResources::Only(groups.map(of_group).collect())
    }

    #[test]
    fn clusters_that_show_the_same_are_one_alternative_over_all() {
        let partitions = (1..=120).map(|number| match number % 3 {
            0 => partition(number, CompleteResources::All),
            part => partition(number, resources(0..part)),
        });
        let partitions: BTreeMap<_, _> = partitions.collect();
        let filter = filter_over_all(&partitions).unwrap();
        assert_eq!(filter["bool"]["should"].as_array().unwrap().len(), 3);
        let read = read_over_all(Some(&json!({ "filter": filter })));
        assert_eq!(read, visible_over_all(&partitions));
        assert_eq!(read.len(), 120);
        assert_eq!(read[&Partition(3)], CompleteResources::All);
        assert_eq!(read[&Partition(5)], resources(0..2));
    }

    #[test]
    fn the_filter_over_all_has_fewer_clauses_than_opensearch_takes() {
        let different = |number| partition(number, resources(number..number + 10));
        let mut partitions: BTreeMap<_, _> = (1..=127).map(different).collect();
        partitions.extend([partition(128, CompleteResources::All)]);
        let filter = filter_over_all(&partitions).unwrap();
        let clauses = filter.to_string().matches("\"term").count();
        assert!((400..=MAX_CLAUSES).contains(&clauses), "{clauses}");
        let read = read_over_all(Some(&json!({ "filter": filter })));
        assert_eq!(read, visible_over_all(&partitions));
        assert_eq!(read[&Partition(128)], CompleteResources::All);
    }
}
