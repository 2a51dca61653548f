//! The OpenSearch engine: one index per cluster and generation behind an alias, external versions, PIT reads.

mod aggregate;
mod answers;
mod checkpoints;
mod claim;
mod client;
mod contexts;
mod difference;
mod engine;
mod extent;
mod feed;
mod generation;
mod packing;
mod points;
mod refresh;
mod stored;
mod template;
mod transport;
mod versions;
mod visible;

pub use answers::{Allowance, Answers, MAX_ANSWER_BYTES};
pub use contexts::{AllListContexts, LIST_CONTEXTS, ListContexts};
pub use engine::{Engine, EngineOptions};
pub use feed::Feed;
pub use template::{IndexSettings, MAPPING_VERSION, index_template, mappings};
pub use transport::{
    OpenSearchService, Settings, SettingsError, Timeout, TransportError, connect, url,
};
