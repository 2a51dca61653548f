//! What is known of evictions.

use std::collections::BTreeMap;

use fakes::apiserver::ClientWrite;
use tokio::time::Instant;

use super::timeline::{Place, Timeline};

/// Which clusters drive objects out, and what bindings say of evictions.
#[derive(Default)]
pub struct GuardedEvictions {
    /// The clusters that have the taint; `None`: they have it now.
    pub tainted: BTreeMap<String, Option<Instant>>,
    pub evicted: Timeline,
    /// Those of the evicted that stay until the object is elsewhere, until the grace is over.
    pub graceful: Timeline,
    pub begun: BTreeMap<Place, Instant>,
    /// The clusters that bindings say their objects move away from.
    pub moved: Timeline,
    /// Deletions because of moves. An operator moves an object when an eviction has ended, which
    /// it has written itself, so that the plan says it only afterwards.
    pub awaited: Vec<(Place, ClientWrite)>,
}
