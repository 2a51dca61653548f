//! The lines of a watch that are sent together.

use std::time::Duration;

use bytes::Bytes;
use fleetdex_limits::{intake::MemoryReservation, request::UserRequest};
use fleetdex_store::changes::{Event, EventKind, MAX_EVENT_BYTES};
use tokio::time::timeout;

use crate::{http::limits::no_memory, request::api_error::ApiError};

/// How often the text of an object is in memory while a line is made of it: as it is stored, with its
/// fleet version, as it is shown, and in its line.
const COPIES: usize = 4;
/// Lines that take no more than this while they are made are not counted: when they are sent, they
/// have 64 KiB.
const UNCOUNTED: usize = COPIES * MAX_EVENT_BYTES;
/// How long lines wait for memory; then the watch ends.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Lines of JSON. More than a few are within the memory of the request, which is reserved before
/// they are made and held until they are sent. They do not get the reserve: watches whose clients
/// read nothing must not keep it from lists.
pub(super) struct EventLines {
    bytes: Vec<u8>,
    memory: MemoryReservation,
}

impl EventLines {
    /// No lines.
    pub(super) fn new() -> Self {
        let memory = UserRequest::current().memory().without_reserve();
        Self {
            bytes: Vec::new(),
            memory: memory.reservation(),
        }
    }

    /// Reserves memory for lines of these events.
    pub(super) async fn make_room_for_events(&mut self, events: &[Event]) -> Result<(), ApiError> {
        let bytes = events.iter().map(|event| event.object.json_len()).sum();
        self.make_room(bytes).await
    }

    /// Reserves memory for further lines of objects of `bytes`.
    pub(super) async fn make_room(&mut self, bytes: usize) -> Result<(), ApiError> {
        let needed = self.bytes.len() + COPIES * bytes;
        if needed <= UNCOUNTED {
            return Ok(());
        }
        let reserved = timeout(TIMEOUT, self.memory.grow(needed)).await;
        reserved
            .map_err(|_| ApiError::TooManyRequests)?
            .map_err(|error| no_memory(&error))
    }

    /// Adds the line of an event.
    pub(super) fn add(&mut self, kind: EventKind, object: &[u8]) {
        let name = match kind {
            EventKind::Added => "ADDED",
            EventKind::Modified => "MODIFIED",
            EventKind::Deleted => "DELETED",
        };
        self.add_line(name, object.trim_ascii_end());
    }

    /// Adds the line of a bookmark.
    pub(super) fn add_bookmark(&mut self, object: &[u8]) {
        self.add_line("BOOKMARK", object);
    }

    /// Adds the line of an error.
    pub(super) fn add_error(&mut self, error: &ApiError) {
        let status = serde_json::json!(error.status()).to_string();
        self.add_line("ERROR", status.as_bytes());
    }

    fn add_line(&mut self, kind: &str, object: &[u8]) {
        let head = format!("{{\"type\":\"{kind}\",\"object\":");
        for part in [head.as_bytes(), object, b"}\n"] {
            self.bytes.extend_from_slice(part);
        }
    }

    /// How many bytes they have.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The lines, which hold their memory.
    pub(super) fn into_bytes(mut self) -> Bytes {
        if self.memory.holds_any() {
            self.bytes.shrink_to_fit();
            self.memory.shrink(self.bytes.len());
        }
        self.memory.attach_to(self.bytes)
    }
}
