//! Fleetdex against servers that live in this process: an apiserver and an OpenSearch without sockets, disks or real time, which fail on
//! command. The real engine runs on them, thousands of times, each time from a seed that brings back the same run.
//!
//! The servers are held to the real ones by `e2e/tests/fakes.rs`: one script of requests runs on both, and the answers are equal.

pub mod apiserver;
pub mod opensearch;
