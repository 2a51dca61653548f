//! Member clusters: where they come from, how they are connected, what they serve, and lists and
//! watches of their objects.
//!
//! ```text
//!  Cluster objects, Secrets, kubeconfigs ──> source ──members──> supervisor ──> connect ──client──> discovery, definitions
//!                                                                                             └──> watch ──events──> sync
//! ```
//!
//! A member can neither delay nor break another one: each has a task, a connection and limits of
//! its own.
//!
//! [`source`] finds the members and reads their credentials, [`member`] describes one member,
//! [`connect`] builds its client, [`discovery`] reads the resources that it serves and
//! [`definitions`] its custom resource definitions, [`connection_state`] decides when it is probed,
//! disconnected and reconnected, and [`supervisor`] runs one task per member.

mod advice;
pub mod bearer;
pub mod certificate;
pub mod cluster_status_writer;
pub mod connect;
mod connection;
pub mod connection_state;
pub mod connection_timing;
pub mod credentials;
mod credentials_watcher;
pub mod definitions;
pub mod discovery;
mod endpoint;
pub mod events;
pub mod fetch;
pub mod impersonate;
pub mod kubernetes_version;
pub mod member;
mod member_task;
mod proxy;
pub mod request;
pub mod secret_hosts;
mod shared;
pub mod source;
pub mod supervisor;
pub mod throttle;
pub mod watch;

pub use connection::Connection;
pub use connection_state::ConnectionPhase;
pub use connection_timing::ConnectionTiming;
pub use member::Member;
pub use shared::MemberState;
pub use supervisor::Clusters;
