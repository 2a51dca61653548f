//! Replicas that were placed a moment ago, and whose pods are not seen in their clusters yet.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fleetdex_distribution::{
    placing::PreviousPlacement, plan::DistributionPlan, room::ClusterRoom,
    template_name::TemplateName,
};
use fleetdex_interpreter::request::ReplicaRequirements;
use tokio::time::Instant;

/// How long replicas count although their pods are not seen: a cluster makes pods within seconds.
const RESERVED: Duration = Duration::from_secs(30);

struct PlacedReservation {
    since: Instant,
    requirements: Option<ReplicaRequirements>,
    replicas: i64,
}

/// Takes the room of replicas that were just placed, so that two templates do not take the same
/// room.
#[derive(Default)]
pub struct Reservations(BTreeMap<(TemplateName, String), PlacedReservation>);

impl Reservations {
    /// Takes what is reserved off the room in clusters.
    pub fn reserve(&mut self, room: &mut BTreeMap<String, ClusterRoom>) {
        self.0.retain(|_, one| one.since.elapsed() < RESERVED);
        for ((_, cluster), one) in &self.0 {
            if let Some(room) = room.get_mut(cluster) {
                room.reserve(one.requirements.as_ref(), one.replicas);
            }
        }
    }

    /// Reserves what a plan places more than before, each once: its binding says so later.
    pub fn placed(
        &mut self,
        plan: &DistributionPlan,
        previous: &BTreeMap<TemplateName, Arc<PreviousPlacement>>,
    ) {
        for binding in &plan.bindings {
            let before = previous.get(&binding.resource);
            for target in &binding.clusters {
                let before = before.and_then(|one| one.clusters.get(&target.name));
                let more = target.replicas - before.copied().unwrap_or(0);
                if more > 0 {
                    let key = (binding.resource.clone(), target.name.clone());
                    let reservation = PlacedReservation {
                        since: Instant::now(),
                        requirements: binding.requirements.clone(),
                        replicas: more,
                    };
                    self.0.insert(key, reservation);
                }
            }
        }
    }
}
