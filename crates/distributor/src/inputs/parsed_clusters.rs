//! Clusters as plans see them, kept while nothing about them changes.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_clusters::{MemberState, discovery::Discovery, member::Member};
use fleetdex_core::model::ClusterName;
use fleetdex_crds::cluster::Cluster;
use fleetdex_distribution::{cluster::TargetCluster, room::ClusterRoom, template_name::KindName};
use serde_json::Value;

use crate::control_plane::ControlPlaneObject;

/// Clusters that were read before.
#[derive(Default)]
pub struct ParsedClusters(BTreeMap<ClusterName, ParsedCluster>);

/// A cluster, and what it was read from.
struct ParsedCluster {
    member: Arc<Member>,
    discovery: Option<Arc<Discovery>>,
    registered: Option<ControlPlaneObject>,
    target: TargetCluster,
    room: Option<ClusterRoom>,
}

impl ParsedClusters {
    /// A cluster, and the room that its object tells. `registered`: its object on the control
    /// plane, if there is one.
    pub fn cluster(
        &mut self,
        name: &ClusterName,
        state: &MemberState,
        registered: Option<&ControlPlaneObject>,
    ) -> (TargetCluster, Option<ClusterRoom>) {
        let known = self.0.get(name);
        let known = known.filter(|known| known.is_of(state, registered));
        if let Some(known) = known {
            return (known.target.clone(), known.room.clone());
        }
        let parsed = ParsedCluster::read(name, state, registered);
        let read = (parsed.target.clone(), parsed.room.clone());
        self.0.insert(name.clone(), parsed);
        read
    }

    /// Forgets all other clusters.
    pub fn keep(&mut self, members: &BTreeMap<ClusterName, MemberState>) {
        self.0.retain(|name, _| members.contains_key(name));
    }
}

impl ParsedCluster {
    fn is_of(&self, state: &MemberState, registered: Option<&ControlPlaneObject>) -> bool {
        let has_same_object = match (&self.registered, registered) {
            (None, None) => true,
            (Some(known), Some(now)) => known.is_same(now),
            _ => false,
        };
        let has_same_kinds = match (&self.discovery, &state.discovery) {
            (None, None) => true,
            (Some(known), Some(now)) => Arc::ptr_eq(known, now),
            _ => false,
        };
        has_same_object && has_same_kinds && Arc::ptr_eq(&self.member, &state.member)
    }

    fn read(
        name: &ClusterName,
        state: &MemberState,
        registered: Option<&ControlPlaneObject>,
    ) -> Self {
        let member = &state.member;
        let object: Option<Cluster> = registered.and_then(|one| {
            let mut object = Value::clone(&one.object);
            object["status"] = Value::clone(&one.status);
            serde_json::from_value(object).ok()
        });
        let of_object = object.as_ref().map(TargetCluster::from);
        let of_object = of_object.unwrap_or_default();
        let served = state.discovery.as_ref().map(|discovery| {
            let served = discovery.served.iter();
            let kinds = served.map(|one| {
                let gvk = &one.resource.gvk;
                KindName::from((gvk.api_version(), gvk.kind.to_string()))
            });
            Arc::new(kinds.collect())
        });
        let summary = object.as_ref().and_then(|one| one.status.as_ref());
        let summary = summary.and_then(|status| status.resource_summary.as_ref());
        Self {
            member: Arc::clone(member),
            discovery: state.discovery.clone(),
            registered: registered.cloned(),
            target: TargetCluster {
                name: name.as_str().to_owned(),
                labels: member.labels.clone(),
                provider: member.provider.clone().unwrap_or_default(),
                region: member.region.clone().unwrap_or_default(),
                zones: member.zones.clone(),
                taints: of_object.taints,
                // Of a cluster that was never connected nothing is known but what its object says.
                served: Some(served.or(of_object.served).unwrap_or_default()),
                is_terminating: of_object.is_terminating,
            },
            room: summary.map(ClusterRoom::of_summary),
        }
    }
}
