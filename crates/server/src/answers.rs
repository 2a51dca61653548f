//! Answers the questions of the query API: plans them, restricts them to what the caller may see,
//! takes the memory and the turns that they need, and reads the stores.
//!
//! HTTP and the page only translate between their clients and [`Answers`]; Kubernetes over the
//! fleet uses its lists and watches, and asks the members for the rest.

pub(crate) mod context;
pub(crate) mod objects;
pub(crate) mod reply;
pub(crate) mod request_body;
mod respond;
pub(crate) mod response;

pub(crate) mod watches;

pub use context::Answers;
