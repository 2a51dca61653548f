//! What users may read and change, and what hostile members cannot do.

mod aggregation_layer;
mod dashboards_roles;
mod helm;
mod hostile_members;
mod local_store;
mod members_decide;
mod migration;
mod proxying;
