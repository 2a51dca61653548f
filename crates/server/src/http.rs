//! Accepts connections, limits, authorizes and routes requests, and builds their responses.
//!
//! [`listen`] serves the port, [`limits`] admits requests, [`serve`] hands them to `dispatch`, which authorizes and routes them, or to `page`.

mod aggregated_discovery;
pub mod api_state;
mod completion_handler;
mod compression;
pub(crate) mod dispatch;
pub(crate) mod guarded_body;
pub(crate) mod handlers;
pub mod limits;
pub mod listen;
pub(crate) mod page;
pub(crate) mod request_body;
mod request_trace;
pub(crate) mod response;
pub mod serve;
pub(crate) mod watch_handlers;
