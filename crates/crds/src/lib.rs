//! Custom resources: the Rust types that the CRDs under `crds/` are generated from.
//!
//! The schema has limits and rules, so that the apiserver refuses a mistake when it is applied.
//! Decoding is lenient all the same (text instead of closed enums): one object that an older schema
//! accepted must not keep a watch from decoding the others.

pub mod affinity;
pub mod aws;
pub mod binding;
pub mod cluster;
pub mod cluster_cache;
pub mod condition;
pub mod distribution;
pub mod interpreter;
pub mod policy;
pub mod rebalancer;
pub mod registry;
pub mod schema;
pub mod validation;
