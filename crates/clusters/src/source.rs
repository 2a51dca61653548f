//! Where members come from, and where their credentials are read.
//!
//! [`Sources`] watches what the flags select: Karmada's `Cluster` objects, Cluster API's, labelled
//! Secrets, and the contexts of a kubeconfig file ([`contexts`](mod@contexts)). [`Loader`] reads
//! the credentials of one member: from the Secret that a `Cluster` names, from a kubeconfig in a
//! Secret, or from a kubeconfig file. [`Duplicates`] finds members that are the same cluster.

mod aggregator;
mod args;
mod cluster_api;
mod contexts;
mod duplicates;
mod history;
mod karmada;
mod kubeconfig;
mod kubeconfig_file;
mod load;
mod plugin;
mod reflector;
mod secrets;
mod sources;

use std::time::Duration;

pub use aggregator::MemberSnapshot;
pub use args::{SourceArgs, SourceKind, UselessFlag};
pub use contexts::{KubeconfigContexts, contexts, is_fleet_url};
pub use duplicates::{COMPARING, Duplicates, IndexedClusterUids, SAME_CLUSTER_AS, is_duplicate};
pub use history::HistorySample;
pub use kubeconfig::KubeconfigProblem;
pub use load::{Loader, PluginCachePolicy, kubeconfig_variable, read_kubeconfig};
pub use plugin::PluginError;
pub use reflector::status_code;
pub use secrets::LABEL;
pub use sources::Sources;

/// Time between two attempts to list a kind that is not served.
const NOT_SERVED_RETRY: Duration = Duration::from_secs(5);
