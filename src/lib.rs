//! Fleetdex keeps a live, searchable index of every object in every member cluster of a fleet, in OpenSearch, and
//! answers Kubernetes-style queries from it.
//!
//! ```text
//!  Cluster ──> cluster ──client──> watch ──events──> sync ──operations──> pipeline ──bulk──> store
//!  objects     connect, probe,     list + watch      document,            batch, in flight,   OpenSearch
//!              discovery           one per unit      routes               verdicts, retry       ▲
//!        ▲                                                                                      │ search
//!  ResourceRegistry ──> registry: which units go to which stores                                │
//!                                                                                               │
//!  kubectl, HTTP, CLI ──> server ──> selector ──> query ──> query::dsl ─────────────────────────┘
//! ```
//!
//! The modules in reading order: [`model`] has the shared words, [`selector`] and [`query`] what is asked.

pub mod api;
pub mod app;
pub mod bulk;
pub mod cli;
pub mod cluster;
pub mod intake;
pub mod json_path;
pub mod kinds;
pub mod local;
pub mod model;
pub mod pipeline;
pub mod planted;
pub mod query;
pub mod registry;
pub mod replicas;
pub mod secret_hosts;
pub mod selector;
pub mod server;
pub mod shares;
pub mod store;
pub mod sync;
pub mod telemetry;
pub mod terminal;
pub mod watch;
