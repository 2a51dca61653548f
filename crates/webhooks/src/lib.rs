//! Interpreter webhooks: the client that calls them, and the queue that keeps calls from holding up
//! indexing.
//!
//! ```text
//!  direct ──> queue ──> client ──> service
//!                └────────┴──> breaker, limits
//! ```
//!
//! The messages and the configuration are those of `fleetdex_interpreter::webhook`. Webhooks are
//! strangers: each call has a deadline, each answer a bound, and no webhook occupies what another
//! one needs.

pub mod breaker;
pub mod client;
pub mod direct;
pub mod limits;
pub mod queue;
pub mod service;
