//! The status of a registry, from its plan and from what runs for it.

mod bound;
mod changes;
mod clusters;
mod conditions;
mod deletion;
mod events;
mod inputs;
mod missing_fields;
mod names;
#[cfg(test)]
mod tests;

use fleetdex_crds::{
    condition,
    registry::{RegistryClusterStatus, ResourceRegistryStatus},
};

pub(crate) use self::clusters::truncated_to_seconds;
pub use self::{
    bound::{bounded, write_interval},
    changes::{has_new_conditions, needs_write},
    events::{RegistryEvent, ReportedEvents},
    inputs::{FormerLocation, MemberHealth, StatusInputs, StoreAccess},
};
use self::{
    clusters::{cluster_status, not_found, summary},
    conditions::findings,
};

/// The status of a registry, with every cluster; see [`bounded`].
pub fn status(inputs: &StatusInputs<'_>) -> ResourceRegistryStatus {
    let mut clusters: Vec<RegistryClusterStatus> = inputs
        .plan
        .clusters
        .iter()
        .map(|(name, plan)| cluster_status(name, plan, inputs))
        .collect();
    clusters.extend(
        inputs
            .plan
            .not_found
            .iter()
            .map(|name| not_found(name, inputs.unread_sources)),
    );
    clusters.sort_by(|left, right| left.name.cmp(&right.name));
    let summary = summary(&clusters, inputs);
    let findings = findings(inputs, &clusters);
    let conditions = condition::merge(inputs.before, findings, inputs.generation, inputs.now);
    ResourceRegistryStatus {
        conditions,
        clusters,
        omitted_clusters: 0,
        summary: Some(summary),
        stores: inputs.stores.clone(),
    }
}
