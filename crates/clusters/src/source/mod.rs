//! Which clusters are members, and what connections to them are made from.
//!
//! [`Sources`] follows what the flags choose: Karmada's `Cluster` objects, Cluster API's, labelled Secrets, and the contexts of a
//! kubeconfig file ([`contexts`]). [`Loader`] reads the credentials of one member: from the Secret that a `Cluster` names, from a
//! kubeconfig in a Secret, or from a kubeconfig file. [`Twins`] finds members that are the same cluster.

mod args;
mod board;
mod cluster_api;
mod contexts;
mod file;
mod karmada;
mod kubeconfig;
mod lineage;
mod load;
mod mirror;
mod plugin;
mod secrets;
mod sources;
mod twins;

pub use args::{SourceArgs, SourceKind, UselessFlag};
pub use board::Snapshot;
pub use contexts::{Contexts, contexts};
pub use kubeconfig::KubeconfigProblem;
pub use lineage::Sample;
pub use load::{Asking, Loader, read_kubeconfig};
pub use plugin::PluginError;
pub use secrets::LABEL;
pub use sources::Sources;
pub use twins::{COMPARING, Established, SAME_CLUSTER_AS, Twins, is_left_to_another};
