//! The OpenSearch engine: one index per cluster and generation behind an alias, external versions, PIT reads.

mod client;
mod engine;
mod extent;
mod template;
mod transport;

pub use engine::{Engine, EngineOptions};
pub use template::{IndexSettings, MAPPING_VERSION, index_template, mappings};
pub use transport::{OpenSearchService, Settings, SettingsError, Timeout, TransportError, connect};
