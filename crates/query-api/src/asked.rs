//! What a request asks.

use http::Method;

use crate::{
    error::QuestionError,
    fleet_request::{self, FleetRequest},
    question::{self, Question},
    uri::RequestUri,
};

/// What a request asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A question of the query API.
    Question(Question),
    /// A request of Kubernetes over the fleet.
    Fleet(FleetRequest),
}

impl Asked {
    /// Parses a request.
    pub fn parse(method: &Method, uri: &RequestUri<'_>) -> Result<Self, QuestionError> {
        match fleet_request::parse(method.as_str(), uri) {
            Some(request) => request.map(Self::Fleet),
            None => question::parse(uri).map(Self::Question),
        }
    }
}
