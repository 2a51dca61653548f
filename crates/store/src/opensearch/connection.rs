//! Requests to one OpenSearch: how they are sent, authenticated and answered.

pub(crate) mod authentication;
pub(crate) mod aws_credentials;
pub(crate) mod aws_refusal;
pub(crate) mod aws_signer;
pub(crate) mod client;
pub(crate) mod connection_fault;
pub(crate) mod query_slots;
pub(crate) mod responses;
pub mod role;
pub(crate) mod store_connection;
pub(crate) mod transport;
