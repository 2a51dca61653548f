//! Puts the crates of Fleetdex together.
//!
//! ```text
//!  Cluster objects ──> clusters ──watches──> sync ──bulk──> store <──queries── server <── kubectl, cli
//!  ResourceRegistry ──> operator: which kinds of which clusters go to which stores
//! ```
//!
//! [`app`] runs the operator for a control plane, [`local`] the same parts for the contexts of a
//! kubeconfig, [`doctor`] checks what an installation depends on, and [`migrate`] takes a control
//! plane over from karmada-search.

pub mod app;
mod checks;
pub mod doctor;
pub mod local;
pub mod migrate;
