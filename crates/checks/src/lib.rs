//! What checks of an installation have in common: their results, and the requests that several of
//! them send.

pub mod permissions;
pub mod result;
pub mod store_probe;
