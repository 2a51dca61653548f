//! What the status of a registry is made from.

use std::{borrow::Cow, collections::BTreeSet};

use fleetdex_clusters::{ConnectionPhase, MemberState};
use fleetdex_core::model::{ClusterName, FieldPath, Unit};
use fleetdex_crds::registry::StoreStatus;
use fleetdex_store::ShardUse;
use fleetdex_sync::{pipeline::Availability, progress::UnitStatus};
use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};
use serde::{Deserialize, Serialize};

use crate::plan::RegistryPlan;

/// The health of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberHealth {
    /// Whether its API server responds.
    pub ready: bool,
    /// A CamelCase reason.
    pub reason: Cow<'static, str>,
    /// Why, and what to do about it.
    pub message: String,
    /// What is wrong with its registration although it works.
    pub note: Option<String>,
}

impl MemberHealth {
    /// The health of a member in this state.
    pub fn of(state: &MemberState, note: Option<String>) -> Self {
        let answers = matches!(
            state.phase,
            ConnectionPhase::Ready | ConnectionPhase::Unhealthy
        );
        Self {
            ready: answers && state.connection.is_some(),
            reason: Cow::Borrowed(state.reason),
            message: state.message.clone(),
            note,
        }
    }
}

/// How a store is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAccess {
    /// It is OpenSearch, with credentials.
    Authenticated,
    /// It is OpenSearch, without credentials.
    Anonymous,
    /// It is in this process.
    Embedded,
}

/// A location that the registry does not name any more, and that is not empty yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormerLocation {
    /// Its name, of addresses and prefix.
    pub name: String,
    /// The indices that may exist there, one pattern for each cluster.
    pub indices: Vec<String>,
    /// Why it cannot be emptied; `None` if it can.
    pub problem: Option<String>,
    /// The clusters that no other location answers queries of yet.
    pub awaited_clusters: Vec<String>,
}

/// The inputs of a registry's status.
pub struct StatusInputs<'a> {
    /// The name of the registry if it is being deleted.
    pub deleting: Option<&'a str>,
    /// The locations that may have documents of the registry.
    pub stores: Vec<StoreStatus>,
    /// Those of these locations that it does not name any more.
    pub former_locations: Vec<FormerLocation>,
    /// The plan of the registry.
    pub plan: &'a RegistryPlan,
    /// Whether its store can be used; `None` while that is unknown.
    pub store: Availability,
    /// The shards of the store, if they are known and limited.
    pub shards: Option<ShardUse>,
    /// How the store is reached.
    pub store_access: StoreAccess,
    /// The health of a member; `None` for one that is not known.
    pub health: &'a dyn Fn(&ClusterName) -> Option<MemberHealth>,
    /// Whether queries of a cluster are answered from what its streams write.
    pub live: &'a dyn Fn(&ClusterName) -> bool,
    /// Sources of clusters that have not been read yet, and may have more clusters of the registry.
    pub unread_sources: &'a [String],
    /// The progress of a unit whose stream runs.
    pub progress: &'a dyn Fn(&Unit) -> Option<UnitStatus>,
    /// The paths that the registry's selectors of a unit name and that are not selectable fields.
    pub selector_paths: &'a dyn Fn(&Unit) -> BTreeSet<FieldPath>,
    /// `metadata.generation`
    pub generation: Option<i64>,
    /// The conditions before this status.
    pub before: &'a [Condition],
    /// The time of this status.
    pub now: Timestamp,
}
