//! What users may read and change, and what hostile members cannot do.

mod aggregation_layer;
mod dashboards_roles;
mod helm;
mod hostile_members;
mod members_decide;
mod proxying;
