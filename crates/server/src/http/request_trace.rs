//! The span of a request to the query API.
//!
//! It ends with the last byte of the response, or with the head of one that has no end of its own,
//! such as a watch. It begins once the caller is authenticated, with the time of arrival: the trace
//! that a request names counts only then.

use std::{borrow::Cow, time::SystemTime};

use axum::{
    extract::Request,
    http::{Method, StatusCode, header::USER_AGENT},
    response::Response,
};
use fleetdex_query_api::{flag::flag, uri::QueryParameters};
use fleetdex_telemetry::{
    Traces,
    traces::{Beginning, CallerSpan, KeyValue, SpanKind, Trace},
};
use fleetdex_ui::is_page_path;
use http_body::Body as _;
use tracing::Instrument as _;

use crate::limits::guarded_body::{Surroundings, surrounded};

/// Bytes of a user agent that are kept. Those of browsers and of `client-go` are shorter.
const MAX_AGENT_BYTES: usize = 256;
/// Parameters of requests whose responses have no end of their own.
const ENDLESS: [&str; 2] = ["watch", "follow"];

/// A request whose trace may be recorded.
pub(super) struct RequestTrace<'t> {
    traces: &'t Traces,
    arrived: SystemTime,
    caller: Option<CallerSpan>,
    method: &'static str,
    route: Option<Cow<'static, str>>,
    agent: Option<String>,
    is_endless: bool,
    /// Whether it is decided if there is a span.
    is_decided: bool,
    span: Option<Trace>,
}

impl<'t> RequestTrace<'t> {
    /// `None`: there are no traces.
    pub(super) fn of(traces: &'t Traces, request: &Request) -> Option<Self> {
        if !traces.is_on() {
            return None;
        }
        let uri = request.uri();
        let route = route(uri.path());
        let query = QueryParameters::parse(uri.query().unwrap_or_default());
        let is_endless = ENDLESS
            .into_iter()
            .any(|parameter| query.first(parameter).is_some_and(flag))
            || uri.path().ends_with("/verify");
        let agent = request.headers().get(USER_AGENT);
        let agent = agent.and_then(|agent| agent.to_str().ok());
        Some(Self {
            traces,
            arrived: SystemTime::now(),
            caller: CallerSpan::of(request.headers()),
            method: known_method(request.method()),
            route,
            agent: agent
                .map(|agent| agent[..agent.floor_char_boundary(MAX_AGENT_BYTES)].to_owned()),
            is_endless,
            is_decided: false,
            span: None,
        })
    }

    /// Begins the span of a caller that has been authenticated just now.
    pub(super) fn authenticated(&mut self) -> Option<Trace> {
        let span = self.begin(true)?;
        let authentication = Beginning {
            at: Some(self.arrived),
            ..Beginning::now("authenticate", SpanKind::Internal)
        };
        // It ends at once.
        drop(span.child(authentication, Vec::new));
        Some(span)
    }

    /// Begins the span of a caller that is not known, if it has not begun.
    pub(super) fn unauthenticated(&mut self) -> Option<Trace> {
        if self.is_decided {
            return self.span.clone();
        }
        self.begin(false)
    }

    fn begin(&mut self, is_authenticated: bool) -> Option<Trace> {
        let name = match &self.route {
            Some(route) => format!("{} {route}", self.method).into(),
            None => self.method.into(),
        };
        let beginning = Beginning {
            name,
            kind: SpanKind::Server,
            at: Some(self.arrived),
        };
        let caller = self.caller.as_ref().filter(|_| is_authenticated);
        let (method, route, agent) = (self.method, self.route.take(), self.agent.take());
        let span = self.traces.begin(beginning, caller, || {
            let mut attributes = vec![KeyValue::new("http.request.method", method)];
            attributes.extend(route.map(|route| KeyValue::new("http.route", route)));
            attributes.extend(agent.map(|agent| KeyValue::new("user_agent.original", agent)));
            attributes
        });
        self.is_decided = true;
        self.span.clone_from(&span);
        span
    }

    /// Notes the response, and ends the span with its body.
    pub(super) fn answered(mut self, response: Response) -> Response {
        let Some(span) = self.unauthenticated() else {
            return response;
        };
        span.set_served_status_code(response.status());
        let is_buffered = response.body().size_hint().exact().is_some();
        let is_upgrade = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        if self.is_endless || is_buffered || is_upgrade {
            span.end();
            return response;
        }
        response.map(|body| surrounded(body, span))
    }
}

/// Runs a future within the span of a request, whose id the log lines of the future have.
pub(super) async fn traced<F: Future>(span: Option<Trace>, future: F) -> F::Output {
    let Some(span) = span else {
        return future.await;
    };
    let lines = tracing::error_span!("request", trace_id = span.id());
    span.run(future).instrument(lines).await
}

/// Calls a function whose log lines have the id of the trace.
pub(super) fn logged<T>(span: Option<&Trace>, call: impl FnOnce() -> T) -> T {
    match span {
        Some(span) => tracing::error_span!("request", trace_id = span.id()).in_scope(call),
        None => call(),
    }
}

/// The span ends with the body.
impl Surroundings for Trace {
    fn within<T>(&self, make: impl FnOnce() -> T) -> T {
        let _current = self.attach();
        make()
    }
}

/// The method, if HTTP defines it.
fn known_method(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "_OTHER",
    }
}

/// The part of a path that the request does not choose freely.
fn route(path: &str) -> Option<Cow<'static, str>> {
    if is_page_path(path) {
        return Some("/ui/{path}".into());
    }
    fleetdex_query_api::route::route(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_views_of_the_page_are_one_route() {
        assert_eq!(route("/ui/objects/secret").as_deref(), Some("/ui/{path}"));
        assert_eq!(route("/apis/other.io/v1alpha1/search").as_deref(), None);
    }
}
