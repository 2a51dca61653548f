//! Reads documents: pages of queries, counts and values, and the versions of an extent.

pub(crate) mod aggregate;
pub(crate) mod contexts;
pub(crate) mod extent;
pub(crate) mod pages;
pub(crate) mod points_in_time;
pub(crate) mod ranked;
mod reader;
pub(crate) mod search_response;
pub(crate) mod values;
pub(crate) mod versions;
