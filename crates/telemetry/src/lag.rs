//! How far what is stored is behind what was received.

use std::{fmt::Debug, time::Duration};

use fleetdex_core::model::ClusterName;

/// A stream of changes of a cluster.
pub trait LaggingStream: Debug + Send + Sync {
    /// The cluster.
    fn cluster(&self) -> ClusterName;

    /// How long the oldest received change that is not acknowledged has waited; zero if there is
    /// none.
    fn lag(&self) -> Duration;
}
