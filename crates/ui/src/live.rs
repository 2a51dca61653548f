//! Events for a view that is open: that something in it has changed.
//!
//! A watch of the query API becomes server-sent events with nothing but a version: the view loads itself again, not older than that version, so that it
//! shows what the server renders, as the caller may see it by then. `begin` comes when the watch has begun, and again after each interruption, so that no
//! change is missed between two watches.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderValue, header};
use serde::Deserialize;

use crate::{
    query::{Accept, BASE, QueryApi, message},
    response::secured,
};

/// Bytes of a line of the watch that are kept until its end. Of a Table they have all that matters: the type of the event, and its version in the metadata
/// before the rows.
const MAX_HEAD: usize = 256;
/// What precedes the version.
const VERSION: &str = r#""resourceVersion":""#;
/// How long browsers wait before they open the events again.
const RETRY: &str = "retry: 2000\n\n";

/// The type of an event of a watch.
#[derive(Deserialize)]
struct WatchEventHead {
    r#type: String,
}

/// Reads lines, and keeps the start of each.
#[derive(Debug, Default)]
struct WatchHeads {
    head: Vec<u8>,
}

impl WatchHeads {
    /// The events of the lines that end in these bytes.
    fn read(&mut self, bytes: &[u8]) -> String {
        let mut events = String::new();
        for byte in bytes {
            match byte {
                b'\n' => {
                    events.push_str(&event(&self.head));
                    self.head.clear();
                }
                _ if self.head.len() < MAX_HEAD => self.head.push(*byte),
                _ => {}
            }
        }
        events
    }
}

/// The event for a line whose start is given.
fn event(head: &[u8]) -> String {
    // `{"type":"ADDED","object":…`: the type is the first member.
    let text = String::from_utf8_lossy(head);
    let member = text.split_once(',').map(|(first, _)| format!("{first}}}"));
    let parsed: Option<WatchEventHead> =
        member.and_then(|member| serde_json::from_str(&member).ok());
    let name = match parsed.as_ref().map(|event| event.r#type.as_str()) {
        Some("ADDED" | "MODIFIED" | "DELETED") => "change",
        Some("BOOKMARK") => "begin",
        Some("ERROR") => "expired",
        _ => return String::new(),
    };
    format!("event: {name}\ndata: {}\n\n", version(&text))
}

/// The version in the start of a line; empty without one.
fn version(head: &str) -> &str {
    let after = head.split_once(VERSION).map_or("", |(_, after)| after);
    let version = after.split_once('"').map_or("", |(version, _)| version);
    let is_version = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    if version.chars().all(is_version) {
        version
    } else {
        ""
    }
}

/// The events of a watch at `path`, which is below the group and version.
pub(crate) async fn events(api: &dyn QueryApi, path: &str) -> Response {
    let (parts, body) = api
        .get(&format!("{BASE}{path}"), Accept::Table)
        .await
        .into_parts();
    if !parts.status.is_success() {
        return refused(parts.status, body).await;
    }
    let mut lines = WatchHeads::default();
    let events = body
        .into_data_stream()
        .map(move |bytes| bytes.map(|bytes| Bytes::from(lines.read(&bytes))));
    let start = stream::once(async { Ok(Bytes::from_static(RETRY.as_bytes())) });
    let mut response = Response::new(Body::from_stream(start.chain(events)));
    // Deadlines of the watch apply to its events.
    *response.extensions_mut() = parts.extensions;
    let mut response = secured(response);
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/event-stream"),
    );
    response
}

/// Browsers do not open events again that were refused with a status.
async fn refused(status: http::StatusCode, body: Body) -> Response {
    let bytes = axum::body::to_bytes(body, MAX_REFUSAL).await;
    let text = message(&bytes.unwrap_or_default());
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    secured(response)
}

/// Bytes of a refusal that are read.
const MAX_REFUSAL: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_events_however_they_are_cut() {
        let metadata = |version: &str| {
            format!(
                r#""object":{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"{version}"}},"#
            )
        };
        let watch = format!(
            "{{\"type\":\"BOOKMARK\",{}}}}}\n{{\"type\":\"ADDED\",{}\"rows\":[\"{}\"]}}}}\n{{\"type\":\"ERROR\",\"object\":{{}}}}\nno json\n",
            metadata("7-ab"),
            metadata("8-ab"),
            "x".repeat(10_000)
        );
        let whole = WatchHeads::default().read(watch.as_bytes());
        assert_eq!(
            whole,
            "event: begin\ndata: 7-ab\n\nevent: change\ndata: 8-ab\n\nevent: expired\ndata: \n\n"
        );
        let mut lines = WatchHeads::default();
        let cut: String = watch
            .as_bytes()
            .chunks(7)
            .map(|bytes| lines.read(bytes))
            .collect();
        assert_eq!(cut, whole);
    }

    #[test]
    fn what_is_no_version_is_not_passed_on() {
        assert_eq!(version(r#""resourceVersion":"7\nevent: x""#), "");
        assert_eq!(version(r#""resourceVersion":"7"#), "");
    }
}
