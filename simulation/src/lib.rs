//! Fleetdex against the fake API server and OpenSearch of [`fakes`], without sockets, disks or real
//! time. The real engine runs on them thousands of times, each time with a seed that reproduces the
//! run.
//!
//! - [`hostile`]: a member that tries to harm the others.
//! - [`operator`]: one process of the operator, made of the parts of `fleetdex run`.
//! - [`interpreter`]: a webhook that says what custom resources mean, and the rules that name it.
//! - [`world`]: the fleet with its operations and disruptions. [`selection`]: the selectors of the
//!   registry.
//! - [`oracle`]: compares the stored documents with the expected ones. It alone decides whether a
//!   run passes, whatever failed meanwhile.
//! - [`handover`]: several [`replicas`] that replicate changes over a slow [`network`], with an
//!   [`informer`] at each; [`leases`] elects them.
//! - [`identity`]: members that report the identity of another one, and clusters that were restored
//!   from the backup of another one.
//! - [`distribution`]: objects of a control plane that are distributed to members.
//! - [`users`]: users who read lists in pages and try to read more than they may.
//! - [`run`]: one run with one seed.
//! - [`every_path`]: field selectors of any path, on objects of any shape. It runs on the fake
//!   server, and in `e2e/tests/queries/every_path.rs` on real ones.

pub mod distribution;
pub mod every_path;
pub mod handover;
pub mod hostile;
pub mod identity;
pub mod informer;
pub mod interpreter;
pub mod leases;
pub mod network;
pub mod operator;
pub mod oracle;
pub mod replicas;
pub mod run;
pub mod selection;
pub mod users;
pub mod world;

/// The value in every Secret; no request to OpenSearch may contain it.
pub const SECRET_VALUE: &str = "c3dvcmRmaXNo";
