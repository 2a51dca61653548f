//! The query API.

pub mod listen;
