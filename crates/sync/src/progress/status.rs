//! A snapshot of the progress of a unit.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ack_tracker::SelectionCounts, sync_state::UnitState};
use crate::path_presence::MissingPaths;

/// The results of the audits of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditSummary {
    /// When the last one ended.
    pub last: Option<Timestamp>,
    /// Documents that all audits together found wrong.
    pub drift: u64,
    /// When an audit last found any.
    pub drift_found: Option<Timestamp>,
}

/// A snapshot of the progress of a unit. Replicas exchange it as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitStatus {
    /// The state of the unit.
    pub state: UnitState,
    /// When the store last held a complete list.
    pub synced_at: Option<Timestamp>,
    /// How many objects the unit has.
    pub objects: u64,
    /// How many of them each selection has, by its id, if registries select different ones.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub selected: SelectionCounts,
    /// Objects of the last list, and of the watch since then, that cannot be identified.
    pub skipped: u64,
    /// Fallback documents; [`super::MAX_REJECTED`] means that many or more.
    pub rejected: u64,
    /// One of those documents.
    pub rejected_example: Option<Arc<str>>,
    /// The results of audits.
    pub audits: AuditSummary,
    /// Paths that filters name and at which no object has a value; absent before a complete list.
    #[serde(default, rename = "sought")]
    pub filter_paths: Option<MissingPaths>,
}
