//! Hands clusters over to the replica that reads them from now on.

use std::time::Duration;

use fleetdex_core::model::ClusterName;

use super::StreamSupervisor;

/// How long writing the checkpoints of clusters that move to another replica may take.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);

impl StreamSupervisor {
    /// Hands over the clusters that another replica reads from now on: waits until their last
    /// writes are acknowledged, saves their checkpoints and closes them. Returns whether that is
    /// done.
    pub async fn hand_over(&mut self) -> bool {
        let Some(applied) = &self.applied else {
            return false;
        };
        self.draining
            .retain(|(_, progress)| progress.outstanding() > 0);
        if self
            .draining
            .iter()
            .any(|(store, progress)| !applied.assignment_for(store).may_keep(progress.cluster()))
        {
            return false;
        }
        for (name, store) in &self.stores {
            let assignment = applied.assignment_for(name);
            let others: Vec<ClusterName> = store
                .pipeline
                .open_clusters()
                .into_iter()
                .filter(|cluster| !assignment.may_keep(cluster))
                .collect();
            if others.is_empty() {
                continue;
            }
            // If it fails, the next replica only has more events to replay.
            let saved =
                tokio::time::timeout(HANDOVER_TIMEOUT, store.pipeline.save_checkpoints()).await;
            if !matches!(saved, Ok(Ok(()))) {
                tracing::warn!(store = %name, "cannot save the last checkpoints before a handover");
            }
            for cluster in &others {
                store.pipeline.hand_over(cluster);
            }
        }
        true
    }
}
