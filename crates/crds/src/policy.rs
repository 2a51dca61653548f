//! Policies of `policy.karmada.io/v1alpha1`: which objects of the control plane go to which
//! clusters, and how they differ there.
//!
//! Fields, names and defaults are those of Karmada's
//! [types](https://github.com/karmada-io/karmada/tree/master/pkg/apis/policy/v1alpha1). What its
//! admission webhooks refuse is refused by rules of the schemas; what these fill in may be absent.

mod definitions;
mod override_schema;
mod overrides;
mod placement;
mod placement_schema;
mod propagation;
mod propagation_schema;
pub mod state_path;
pub mod validation;

pub use definitions::{
    OverrideObject, PropagationObject, cluster_override_policies, cluster_propagation_policies,
    crds, override_policies, propagation_policies,
};
pub use overrides::{
    ContainerListOverrider, FieldOverrider, ImageOverrider, ImagePredicate, JsonPatchOverride,
    MetadataOverrider, OverridePolicy, OverrideRule, OverrideSpec, Overriders, PlaintextOverrider,
};
pub use placement::{
    AffinityTerm, ClusterPlacement, GroupedBy, OverflowAffinity, ReplicaScheduling,
    SpreadConstraint, StaticWeight, WeightPreference, WorkloadAffinity,
};
pub use propagation::{
    ApplicationFailover, ClusterFailover, DecisionConditions, DispatchingClusters, Failover,
    PropagationPolicy, PropagationSpec, SchedulePriority, StatePreservation, StatePreservationRule,
    Suspension, TemplateSelector,
};
