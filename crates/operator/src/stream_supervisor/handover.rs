//! Hands clusters over to the replica that reads them from now on.

use std::time::Duration;

use fleetdex_core::model::ClusterName;

use super::{applied::AppliedPlan, stores::RunningStores};

/// How long writing the checkpoints of clusters that move to another replica may take.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);

/// Saves the checkpoints of the clusters that another replica reads from now on, and closes these
/// clusters. Their last writes are acknowledged.
pub(super) async fn hand_over(stores: &RunningStores, applied: &AppliedPlan) {
    for (name, store) in stores.iter() {
        let assignment = applied.assignment_for(name);
        let others: Vec<ClusterName> = store
            .pipeline
            .revisions
            .clusters()
            .into_iter()
            .filter(|cluster| !assignment.may_keep(cluster))
            .collect();
        if others.is_empty() {
            continue;
        }
        // If it fails, the next replica only has more events to replay.
        let saved = tokio::time::timeout(HANDOVER_TIMEOUT, store.pipeline.checkpoints.save()).await;
        if !matches!(saved, Ok(Ok(()))) {
            tracing::warn!(store = %name, "cannot save the last checkpoints before a handover");
        }
        for cluster in &others {
            store.pipeline.revisions.hand_over(cluster);
        }
    }
}
