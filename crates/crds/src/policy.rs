//! Policies of `policy.karmada.io/v1alpha1`: which objects of the control plane go to which
//! clusters, and how they differ there.
//!
//! Fields, names and defaults are those of Karmada's
//! [types](https://github.com/karmada-io/karmada/tree/master/pkg/apis/policy/v1alpha1).

mod overrides;
mod placement;
mod propagation;
pub mod validation;

pub use overrides::{
    ContainerListOverrider, FieldOverrider, ImageOverrider, ImagePredicate, JsonPatchOverride,
    MetadataOverrider, OverrideRule, OverrideSpec, Overriders, PlaintextOverrider,
};
pub use placement::{
    AffinityTerm, ClusterPlacement, GroupedBy, OverflowAffinity, ReplicaScheduling,
    SpreadConstraint, StaticWeight, WeightPreference, WorkloadAffinity,
};
pub use propagation::{
    ApplicationFailover, ClusterFailover, DecisionConditions, DispatchingClusters, Failover,
    PropagationSpec, SchedulePriority, StatePreservation, StatePreservationRule, Suspension,
    TemplateSelector,
};
