//! What answers lack, stream by stream, and how a replica says so to the others of the clusters that it reads.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_core::model::{ClusterName, Scope};
use serde::{Deserialize, Serialize};

use super::plan::Stream;
use crate::replicas::ReplicaName;

/// What an answer lacks of a stream.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Gap {
    /// Its first list has not ended, or is not seen yet.
    FirstList,
    /// The member or the store refuses it, or fails.
    #[serde(rename_all = "camelCase")]
    Failing {
        /// CamelCase.
        reason: Cow<'static, str>,
        /// Whether what was stored before is shown.
        is_shown: bool,
        /// Whether the member has refused it for so long that nothing waits for it any more.
        is_given_up: bool,
    },
    /// The replica that reads it is not connected to its cluster.
    Disconnected,
    /// This replica, which reads it, has not said yet how far it is.
    Unknown(ReplicaName),
}

/// How far streams are: what answers lack of each of them; nothing where they are complete.
pub type Known = BTreeMap<Stream, Option<Gap>>;

/// What one replica says of the streams that it reads. Clusters of which the same is to be said are together, so that a thousand clusters take
/// little more room than one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareGaps {
    of_cluster: BTreeMap<ClusterName, Arc<Profile>>,
}

/// By [`key`].
type Profile = BTreeMap<String, Option<Gap>>;

/// As it is written.
#[derive(Serialize, Deserialize)]
struct Alike {
    clusters: BTreeSet<ClusterName>,
    streams: Profile,
}

/// Names a stream among those of its cluster.
fn key(stream: &Stream) -> String {
    let Stream { unit, store } = stream;
    match &unit.scope {
        Scope::All => format!("{store} {}", unit.resource.gvk),
        Scope::Namespace(namespace) => format!("{store} {} in {namespace}", unit.resource.gvk),
    }
}

impl ShareGaps {
    /// What is known of some streams, which this replica reads.
    pub fn of<'k>(known: impl IntoIterator<Item = (&'k Stream, &'k Option<Gap>)>) -> Self {
        let mut profiles: BTreeMap<&ClusterName, Profile> = BTreeMap::new();
        for (stream, gap) in known {
            profiles
                .entry(&stream.unit.cluster)
                .or_default()
                .insert(key(stream), gap.clone());
        }
        let of_cluster = profiles
            .into_iter()
            .map(|(cluster, profile)| (cluster.clone(), Arc::new(profile)));
        Self {
            of_cluster: of_cluster.collect(),
        }
    }

    /// What is said of a stream; nothing if nothing is.
    pub fn get(&self, stream: &Stream) -> Option<&Option<Gap>> {
        self.of_cluster.get(&stream.unit.cluster)?.get(&key(stream))
    }

    /// As JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let mut alike: BTreeMap<&Profile, BTreeSet<ClusterName>> = BTreeMap::new();
        for (cluster, profile) in &self.of_cluster {
            alike.entry(profile).or_default().insert(cluster.clone());
        }
        let alike = alike.into_iter().map(|(streams, clusters)| Alike {
            clusters,
            streams: streams.clone(),
        });
        serde_json::to_vec(&alike.collect::<Vec<_>>())
    }

    /// Reads that.
    pub fn from_json(json: &[u8]) -> serde_json::Result<Self> {
        let mut of_cluster = BTreeMap::new();
        for Alike { clusters, streams } in serde_json::from_slice::<Vec<Alike>>(json)? {
            let streams = Arc::new(streams);
            of_cluster.extend(
                clusters
                    .into_iter()
                    .map(|cluster| (cluster, Arc::clone(&streams))),
            );
        }
        Ok(Self { of_cluster })
    }
}

#[cfg(test)]
mod tests {
    use fleetdex_core::model::{Gvk, Resource, Unit};

    use super::*;

    fn stream(cluster: &str, kind: &str, scope: Scope) -> Stream {
        let resource = Resource {
            gvk: Gvk::new("apps", "v1", kind),
            plural: kind.to_lowercase().into(),
            namespaced: true,
        };
        Stream {
            unit: Unit {
                cluster: cluster.parse().unwrap(),
                resource,
                scope,
            },
            store: "main".parse().unwrap(),
        }
    }

    #[test]
    fn what_a_replica_says_is_read_by_the_others_stream_by_stream() {
        let refused = Gap::Failing {
            reason: "Forbidden".into(),
            is_shown: false,
            is_given_up: true,
        };
        let web = Scope::Namespace("web".parse().unwrap());
        let known: Known = [
            (stream("a", "Pod", Scope::All), None),
            (stream("a", "Node", Scope::All), Some(Gap::FirstList)),
            (stream("b", "Pod", web.clone()), Some(refused)),
            (stream("b", "Node", Scope::All), Some(Gap::Disconnected)),
        ]
        .into();
        let told = ShareGaps::of(&known);
        let read = ShareGaps::from_json(&told.to_json().unwrap()).unwrap();
        assert_eq!(read, told);
        for (stream, gap) in &known {
            assert_eq!(read.get(stream), Some(gap), "{stream:?}");
        }
        assert_eq!(read.get(&stream("b", "Pod", Scope::All)), None);
        assert_eq!(read.get(&stream("c", "Pod", web)), None);
        assert!(ShareGaps::from_json(b"{").is_err());
    }

    #[test]
    fn clusters_of_which_the_same_is_said_are_written_once() {
        let names: Vec<String> = (0..1_000).map(|number| format!("member{number}")).collect();
        let known: Known = names
            .iter()
            .map(|name| (stream(name, "Pod", Scope::All), None))
            .collect();
        let json = ShareGaps::of(&known).to_json().unwrap();
        assert_eq!(String::from_utf8(json).unwrap().matches("Pod").count(), 1);
    }
}
