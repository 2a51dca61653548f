//! The columns of built-in kinds: one file per API area, each with a table of its kinds.
//!
//! A kind that is in none of these tables has the columns of its definition ([`super::custom`]).

mod autoscaling;
mod core_group;
mod devices;
mod event;
mod networking;
mod pod;
mod rbac_and_admission;
mod storage;
mod system;
mod workload;

use super::column::KindColumns;

/// Built-in kinds with columns of their own.
pub const KINDS: [&[KindColumns]; 10] = [
    core_group::KINDS,
    pod::KINDS,
    workload::KINDS,
    event::KINDS,
    storage::KINDS,
    networking::KINDS,
    rbac_and_admission::KINDS,
    autoscaling::KINDS,
    system::KINDS,
    devices::KINDS,
];

/// Group and kind of built-in kinds that show only `Created At`.
pub const CREATED_AT_KINDS: [(&str, &str); 5] = [
    ("", "LimitRange"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "Role"),
    ("storage.k8s.io", "CSIStorageCapacity"),
];
