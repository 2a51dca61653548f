//! Parses path and query of a request, and turns errors into their `metav1.Status`, without side
//! effects.

pub mod api_error;
pub mod api_request;
pub mod clusterpedia;
pub mod flag;
pub mod interpreted_fields;
pub mod percent;
pub mod search_options;
pub mod search_version;
pub mod uri;
pub mod watch_options;
