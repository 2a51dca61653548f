//! The language of the query API, without side effects: which questions there are, by which paths
//! and parameters they are asked, and how the answers look.
//!
//! - [`question`] has the questions below `/apis/search.fleetdex.io/v1alpha1`, and parses them by
//!   the rules of Kubernetes' API server.
//! - [`fleet_request`] has the requests of Kubernetes over the fleet, below `proxying/`.
//! - [`answer`] has what is answered, as it is on the wire.
//! - [`uri`] decodes a path and a query once, so that all readers of a request read the same.
//!
//! - [`class`] says by which limits a request is taken on, and [`rbac_attributes`] what its caller
//!   has to be allowed.
//!
//! Who may ask, and how answers are found, is not here.

pub mod answer;
pub mod class;
pub mod clusterpedia;
pub mod error;
pub mod flag;
pub mod fleet_request;
pub mod group;
pub mod media_type;
pub mod parameter;
pub mod percent;
pub mod question;
pub mod rbac_attributes;
pub mod report;
pub mod route;
pub mod search_options;
pub mod search_version;
pub mod token_file;
pub mod uri;
pub mod warning;
pub mod watch_options;
