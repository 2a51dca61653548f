//! Streams the response to a watch, and exchanges the changes for it with the other replicas.

pub mod changes;
pub mod event_stream;
pub mod peers;
pub mod search_response;
pub mod watch_response;
