//! A parsed request.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Map, Value};

use super::response::Exception;

/// A parsed request.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub method: Method,
    /// The path as sent.
    pub path: String,
    /// The percent-decoded segments of the path.
    pub segments: Vec<String>,
    pub parameters: Parameters,
    pub body: Bytes,
}

/// The parameters of the query string.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameters(BTreeMap<String, String>);

/// The kind of a request; faults select requests by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// `_bulk`
    Bulk,
    /// `_search` and `_count`, also of a point in time
    Search,
    /// Opening and closing points in time
    PointInTime,
    /// Everything else that changes something
    Admin,
    /// Everything else
    Read,
}

/// Parameters that every request accepts.
const COMMON: [&str; 4] = ["filter_path", "pretty", "human", "error_trace"];

impl Call {
    /// Parses a request.
    pub fn new(request: &Request<Bytes>) -> Self {
        let path = request.uri().path();
        let segments = path
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(decode)
            .collect();
        let mut parameters = BTreeMap::new();
        for pair in request
            .uri()
            .query()
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            parameters.insert(decode(name), decode(&value.replace('+', " ")));
        }
        Self {
            method: request.method().clone(),
            path: path.to_owned(),
            segments,
            parameters: Parameters(parameters),
            body: request.body().clone(),
        }
    }

    /// Returns the kind of the request.
    pub fn work(&self) -> Work {
        let has = |name: &str| self.segments.iter().any(|segment| segment == name);
        if has("_bulk") {
            Work::Bulk
        } else if has("point_in_time") {
            Work::PointInTime
        } else if has("_search") || has("_count") {
            Work::Search
        } else if has("_mget") || self.method == Method::GET || self.method == Method::HEAD {
            Work::Read
        } else {
            Work::Admin
        }
    }

    /// Rejects other parameters than these.
    pub fn allow(&self, allowed: &[&str]) -> Result<(), Exception> {
        let is_known = |name: &str| COMMON.contains(&name) || allowed.contains(&name);
        match self.parameters.0.keys().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(name) => Err(Exception::illegal_argument(format!(
                "request [{}] contains unrecognized parameter: [{name}]",
                self.path
            ))),
        }
    }

    /// Returns the members of the body.
    pub fn members(&self) -> Result<Map<String, Value>, Exception> {
        if self.body.is_empty() {
            return Err(Exception::new(
                400,
                "parse_exception",
                "request body is required",
            ));
        }
        match serde_json::from_slice(&self.body) {
            Ok(Value::Object(members)) => Ok(members),
            Ok(_) => Err(Exception::new(
                400,
                "parse_exception",
                "Failed to parse content to map",
            )),
            Err(error) => Err(Exception::syntax(&error)),
        }
    }

    /// Returns the members of a body whose content type OpenSearch detects first; none without a
    /// body.
    pub fn members_as_map(&self) -> Result<Map<String, Value>, Exception> {
        let is_object = self.body.first().is_none_or(|first| *first == b'{');
        if !is_object {
            return Err(Exception::no_content());
        }
        let unreadable = |cause: Exception| {
            Exception::new(400, "parse_exception", "Failed to parse content to map")
                .caused_by(&cause)
        };
        self.optional_members().map_err(unreadable)
    }

    /// Returns the members of the body; none without a body.
    pub fn optional_members(&self) -> Result<Map<String, Value>, Exception> {
        if self.body.is_empty() {
            Ok(Map::new())
        } else {
            self.members()
        }
    }
}

impl Parameters {
    /// Returns the value of a parameter.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Returns a boolean parameter; one without a value is `true`.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool, Exception> {
        match self.get(name) {
            None => Ok(default),
            Some("true" | "") => Ok(true),
            Some("false") => Ok(false),
            Some(other) => {
                let cause = format!(
                    "Failed to parse value [{other}] as only [true] or [false] are allowed."
                );
                Err(
                    Exception::illegal_argument(format!("Could not convert [{name}] to boolean"))
                        .caused_by(&Exception::illegal_argument(cause)),
                )
            }
        }
    }
}

/// Decodes percent-encoded text.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let escaped = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match (
            first,
            escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()),
        ) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_parsed() {
        let request =
            Request::get("/fleetdex.state/_doc/team%2Fprod?filter_path=_source,found&pretty")
                .body(Bytes::new())
                .unwrap();
        let call = Call::new(&request);
        assert_eq!(call.segments, ["fleetdex.state", "_doc", "team/prod"]);
        assert_eq!(call.parameters.get("filter_path"), Some("_source,found"));
        assert!(call.parameters.flag("pretty", false).unwrap());
        assert_eq!(call.work(), Work::Read);
        assert!(call.allow(&[]).is_ok());
    }

    #[test]
    fn unknown_parameters_are_refused() {
        let request = Request::post("/i/_search?ignore_unavialable=true")
            .body(Bytes::new())
            .unwrap();
        let exception = Call::new(&request)
            .allow(&["ignore_unavailable"])
            .unwrap_err();
        assert!(
            exception.error()["reason"]
                .as_str()
                .unwrap()
                .contains("unrecognized parameter: [ignore_unavialable]")
        );
    }
}
