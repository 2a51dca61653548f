//! Servers that live in this process, and the load that tests put on simulated and on real ones.
//!
//! - [`apiserver`], [`opensearch`]: an API server and an OpenSearch without disks, which need no
//!   sockets and no real time and fail on command. They are held to the real ones by
//!   `e2e/tests/queries/fakes_apiserver.rs` and `e2e/tests/queries/fakes_opensearch/`: one script
//!   of requests runs on both, and the responses are equal.
//! - [`pods`]: generated pods. The simulated API server serves them, load tests create them on real
//!   ones.
//! - [`churn`]: which write an object gets next.
//!
//! `apiserver` (`src/bin/apiserver.rs`) serves the simulated API server over HTTP, and `opensearch`
//! (`src/bin/opensearch.rs`) the simulated OpenSearch, for benchmarks that must not measure real
//! ones.

pub mod apiserver;
pub mod churn;
pub mod opensearch;
pub mod pods;

mod json;
mod template;
