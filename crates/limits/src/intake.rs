//! Bounds the memory for what others send: a limit for each body, and one budget for all of them.
//!
//! - Every byte counts after decompression. A body reserves memory from the [`Budget`] in steps
//!   while it arrives; the memory is returned when the last holder of its bytes drops them.
//! - A reader that needs more than is left waits in an order that is fair to members, or users:
//!   who wants little goes before the further reads of who wants much. Readers that each hold a
//!   part and wait for more never deadlock: one of them at a time gets the reserve, which is as
//!   large as the largest body, and finishes.
//! - A body that trickles is aborted while others wait for memory.
//! - A member has a share of the budget. Beyond it, its bodies are refused and other members are
//!   read as before. So has a user, whose further requests wait a while for the others.
//!
//! An [`Intake`] travels with each response of a member's client as an extension ([`IntakeLayer`]).

mod budget;
mod grants;
mod layer;
mod limits;
mod queue;
mod read;
mod reservation;
#[cfg(test)]
mod tests;

pub use budget::{Budget, Intake};
pub use layer::{IntakeLayer, IntakeService};
pub use limits::MemoryLimits;
pub use reservation::{IntakeError, MemoryReservation, PACE, PACE_WINDOW};
