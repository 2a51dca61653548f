//! From a member's objects to a store's documents.
//!
//! ```text
//!  watch ──events──> unit ──objects──> outlet ──writes──> pending ──batches──> pipeline ──bulk──> store
//!                     │                 filter                                    │
//!                     └── relist: what is stored and no longer exists             └── verdicts ──> progress, checkpoints
//! ```
//!
//! After any fault has healed, what is stored equals what the members have: a unit goes on from its checkpoint or lists again, [`pending`]
//! keeps the newest write of each object, [`pipeline`] retries what can succeed, and [`audit`] compares both sides from time to time.

pub mod audit;
pub mod checkpoints;
pub mod fence;
pub mod filter;
mod id_hashes;
pub mod outlet;
pub mod pending;
pub mod pipeline;
pub mod progress;
pub mod relist;
pub mod sought;
pub mod unit;
