//! From a member's objects to a store's documents.

pub mod audit;
pub mod checkpoints;
mod id_hashes;
pub mod outlet;
pub mod pending;
pub mod progress;
pub mod relist;
pub mod sought;
pub mod unit;
