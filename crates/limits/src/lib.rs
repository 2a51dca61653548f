//! Bounds on what others can make Fleetdex hold: bodies of answers, and places of users.
//!
//! ```text
//!  member, store ──body──> intake ──bytes within a budget──> reader
//!  user ──request──> shares ──a place of the user's share──> answer
//! ```
//!
//! [`intake`] counts the bytes of bodies while they arrive and refuses what exceeds a budget. [`shares`] divides a number of places among
//! users, so that no user can take all of them.

pub mod intake;
pub mod shares;
