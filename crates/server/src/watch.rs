//! Streams the response to a watch, and exchanges the changes for it with the other replicas.
//!
//! What the caller may see of it: `crate::read::permitted` decides when the watch begins,
//! `fleetdex_store::changes` filters the changes, and `crate::auth::reauthorization` ends a watch
//! whose caller has lost the permission.

pub mod changes;
mod event_lines;
pub mod event_stream;
pub mod peers;
pub mod search_response;
pub mod watch_response;
