//! Real parts for Fleetdex: gets, starts and stops kube-apiservers, etcd and OpenSearch, and drives
//! them in tests, in the demo and in benchmarks.
//!
//! Nothing here pretends to be a server, but for clusters and registries of Karmada in [`karmada`].
//! [`parts`] builds the real ones from source (or unpacks the official ones) once, [`fleet`] runs
//! them on loopback and promises that none of them outlives the process that started it, and
//! [`browser`] shows pages to tests.

pub mod arguments;
pub mod attacks;
pub mod bench;
pub mod browser;
pub mod churn;
pub mod collector;
pub mod dashboards;
pub mod demo;
pub mod documented;
pub mod engine;
pub mod fleet;
pub mod generate;
mod hexadecimal;
pub mod http;
pub mod image;
pub mod informer;
pub mod interpreter;
pub mod java;
pub mod karmada;
pub mod kubectl;
pub mod kubelet;
pub mod load;
pub mod local;
pub mod objects;
pub mod opensearch;
pub mod operator;
pub mod oracle;
pub mod parts;
pub mod pictures;
pub mod poll;
pub mod proxy;
pub mod query_api;
pub mod scale;
pub mod scenario;
pub mod signals;
pub mod soak;
mod templates;
pub mod test_result;
