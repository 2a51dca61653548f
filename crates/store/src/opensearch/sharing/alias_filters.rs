//! The filters of the aliases of a shared index: what they show of partitions, and what a partition
//! is, as they say it.

use std::collections::BTreeMap;

use fleetdex_core::{
    model::{ClusterName, IndexName, IndexPrefix, Partition, index_fields},
    planted::{Bug, planted},
};
use serde_json::{Value, json};

use crate::{
    CompleteResources,
    opensearch::{
        dsl::{either, resources_clause},
        indices::{complete_resources::shown_by, surveyed_index::SurveyedIndex},
    },
};

/// The documents of one revision of a cluster in a shared index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ClusterPartition {
    pub(crate) cluster: ClusterName,
    /// UID of the cluster's namespace kube-system; absent: not known.
    pub(crate) uid: Option<String>,
    pub(crate) revision: u64,
    /// Whether its write alias leads to it.
    pub(crate) is_written: bool,
    /// What the alias of the cluster shows; absent: it does not lead here.
    pub(crate) visible: Option<CompleteResources>,
}

impl ClusterPartition {
    pub(crate) fn write_alias(&self, partition: Partition, prefix: &IndexPrefix) -> IndexName {
        prefix
            .write_alias(&self.cluster, self.revision)
            .in_partition(partition)
    }

    /// The filter of an alias to resources of the partition.
    pub(crate) fn filter(&self, partition: Partition, visible: &CompleteResources) -> Value {
        let mut cluster = json!({ "value": self.cluster });
        if let Some(uid) = &self.uid {
            cluster["_name"] = json!(uid);
        }
        // A named clause has its name in the response to a search, and no other effect.
        let revision = self.revision.to_string();
        let routing = json!({ "value": partition.routing(), "_name": revision });
        let routing = json!({ "term": { "_routing": routing } });
        let mut clauses = vec![
            routing,
            json!({ "term": { (index_fields::CLUSTER): cluster } }),
        ];
        if let CompleteResources::Only(resources) = visible {
            clauses.push(resources_clause(resources));
        }
        json!({ "bool": { "filter": clauses } })
    }
}

/// Clauses of the filter of the alias over all clusters: OpenSearch takes 1,024 of a search, with
/// those of the query.
pub(crate) const MAX_CLAUSES: usize = 512;

/// What the alias over all clusters shows of partitions of which the aliases of clusters show this.
/// It leaves out what would be too many clauses, where the first lists of many clusters have come
/// to different resources.
fn over_all_groups(
    partitions: &BTreeMap<Partition, ClusterPartition>,
) -> BTreeMap<CompleteResources, Vec<Partition>> {
    let mut groups: BTreeMap<CompleteResources, Vec<Partition>> = BTreeMap::new();
    for (partition, of_cluster) in partitions {
        let all = || planted(Bug::ShowTheNeighbour).then_some(CompleteResources::All);
        if let Some(visible) = of_cluster.visible.clone().or_else(all) {
            groups.entry(visible).or_default().push(*partition);
        }
    }
    let mut clauses = 0;
    groups.retain(|visible, _| {
        clauses += visible.clauses() + 1;
        clauses <= MAX_CLAUSES
    });
    groups
}

pub(crate) fn visible_over_all(
    partitions: &BTreeMap<Partition, ClusterPartition>,
) -> BTreeMap<Partition, CompleteResources> {
    let of_group = |(visible, partitions): (CompleteResources, Vec<Partition>)| {
        let of_partition = move |partition| (partition, visible.clone());
        partitions.into_iter().map(of_partition)
    };
    over_all_groups(partitions)
        .into_iter()
        .flat_map(of_group)
        .collect()
}

/// The filter of the alias over all clusters; `None` if it shows nothing.
pub(crate) fn filter_over_all(partitions: &BTreeMap<Partition, ClusterPartition>) -> Option<Value> {
    let alternative = |(visible, partitions): (CompleteResources, Vec<Partition>)| {
        let routings: Vec<String> = partitions.iter().map(|shown| shown.routing()).collect();
        let mut filter = vec![json!({ "terms": { "_routing": routings } })];
        if let CompleteResources::Only(resources) = visible {
            filter.push(resources_clause(&resources));
        }
        json!({ "bool": { "filter": filter } })
    };
    let alternatives: Vec<Value> = over_all_groups(partitions)
        .into_iter()
        .map(alternative)
        .collect();
    (!alternatives.is_empty()).then(|| either(alternatives))
}

/// What such a filter shows; nothing if it is another one.
pub(crate) fn read_over_all(
    configuration: Option<&Value>,
) -> BTreeMap<Partition, CompleteResources> {
    let alternatives = configuration.and_then(|alias| alias["filter"]["bool"]["should"].as_array());
    let partition = |routing: &Value| routing.as_str()?.parse().ok().map(Partition);
    let mut visible = BTreeMap::new();
    for alternative in alternatives.into_iter().flatten() {
        let clauses = &alternative["bool"]["filter"];
        let routings = clauses[0]["terms"]["_routing"].as_array();
        let resources = match clauses.get(1) {
            None => CompleteResources::All,
            Some(clause) => shown_by(Some(&json!({ "filter": clause }))),
        };
        let routings = routings.into_iter().flatten().filter_map(partition);
        visible.extend(routings.map(|partition| (partition, resources.clone())));
    }
    visible
}

/// The partitions to which a write alias or the alias of a cluster leads.
pub(crate) fn read_partitions(
    found: &SurveyedIndex,
    prefix: &IndexPrefix,
) -> BTreeMap<Partition, ClusterPartition> {
    let mut partitions = BTreeMap::new();
    for alias in found.aliases() {
        let configuration = found.alias(alias);
        let Some((partition, mut read)) = configuration.as_ref().and_then(read_filter) else {
            continue;
        };
        let visible = read.visible.take();
        let is_read = alias == prefix.cluster_alias(&read.cluster).as_str();
        let is_written = alias == read.write_alias(partition, prefix).as_str();
        if is_read || is_written {
            let read = partitions.entry(partition).or_insert(read);
            read.is_written |= is_written;
            if is_read {
                read.visible = visible;
            }
        }
    }
    partitions
}

/// The partition of an alias and what it shows, by its filter. `None`: this is no filter that
/// [`ClusterPartition::filter`] has made.
fn read_filter(configuration: &Value) -> Option<(Partition, ClusterPartition)> {
    let mut clauses = configuration["filter"]["bool"]["filter"].as_array()?.iter();
    let routing = &clauses.next()?["term"]["_routing"];
    let cluster = &clauses.next()?["term"][index_fields::CLUSTER];
    let name = |clause: &Value| clause["_name"].as_str().map(str::to_owned);
    let shown = |resources| shown_by(Some(&json!({ "filter": resources })));
    let read = ClusterPartition {
        revision: name(routing)?.parse().ok()?,
        cluster: cluster["value"].as_str()?.parse().ok()?,
        uid: name(cluster),
        is_written: false,
        visible: Some(clauses.next().map_or(CompleteResources::All, shown)),
    };
    Some((Partition(routing["value"].as_str()?.parse().ok()?), read))
}
