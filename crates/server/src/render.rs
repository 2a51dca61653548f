//! Encodes objects, discovery and reports in the representation that the client prefers: JSON, YAML
//! or a Table.

pub mod discovery;
pub(crate) mod etag;
pub mod group_discovery;
pub mod representation;
pub mod table;
