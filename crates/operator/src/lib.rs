//! The operator: decides which objects of which members are indexed, where, and by which replica.
//!
//! ```text
//!  ResourceRegistry ──┐
//!  members ───────────┼──> plan ──streams──> stream supervisor ──> units of sync ──> stores
//!  replicas ──────────┘                        └──> status, replica reports, garbage collection
//! ```
//!
//! [`plan`] is a pure function of registries, members and replicas. [`controller`] makes what runs
//! match the plan, and writes the status.

use std::{collections::BTreeMap, sync::Arc};

use fleetdex_clusters::{
    MemberState, definitions::Definitions, discovery::Discovery, source::is_duplicate,
};
use fleetdex_core::model::ClusterName;
use fleetdex_crds::{
    affinity::ClusterProperties,
    registry::{ResourceRegistry, ResourceRegistrySpec},
};
use jiff::Timestamp;
use kube::ResourceExt as _;

mod activation;
pub mod cluster_cache;
pub mod completeness;
pub mod controller;
pub mod garbage_collection;
pub mod interpreter_rules;
pub mod karmada;
mod live_clusters;
pub mod members;
mod opening_gate;
pub mod plan;
pub mod registry_status;
pub mod replica_report;
pub mod selection;
pub mod store_locations;
mod store_secret;
pub mod store_settings;
pub mod stores;
pub mod stream_supervisor;

/// The field manager of server-side apply.
pub(crate) const FIELD_MANAGER: &str = "fleetdex";

/// A member cluster as the planner sees it.
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
    /// What it serves; `None` until its first discovery.
    pub discovery: Option<Arc<Discovery>>,
    /// How its custom resources are defined; `None` until they have been read.
    pub definitions: Option<Arc<Definitions>>,
    /// Whether it is the same cluster as another member, under whose name it is indexed.
    pub is_duplicate: bool,
}

impl MemberView {
    /// What affinities look at.
    fn properties(&self) -> ClusterProperties<'_> {
        ClusterProperties {
            name: self.name.as_str(),
            labels: &self.labels,
            provider: &self.provider,
            region: &self.region,
            zones: &self.zones,
        }
    }
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
            is_duplicate: is_duplicate(state),
        }
    }
}

/// A registry as the planner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct RegistryView {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// When it was created. The oldest registry of a store decides what cannot be united.
    pub created: Option<Timestamp>,
    /// Its spec.
    pub spec: ResourceRegistrySpec,
}

impl From<&ResourceRegistry> for RegistryView {
    fn from(registry: &ResourceRegistry) -> Self {
        let created = registry.metadata.creation_timestamp.as_ref();
        Self {
            name: registry.name_any(),
            uid: registry.uid().unwrap_or_default(),
            created: created.map(|time| time.0),
            spec: registry.spec.clone(),
        }
    }
}
