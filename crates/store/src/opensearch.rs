//! The OpenSearch engine: one index per cluster and revision behind aliases, external versions, and
//! reads from points in time.

mod activation;
mod aggregate;
mod alias_actions;
mod authentication;
mod aws_credentials;
mod aws_refusal;
mod aws_signer;
mod change_queue;
mod checkpoints;
mod claim;
mod client;
mod connection;
mod connection_fault;
mod contexts;
mod deletion;
mod deletion_permit;
pub mod dsl;
mod engine;
mod extent;
mod feed;
mod index_settings;
mod index_template;
mod log_documents;
mod pages;
mod partitions;
mod placement;
mod placement_decision;
mod points_in_time;
mod policy_exclusion;
mod previous_state;
mod query_slots;
mod ranked;
mod reader;
mod refresh;
mod responses;
mod retirement;
mod revision;
mod revision_diff;
pub mod role;
mod search_response;
mod shared_index;
mod survey;
mod surveyed_index;
mod swap;
mod sweeping;
mod transport;
mod values;
mod versions;
mod visible_resources;
mod writer;

pub use authentication::Authentication;
pub use aws_credentials::AwsKeys;
pub use aws_refusal::aws_refusal;
pub use aws_signer::{AwsAuthentication, SigningError};
pub use connection::StoreConnection;
pub use contexts::{AllListContexts, LIST_CONTEXTS, ListContexts};
pub use engine::{Engine, EngineOptions};
pub use feed::Feed;
pub use index_template::{IndexSettings, MAPPING_VERSION, index_template, mappings};
pub use placement::PlacementRules;
pub use responses::{Allowance, MAX_ANSWER_BYTES, ResponseBudget};
pub use transport::{
    OpenSearchService, Settings, SettingsError, StoreClosed, StoreProxy, Timeout, TransportError,
    connect, proxy_url, url,
};

#[cfg(test)]
mod tests;
