//! Streams the response to a watch, and exchanges the changes for it with the other replicas.

pub mod changes;
mod event_lines;
pub mod event_stream;
pub mod peers;
pub mod search_response;
pub mod watch_response;
