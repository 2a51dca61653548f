//! From a member's objects to a store's documents.

pub mod pending;
pub mod progress;
pub mod unit;
