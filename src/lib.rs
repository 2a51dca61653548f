//! How the crates of Fleetdex are put together: the operator, and a fleet in memory on a desk.
//!
//! ```text
//!  Cluster objects ──> clusters ──watches──> sync ──bulk──> store <──queries── server <── kubectl, cli
//!  ResourceRegistry ──> operator: which kinds of which clusters go to which stores
//! ```
//!
//! [`app`] runs the operator in a control plane, [`local`] the same parts for the contexts of a kubeconfig.

pub mod app;
pub mod local;
