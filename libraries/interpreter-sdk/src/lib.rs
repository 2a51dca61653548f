//! Resource interpreter webhooks in Rust.
//!
//! ```text
//!  serve_args ──> server ──> certificate          interpreter ──> failure
//!                    │                                 │
//!                 router ──> dispatch ──> change <─────┘
//! ```
//!
//! An [`Interpreter`] says what the objects of a kind mean. [`router`] answers requests with it, in
//! the dialects of `ResourceInterpreterWebhookConfiguration` and
//! `ResourceExploringWebhookConfiguration`, and [`ServeArgs`] serves the router over TLS.
//!
//! Guarantees: requests, connections and waiting times are bounded. A request without a valid
//! answer is answered with the reason; no object and no panic of an interpreter ends the server. A
//! certificate that is replaced is in use within ten seconds.
//!
//! Source of the protocol:
//! <https://karmada.io/docs/userguide/globalview/customizing-resource-interpreter/>, and
//! `pkg/webhook/interpreter` of Karmada for its servers.

mod certificate;
mod change;
mod dispatch;
mod failure;
mod interpreter;
pub mod pod_template;
mod router;
mod serve_args;
mod server;

pub use certificate::{CertificateFiles, CertificateFilesError};
pub use failure::{InterpreterFailure, InterpreterResult};
pub use fleetdex_interpreter::{
    InterpretError, Operation,
    request::{AggregatedStatusItem, Component, DependentObject, NodeClaim, ReplicaRequirements},
};
pub use interpreter::{DeclaredReplicas, Interpreter};
pub use router::{HEALTH_PATH, MAX_REQUESTS, router};
pub use serve_args::ServeArgs;
pub use server::{MAX_CONNECTIONS, ServeError, WebhookServer};

#[cfg(test)]
mod tests;
