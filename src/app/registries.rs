//! The statuses of registries, as the control plane has them.

use std::sync::{Arc, OnceLock};

use fleetdex_crds::registry::ResourceRegistry;
use fleetdex_query_api::answer::RegistryReport;
use fleetdex_server::read::fleet::RegistrySource;
use kube::{ResourceExt as _, runtime::reflector::Store};

/// The registries that the controller reads; none before it does.
#[derive(Clone, Default)]
pub(super) struct ReflectedRegistries(pub(super) Arc<OnceLock<Store<ResourceRegistry>>>);

impl RegistrySource for ReflectedRegistries {
    fn statuses(&self) -> Vec<RegistryReport> {
        let registries = self.0.get().map(Store::state).unwrap_or_default();
        let report = |registry: &Arc<ResourceRegistry>| RegistryReport {
            name: registry.name_any(),
            status: registry.status.clone().unwrap_or_default(),
        };
        let mut reports: Vec<RegistryReport> = registries.iter().map(report).collect();
        reports.sort_by(|left, right| left.name.cmp(&right.name));
        reports
    }
}
