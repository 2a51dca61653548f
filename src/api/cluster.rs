//! `Cluster`.
