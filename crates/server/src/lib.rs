//! The query API: Kubernetes list and watch requests over the whole fleet, served from the stores;
//! and verification of the stores' content.
//!
//! Its parts, each of which uses only those below it:
//!
//! - [`http`] accepts connections, and admits, authenticates and authorizes requests.
//! - [`proxying`] serves Kubernetes over the fleet: requests for one object go to its member.
//! - [`answers`] answers questions, restricted to what the caller may see.
//! - [`watch`] answers watches, with the changes of the other replicas.
//! - [`read`] plans a query, restricts it to what the caller may see, and reads it from the stores.
//! - [`limits`] says what is taken on at a time, by class of request and by user.
//! - [`auth`] delegates authentication and authorization to the control plane. Without that
//!   only loopback addresses are served, and every request needs the token of [`auth::token_file`],
//!   whose holder can read everything.
//! - [`render`] encodes objects, discovery and reports in the representation that the client
//!   prefers.
//! - [`catalog`] holds the registered resources, and the stores of their objects.
//! - [`api_error`] has the errors that requests can get. What can be asked, and how, is in
//!   [`fleetdex_query_api`].

pub mod answers;
pub mod api_error;
pub mod auth;
pub mod catalog;
pub mod http;
pub mod limits;
pub mod proxying;
pub mod read;
pub mod render;
mod store_timeout;
pub mod telemetry;
pub mod watch;

#[cfg(any(test, feature = "testing"))]
pub mod fake;
#[cfg(test)]
mod tests;
