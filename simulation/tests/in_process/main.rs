//! The operator and its stores on the servers of the simulation, without seeds of random faults.

mod broken_members;
mod every_path;
mod handover;
mod late_deletions;
mod opensearch;
mod packing;
mod permission;
mod watching;
