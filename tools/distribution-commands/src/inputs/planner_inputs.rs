//! What a plan is made with.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleetdex_distribution::plan::DistributionInputs;
use fleetdex_interpreter::{customization::Customization, webhook::configuration::Webhook};
use fleetdex_rendering::source::Capabilities;
use serde_json::Value;

/// An API group and a kind.
pub type KindInGroup = (String, String);

/// What a plan is made with.
#[derive(Default)]
pub struct PlannerInputs {
    /// What the plan is made from.
    pub plan: DistributionInputs,
    /// Scripts that say what objects mean.
    pub customizations: Vec<Customization>,
    /// Webhooks that say what objects mean.
    pub webhooks: Vec<Webhook>,
    /// The `Distribution`s.
    pub distributions: Vec<GivenDistribution>,
    /// What charts are rendered for, by cluster; `None`: its status does not say it.
    pub capabilities: BTreeMap<String, Option<Arc<Capabilities>>>,
    /// The kinds without namespaces of files and the control plane.
    pub cluster_scoped: BTreeSet<KindInGroup>,
}

/// A `Distribution`.
pub struct GivenDistribution {
    /// The object.
    pub object: Value,
    /// Whether a file has it.
    pub is_of_file: bool,
}
