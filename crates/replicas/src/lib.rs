//! Several replicas of one installation: the clusters are assigned among them, and all of them
//! answer queries.
//!
//! Every replica renews a Lease of its own, and announces on it among which replicas it assigns the
//! clusters. The reader of a cluster follows from these names alone ([`assignment`]), so no leader
//! is elected and nothing has to be agreed upon. Two replicas never write to one index at a time: a
//! replica starts to read a cluster only after every other one has announced an assignment in which
//! the cluster is not its own, and a replica whose Lease is not renewed sends nothing any more
//! ([`write_fence`]). Should both fail, the versions of the documents still keep the
//! newer state.

pub mod assignment;
mod config;
mod handle;
mod lease;
pub mod lease_object;
mod observed_leases;
pub mod write_fence;

pub use assignment::{Assignment, ReplicaName};
pub use config::ReplicaConfig;
pub use handle::{PeerReplica, Replicas};
