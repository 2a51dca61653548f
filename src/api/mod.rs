//! Custom resources, as Rust types. `fleetdex crd` prints their definitions.

pub mod cluster;
pub mod registry;
