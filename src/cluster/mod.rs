//! Member clusters: where they come from, how they are reached, what they serve.

pub mod discovery;
