//! Whether streams are complete, and how each replica reports that to the others for the clusters
//! that it reads.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::{ClusterName, Scope};
use fleetdex_replicas::ReplicaName;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::plan::StreamKey;

/// Why query results lack objects of a stream, or show old ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IncompleteReason {
    /// Its first list has not ended, or its objects are not visible to queries yet.
    FirstList,
    /// The member or the store refuses its requests, or fails.
    #[serde(rename_all = "camelCase")]
    Failing {
        /// A CamelCase reason.
        reason: Cow<'static, str>,
        /// Whether the objects that were stored before are still shown.
        is_shown: bool,
        /// Whether the member has refused it for so long that nothing waits for it any more.
        is_given_up: bool,
    },
    /// Changes of it wait for the store.
    #[serde(rename_all = "camelCase")]
    Delayed {
        /// What is shown is no newer than this.
        since: Timestamp,
        /// Why the store takes no changes, in CamelCase, if it is known.
        reason: Option<Cow<'static, str>>,
    },
    /// The replica that reads it is not connected to its cluster.
    Disconnected,
    /// The replica that reads it has not reported yet.
    Unknown(ReplicaName),
}

/// Why each stream is incomplete; `None` for one that is complete.
pub type StreamCompleteness = BTreeMap<StreamKey, Option<IncompleteReason>>;

/// The completeness of the streams that one replica reads. Clusters with the same state are written
/// once, so that a thousand clusters take little more room than one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletenessReport {
    by_cluster: BTreeMap<ClusterName, Arc<ClusterCompleteness>>,
}

/// The streams of one cluster by [`key`].
type ClusterCompleteness = BTreeMap<String, Option<IncompleteReason>>;

/// Clusters with the same state, as they are written.
#[derive(Serialize, Deserialize)]
struct ClusterGroup {
    clusters: BTreeSet<ClusterName>,
    streams: ClusterCompleteness,
}

/// Identifies a stream among those of its cluster.
fn key(stream: &StreamKey) -> String {
    let StreamKey { unit, store } = stream;
    match &unit.scope {
        Scope::All => format!("{store} {}", unit.resource.gvk),
        Scope::Namespace(namespace) => format!("{store} {} in {namespace}", unit.resource.gvk),
    }
}

impl CompletenessReport {
    /// The report of the streams that this replica reads.
    pub fn of<'k>(
        completeness: impl IntoIterator<Item = (&'k StreamKey, &'k Option<IncompleteReason>)>,
    ) -> Self {
        let mut by_cluster: BTreeMap<&ClusterName, ClusterCompleteness> = BTreeMap::new();
        for (stream, reason) in completeness {
            by_cluster
                .entry(&stream.unit.cluster)
                .or_default()
                .insert(key(stream), reason.clone());
        }
        let completeness = by_cluster
            .into_iter()
            .map(|(cluster, completeness)| (cluster.clone(), Arc::new(completeness)));
        Self {
            by_cluster: completeness.collect(),
        }
    }

    /// The state of a stream; `None` if the report does not have it.
    pub fn get(&self, stream: &StreamKey) -> Option<&Option<IncompleteReason>> {
        self.by_cluster.get(&stream.unit.cluster)?.get(&key(stream))
    }

    /// The report as JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let mut groups: BTreeMap<&ClusterCompleteness, BTreeSet<ClusterName>> = BTreeMap::new();
        for (cluster, completeness) in &self.by_cluster {
            groups
                .entry(completeness)
                .or_default()
                .insert(cluster.clone());
        }
        let groups = groups.into_iter().map(|(streams, clusters)| ClusterGroup {
            clusters,
            streams: streams.clone(),
        });
        serde_json::to_vec(&groups.collect::<Vec<_>>())
    }

    /// Reads [`Self::to_json`].
    pub fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        let mut by_cluster = BTreeMap::new();
        for ClusterGroup { clusters, streams } in serde_json::from_slice::<Vec<ClusterGroup>>(json)?
        {
            let streams = Arc::new(streams);
            by_cluster.extend(
                clusters
                    .into_iter()
                    .map(|cluster| (cluster, Arc::clone(&streams))),
            );
        }
        Ok(Self { by_cluster })
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, Resource, Unit};

    use super::*;

    fn stream(cluster: &str, kind: &str, scope: Scope) -> StreamKey {
        let resource = Resource {
            gvk: Gvk::new("apps", "v1", kind),
            plural: kind.to_lowercase().into(),
            namespaced: true,
        };
        StreamKey {
            unit: Unit {
                cluster: cluster.parse().unwrap(),
                resource,
                scope,
            },
            store: "main".parse().unwrap(),
        }
    }

    #[test]
    fn a_report_reads_back_stream_by_stream() {
        let refused = IncompleteReason::Failing {
            reason: "Forbidden".into(),
            is_shown: false,
            is_given_up: true,
        };
        let web = Scope::Namespace("web".parse().unwrap());
        let completeness: StreamCompleteness = [
            (stream("a", "Pod", Scope::All), None),
            (
                stream("a", "Node", Scope::All),
                Some(IncompleteReason::FirstList),
            ),
            (stream("b", "Pod", web.clone()), Some(refused)),
            (
                stream("b", "Node", Scope::All),
                Some(IncompleteReason::Disconnected),
            ),
        ]
        .into();
        let report = CompletenessReport::of(&completeness);
        let read = CompletenessReport::from_json(&report.to_json().unwrap()).unwrap();
        assert_eq!(read, report);
        for (stream, reason) in &completeness {
            assert_eq!(read.get(stream), Some(reason), "{stream:?}");
        }
        assert_eq!(read.get(&stream("b", "Pod", Scope::All)), None);
        assert_eq!(read.get(&stream("c", "Pod", web)), None);
        assert!(CompletenessReport::from_json(b"{").is_err());
    }

    #[test]
    fn clusters_with_the_same_state_are_written_once() {
        let names: Vec<String> = (0..1_000).map(|number| format!("member{number}")).collect();
        let completeness: StreamCompleteness = names
            .iter()
            .map(|name| (stream(name, "Pod", Scope::All), None))
            .collect();
        let json = CompletenessReport::of(&completeness).to_json().unwrap();
        assert_eq!(String::from_utf8(json).unwrap().matches("Pod").count(), 1);
    }
}
