//! Accepts connections, and admits, authenticates and authorizes requests.
//!
//! [`listen`] serves the port, [`serve`] admits requests and hands them to `dispatch`, which
//! authorizes them and hands them to what answers them, or to `page`.

pub mod api_state;
mod compression;
pub(crate) mod dispatch;
pub mod listen;
pub(crate) mod page;
mod page_queries;
mod request_trace;
pub mod serve;
