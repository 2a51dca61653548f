//! What a request asks, and its class, which has limits of its own.

#[cfg(test)]
mod tests;

use http::Method;

use crate::{
    error::QuestionError,
    fleet_request::{self, FleetRequest},
    group::{GROUPS, VERSION},
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

/// What decides how many requests are taken on at a time, and how long one may last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// Of another replica, and short. Whether its caller is one is not known yet.
    Replication,
    /// Of another replica, and long-running.
    ReplicationStream,
    /// It lasts as long as the client likes: a watch, a verification, or a forwarded connection.
    LongRunning,
    /// Discovery of the server's own groups, their schemas, and the version.
    Discovery,
    /// A list of one kind, and what takes little.
    List,
    /// It computes much.
    Search,
    /// A member answers it.
    Objects,
}

impl RequestClass {
    /// The class of a request, by the parsers that its answer uses, so that no request is limited
    /// as another one than it is answered as.
    pub fn of(method: &Method, uri: &RequestUri<'_>) -> Self {
        let asked = Asked::parse(method, uri);
        let is_long_running = match &asked {
            Ok(Asked::Fleet(request)) => request.is_long_running(),
            // With another method it is refused at once.
            Ok(Asked::Question(question)) => {
                question.is_long_running() && question.is_served_with(method)
            }
            Err(_) => false,
        };
        match &asked {
            _ if is_replication(uri) && is_long_running => Self::ReplicationStream,
            _ if is_replication(uri) => Self::Replication,
            _ if is_long_running => Self::LongRunning,
            Ok(Asked::Fleet(request)) if request.is_of_index() => Self::List,
            Ok(Asked::Fleet(_)) => Self::Objects,
            Err(_) if fleet_request::is_below(uri) => Self::Objects,
            _ if is_discovery(uri) => Self::Discovery,
            Ok(Asked::Question(question)) if question.computes_much() => Self::Search,
            _ => Self::List,
        }
    }

    /// Whether it lasts as long as the client likes.
    pub fn is_long_running(self) -> bool {
        matches!(self, Self::LongRunning | Self::ReplicationStream)
    }
}

fn is_replication(uri: &RequestUri<'_>) -> bool {
    matches!(*uri.segments(), ["apis", group, VERSION, "changes", ..] if GROUPS.contains(&group))
}

fn is_discovery(uri: &RequestUri<'_>) -> bool {
    match *uri.segments() {
        ["apis", ref below @ ..] => below.len() <= 2,
        ["openapi" | "version", ..] => true,
        _ => false,
    }
}
