//! Bounds on what others can make Fleetdex hold: memory for response bodies, and permits of users.
//!
//! ```text
//!  member, store ──body──> intake ──bytes within a budget──> reader
//!  user ──request──> fair_semaphore ──a permit of the user's share──> response
//! ```
//!
//! [`intake`] counts the bytes of bodies while they arrive and refuses what exceeds a budget.
//! [`fair_semaphore`] divides permits among users, so that no user can take all of them.
//! [`computing`] divides processor time among users, beside the threads that serve.
//! [`parsed`] parses JSON within a reservation of what it takes then.
//! [`poll_time`] measures how long tasks keep threads that serve.
//! [`request`] is what one request of a user may hold and compute.
//! [`response_limit`] bounds single responses of the control plane.

pub mod computing;
pub mod fair_semaphore;
pub mod intake;
pub mod parsed;
pub mod poll_time;
pub mod request;
pub mod response_limit;
