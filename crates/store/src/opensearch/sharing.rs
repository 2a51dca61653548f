//! Indices that small clusters share.
//!
//! * A *placement* is the kind of index that holds a cluster's documents: one of its own, or one
//!   that it shares. [`placement_rules`] has the rules and what they are decided by;
//!   [`placement_decision`] reads that from OpenSearch and decides; [`placement_state`] bounds how
//!   many clusters move at a time.
//! * A *shared index* is an index of several clusters. [`shared_index`] has what its aliases say,
//!   and makes the requests that change them; [`alias_filters`] has their filters.
//! * A *partition* is the part of a shared index that one revision of a cluster has.
//!   [`partitions`] adds, completes and removes them; [`sweeping`] deletes what removed ones leave.

pub(crate) mod alias_filters;
pub(crate) mod change_queue;
pub(crate) mod partitions;
pub(crate) mod placement_decision;
pub(crate) mod placement_rules;
pub(crate) mod placement_state;
pub(crate) mod shared_index;
pub(crate) mod sweeping;
