//! Several replicas of one installation: each reads a share of the clusters, and all of them answer queries.
//!
//! Every replica renews a Lease of its own, on which it also tells which replicas it goes by. Who reads a cluster follows from that alone
//! ([`share`]), so nothing is elected and nothing has to be agreed upon. What keeps two replicas from writing to one index at a time is
//! that a replica starts with a cluster only after every other one has told that it has let go of it, and that one whose Lease is not
//! renewed sends nothing any more ([`fleetdex_sync::fence`]). Should both fail, the versions of the documents still keep the newer state.

pub mod lease;
pub mod report;
pub mod share;

pub use lease::{Peer, Replicas, Settings};
pub use report::Report;
pub use share::{ReplicaName, Share};
