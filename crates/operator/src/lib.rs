//! The operator: which objects of which members are indexed, where, and by which replica.
//!
//! ```text
//!  ResourceRegistry ──┐
//!  members ───────────┼──> plan ──streams──> fleet ──> units of sync ──> stores
//!  replicas ──────────┘                        └──> status, reports, sweep of what is no longer wanted
//! ```
//!
//! [`plan`] is a function of registries, members and replicas; [`controller`] reconciles what runs with what is planned, and writes the
//! status.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_api::registry::ResourceRegistrySpec;
use fleetdex_clusters::{
    MemberState, definitions::Definitions, discovery::Discovery, source::is_left_to_another,
};
use fleetdex_core::model::ClusterName;
use jiff::Timestamp;

mod activation;
pub mod affinity;
mod arrivals;
pub mod cache;
pub mod controller;
pub mod fleet;
pub mod gaps;
pub mod karmada;
pub mod members;
pub mod places;
pub mod plan;
pub mod replicas;
pub mod selection;
pub mod status;
pub mod stores;
pub mod sweep;

/// Names the fields of objects that Fleetdex writes.
pub(crate) const FIELD_MANAGER: &str = "fleetdex";

/// A member cluster, as planning sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberView {
    /// Its name.
    pub name: ClusterName,
    /// Labels of its `Cluster` object.
    pub labels: BTreeMap<String, String>,
    /// `spec.provider`; empty when it is not known.
    pub provider: String,
    /// `spec.region`; empty when it is not known.
    pub region: String,
    /// `spec.zones`.
    pub zones: Vec<String>,
    /// What it serves; `None` until it has been asked.
    pub discovery: Option<Arc<Discovery>>,
    /// What its custom resources are defined as; `None` until it has been asked.
    pub definitions: Option<Arc<Definitions>>,
    /// Whether it is the same cluster as another member, under whose name it is indexed.
    pub left_to_another: bool,
}

impl From<&MemberState> for MemberView {
    fn from(state: &MemberState) -> Self {
        let member = &state.member;
        Self {
            name: member.name.clone(),
            labels: member.labels.clone(),
            provider: member.provider.clone().unwrap_or_default(),
            region: member.region.clone().unwrap_or_default(),
            zones: member.zones.clone(),
            discovery: state.discovery.clone(),
            definitions: state.definitions.clone(),
            left_to_another: is_left_to_another(state),
        }
    }
}

/// A registry, as planning sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryView {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When it was created; the oldest registry of a store decides what cannot be united.
    pub created: Option<Timestamp>,
    /// What it asks for.
    pub spec: ResourceRegistrySpec,
}
