//! Fleetdex against servers that live in this process: an apiserver and an OpenSearch without sockets, disks or real time, which fail on
//! command. The real engine runs on them, thousands of times, each time from a seed that brings back the same run.
//!
//! - [`apiserver`], [`opensearch`]: the servers. They are held to the real ones by `e2e/tests/queries/fakes_apiserver.rs` and
//!   `e2e/tests/queries/fakes_opensearch.rs`: one script of requests runs on both, and the answers are equal.
//! - [`hostile`]: a member that is out to harm the others.
//! - [`operator`]: one life of the operator, made of the parts that `fleetdex run` is made of.
//! - [`world`]: the fleet, and what people and faults do to it. [`selection`]: what the registry asks for.
//! - [`oracle`]: what should be stored, against what is. It is the only judge, whatever went wrong.
//! - [`handover`]: several [`replicas`] that follow one another over a slow [`network`], with an [`informer`] at each.
//! - [`identity`]: members that say they are another one, and clusters that were restored from the backup of another one.
//! - [`users`]: people who read lists in pages, and would read more than they may.
//! - [`run`]: one run from one seed.
//! - [`every_path`]: field selectors of any path, on objects of any shape. On the simulated server, and in `e2e/tests/queries/every_path.rs` on real ones.

pub mod apiserver;
pub mod every_path;
pub mod handover;
pub mod hostile;
pub mod identity;
pub mod informer;
pub mod leases;
pub mod network;
pub mod opensearch;
pub mod operator;
pub mod oracle;
pub mod replicas;
pub mod run;
pub mod selection;
pub mod users;
pub mod world;

/// What stands in every Secret, and must be in no request to OpenSearch.
pub const SECRET_VALUE: &str = "c3dvcmRmaXNo";
