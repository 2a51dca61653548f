//! The query API: Kubernetes list requests over the whole fleet, answered from the stores; and verification of what is in them.
//!
//! A request passes through pure steps, each its own module: [`request`] reads path and query, [`target`] finds the stores in the
//! [`catalog`], [`status`] tells failures. [`list`] streams the answer, [`serve`] holds it together on the port of [`listen`].
//!
//! Who asks and what they may is decided in [`front`], by what the control plane says; [`permission`] restricts answers to it. Without the front
//! only loopback addresses are served, behind the token of [`auth`]: whoever can read the token file may read everything.

pub mod aggregate;
mod answers;
mod api;
pub mod auth;
pub mod caller;
pub mod catalog;
pub mod changes;
pub mod clusterpedia;
mod compression;
pub mod continue_token;
pub mod discovery;
mod etag;
pub mod explain;
pub mod flag;
pub mod follow;
mod followed;
pub mod front;
mod gate;
mod holding;
pub mod list;
pub mod listen;
pub mod moment;
pub mod options;
pub mod own;
pub mod owners;
mod page_memory;
pub mod peers;
pub mod percent;
pub mod permission;
pub mod proxying;
pub mod reach;
mod reading;
pub mod report;
pub mod representation;
pub mod request;
mod respond;
mod rest;
pub mod serve;
pub mod status;
pub mod table;
pub mod target;
mod telemetry;
pub mod verify;
pub mod watching;

#[cfg(any(test, feature = "testing"))]
pub mod fake;
#[cfg(test)]
mod merged_tests;
#[cfg(test)]
mod tests;

pub use caller::Caller;
pub use catalog::{Catalog, Entry};
pub use followed::Followed;
pub use reach::Reach;
pub use serve::{DEFAULT_ADDRESS, Server, ServerArgs, ServerError};
pub use telemetry::Telemetry;
