//! Keeps a store equal to the objects of its clusters.
//!
//! ```text
//!  watch ──events──> unit ──objects──> sink ──writes──> pending ──batches──> pipeline ──bulk──> store
//!                     │                 filter                                    │
//!                     └── relist: stored documents without an object              └── verdicts ──> progress, checkpoints
//! ```
//!
//! After any fault has healed, the store equals the members: a unit resumes from its checkpoint or
//! lists again, [`pending`] retains the newest write of each object, [`pipeline`] retries what can
//! succeed, and [`audit`] compares both sides from time to time.
//!
//! An object is parsed once. [`Object`](fleetdex_core::model::Object) borrows the bytes of the page
//! or line that it came in, and [`Document`](fleetdex_core::model::Document) is the only value that
//! is handed on: it goes from the projector through [`pending`] into the bulk request without a
//! copy.

pub mod audit;
pub mod checkpoints;
pub mod enrichment;
pub mod filter;
mod object_room;
pub mod path_presence;
pub mod pending;
pub mod pipeline;
pub mod progress;
pub mod relist;
pub mod sink;
#[cfg(test)]
mod store_fixture;
pub mod unit;
pub mod write_trace;
