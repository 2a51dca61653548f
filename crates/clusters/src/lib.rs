//! Member clusters: where they come from, how they are reached, what they serve, and lists and watches of it.
//!
//! ```text
//!  Cluster objects, Secrets, kubeconfigs ──> source ──members──> supervisor ──> connect ──client──> discovery, definitions
//!                                                                                             └──> watch ──events──> sync
//! ```
//!
//! A member can neither delay nor break another one: each has a task, a connection and bounds of its own.
//!
//! [`source`] says which members there are and how they are reached, [`member`] who one is, [`connect`] makes a client for it, [`discovery`]
//! reads what it serves and [`definitions`] what its custom resources are defined as, [`state`] decides when it is probed, given up and
//! reconnected, and [`supervisor`] runs all of it, one task per member.

mod advice;
pub mod bearer;
pub mod connect;
mod connection;
pub mod credentials;
pub mod definitions;
pub mod discovery;
mod endpoint;
pub mod events;
pub mod fetch;
mod follow;
pub mod impersonate;
pub mod member;
mod proxy;
pub mod request;
pub mod secret_hosts;
mod shared;
pub mod source;
pub mod state;
pub mod status;
pub mod supervisor;
mod task;
pub mod throttle;
pub mod watch;

pub use connection::Connection;
pub use member::Member;
pub use shared::MemberState;
pub use state::{Phase, Timing};
pub use supervisor::Clusters;
