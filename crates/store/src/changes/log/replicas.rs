//! How other replicas read a log, and how their changes are added.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{
    LOOK_AGAIN, Log,
    state::{NextForReplica, SubscriberKind},
};
use crate::changes::{Change, TooOld};

impl Log {
    /// Adds changes that another replica made.
    pub(crate) fn append_from_replica(&self, changes: &[Change]) {
        self.add(changes, true);
    }

    /// Ends the log: this replica has added its last change. Replicas that follow it read the rest,
    /// and then know everything.
    pub(crate) fn end(&self) {
        self.state.lock().has_ended = true;
        // Wakes them although there is no new number.
        self.newest.send_modify(|_| {});
    }

    /// Waits until no other replica reads this log; false if the patience ran out.
    pub(crate) async fn wait_for_replicas_to_leave(&self, patience: Duration) -> bool {
        let is_read = || {
            self.state
                .lock()
                .subscribers
                .values()
                .any(|subscriber| subscriber.kind == SubscriberKind::Replica)
        };
        let left = async {
            while is_read() {
                sleep(LOOK_AGAIN).await;
            }
        };
        timeout(patience, left).await.is_ok()
    }

    /// What a replica that knows everything up to `after` may read next.
    pub(in crate::changes) fn after_for_replica(
        &self,
        after: u64,
    ) -> Result<NextForReplica, TooOld> {
        let state = self.state.lock();
        if !state.knows_after(after) {
            return Err(TooOld { after });
        }
        let last = state.last_for_replicas(self.newest());
        let next = state.batches.partition_point(|batch| batch.last() <= after);
        let batch = state
            .batches
            .get(next)
            .filter(|batch| batch.first <= last)
            .cloned();
        Ok(NextForReplica {
            batch,
            last,
            has_ended: state.has_ended,
        })
    }
}
