//! The only place that answers questions: plans them, restricts them to what the caller may see,
//! takes the memory and the turns that they need, and reads the stores.
//!
//! HTTP, the page and Kubernetes over the fleet only translate between their clients and
//! [`Answers`].

mod aggregated_discovery;
mod completions;
pub(crate) mod objects;
pub(crate) mod request_body;
mod respond;
pub(crate) mod response;
mod state;
pub(crate) mod watches;

pub use state::Answers;
