//! Which clusters are members, and what connections to them are made from.
//!
//! [`Loader`] reads the credentials of one member: from the Secret that a `Cluster` names, from a kubeconfig in a Secret, or from a
//! context of a kubeconfig file. [`contexts`] makes members of a kubeconfig's contexts.

mod contexts;
mod kubeconfig;
mod load;
mod plugin;

pub use contexts::{Contexts, contexts};
pub use kubeconfig::KubeconfigProblem;
pub use load::{Asking, Loader, read_kubeconfig};
pub use plugin::PluginError;
