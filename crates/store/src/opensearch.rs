//! The OpenSearch engine: one index per cluster and revision behind aliases, external versions, and
//! reads from points in time.

mod connection;
pub mod dsl;
mod engine;
mod feed;
mod indices;
mod read;
mod revisions;
mod sharing;
mod write;

pub use connection::{
    authentication::Authentication,
    aws_credentials::AwsKeys,
    aws_refusal::aws_refusal,
    aws_signer::{AwsAuthentication, SigningError},
    responses::{Allowance, MAX_ANSWER_BYTES, ResponseBudget},
    role,
    store_connection::StoreConnection,
    transport::{
        OpenSearchService, Settings, SettingsError, StoreClosed, StoreProxy, Timeout,
        TransportError, connect, proxy_url, url,
    },
};
pub use engine::{Engine, EngineOptions};
pub use feed::Feed;
pub use indices::{
    index_settings::IndexSettings,
    index_template::{MAPPING_VERSION, index_template, mappings},
};
pub use read::contexts::{AllListContexts, LIST_CONTEXTS, ListContexts};
pub use sharing::placement_rules::PlacementRules;

#[cfg(test)]
mod tests;
