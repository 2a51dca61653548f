//! Puts the crates of Fleetdex together.
//!
//! ```text
//!  Cluster objects ──> clusters ──watches──> sync ──bulk──> store <──queries── server <── kubectl, cli
//!  ResourceRegistry ──> operator: which kinds of which clusters go to which stores
//! ```
//!
//! [`app`] runs the operator for a control plane, [`local`] the same parts for the contexts of a
//! kubeconfig, and [`doctor`] checks what an installation depends on.

pub mod app;
pub mod doctor;
pub mod local;
