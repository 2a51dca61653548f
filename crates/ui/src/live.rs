//! Events for a view that is open: that something in it has changed.
//!
//! A watch of the query API becomes server-sent events with nothing but a version: the view loads
//! itself again, not older than that version, so that it shows what the server renders, as the
//! caller may see it by then. `begin` comes once, when the watch has begun: the page opens the
//! events again after an interruption, and loads what it missed.

use axum::{body::Body, response::Response};
use bytes::Bytes;
use fleetdex_query_api::group::BASE;
use futures::{StreamExt as _, stream};
use http::StatusCode;
use serde::Deserialize;

use crate::{
    query::{Accept, QueryApi, message},
    response::{secured, text_response},
};

/// Bytes of a line of the watch that are kept until its end. Of a Table they have all that matters:
/// the type of the event, and its version in the metadata before the rows.
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
    /// Whether an event has been read.
    has_begun: bool,
}

impl WatchHeads {
    /// The events of the lines that end in these bytes.
    fn read(&mut self, bytes: &[u8]) -> String {
        let mut events = String::new();
        for byte in bytes {
            match byte {
                b'\n' => {
                    events.push_str(&self.event());
                    self.head.clear();
                }
                _ if self.head.len() < MAX_HEAD => self.head.push(*byte),
                _ => {}
            }
        }
        events
    }

    /// The event for the line whose start has been read.
    ///
    /// A watch begins with a bookmark, or with the object that exists: the page has that already.
    fn event(&mut self) -> String {
        let head = String::from_utf8_lossy(&self.head);
        let Some(kind) = kind(&head) else {
            return String::new();
        };
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        let name = match (&*kind, is_first) {
            ("ADDED" | "BOOKMARK", true) => "begin",
            ("ADDED" | "MODIFIED" | "DELETED", _) => "change",
            ("ERROR", _) => "expired",
            // A comment keeps the connection open through proxies.
            ("BOOKMARK", false) => return ":\n\n".to_owned(),
            _ => return String::new(),
        };
        format!("event: {name}\ndata: {}\n\n", version(&head))
    }
}

/// The type of the event that a line begins with.
fn kind(head: &str) -> Option<String> {
    // `{"type":"ADDED","object":…`: the type is the first member.
    let (first, _) = head.split_once(',')?;
    let parsed: WatchEventHead = serde_json::from_str(&format!("{first}}}")).ok()?;
    Some(parsed.r#type)
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
    let watch = api.forward(&format!("{BASE}{path}"), Accept::Table).await;
    let (parts, body) = watch.into_parts();
    if !parts.status.is_success() {
        return refused(parts.status, body).await;
    }
    let mut lines = WatchHeads::default();
    let chunks = body.into_data_stream();
    let events = chunks.map(move |bytes| bytes.map(|bytes| Bytes::from(lines.read(&bytes))));
    let start = stream::once(async { Ok(Bytes::from_static(RETRY.as_bytes())) });
    let body = Body::from_stream(start.chain(events));
    let mut response = text_response(StatusCode::OK, "text/event-stream", body);
    // Deadlines of the watch apply to its events.
    *response.extensions_mut() = parts.extensions;
    response
}

/// Browsers do not open events again that were refused with a status.
async fn refused(status: StatusCode, body: Body) -> Response {
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

    const BEGIN: &str = "event: begin\ndata: 7-ab\n\n";
    const CHANGE: &str = "event: change\ndata: 7-ab\n\n";
    const EXPIRED: &str = "event: expired\ndata: 7-ab\n\n";

    /// The start of a line, whose object goes on.
    fn start(kind: &str) -> String {
        format!(
            r#"{{"type":"{kind}","object":{{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"7-ab"}}"#
        )
    }

    fn line(kind: &str) -> String {
        format!("{}}}}}\n", start(kind))
    }

    #[test]
    fn lines_become_events_however_they_are_cut() {
        let added = format!(
            "{},\"rows\":[\"{}\"]}}}}\n",
            start("ADDED"),
            "x".repeat(10_000)
        );
        let watch = format!("{}{added}{}no json\n", line("BOOKMARK"), line("ERROR"));
        let whole = WatchHeads::default().read(watch.as_bytes());
        assert_eq!(whole, format!("{BEGIN}{CHANGE}{EXPIRED}"));
        let mut lines = WatchHeads::default();
        let cut: String = watch
            .as_bytes()
            .chunks(7)
            .map(|bytes| lines.read(bytes))
            .collect();
        assert_eq!(cut, whole);
    }

    #[test]
    fn a_watch_begins_once_with_a_bookmark_or_the_object() {
        let cases = [
            (
                ["BOOKMARK", "MODIFIED", "BOOKMARK"],
                [BEGIN, CHANGE, ":\n\n"],
            ),
            (["ADDED", "BOOKMARK", "DELETED"], [BEGIN, ":\n\n", CHANGE]),
            (["DELETED", "ADDED", "ERROR"], [CHANGE, CHANGE, EXPIRED]),
        ];
        for (kinds, expected) in cases {
            let mut lines = WatchHeads::default();
            let events = kinds.map(|kind| lines.read(line(kind).as_bytes()));
            assert_eq!(events, expected, "{kinds:?}");
        }
    }
}
