//! What users may read and change, and what hostile members cannot do.

mod aggregation_layer;
mod aws_domain;
mod aws_store;
mod bounded;
mod dashboards_roles;
mod forward_proxy;
mod helm;
mod hostile_members;
mod local_store;
mod members_decide;
mod migration;
mod proxying;
mod store_credentials;
mod store_role;
mod store_rotation;
