//! The lines of a watch that are sent together.

use bytes::Bytes;
use fleetdex_store::changes::{Event, EventKind};

use crate::{api_error::ApiError, read::counted_bytes::CountedBytes};

/// How often the text of an object is in memory while a line is made of it: as it is stored, with
/// its fleet version, as it is shown, and in its line.
const COPIES: usize = 4;

/// Lines of JSON.
pub(super) struct EventLines(CountedBytes);

impl EventLines {
    /// No lines, of existing objects.
    pub(super) fn of_page() -> Self {
        Self(CountedBytes::new())
    }

    /// No lines, of changes. They do not get the reserve: hundreds of watches whose clients read
    /// nothing must not keep it from lists.
    pub(super) fn of_changes() -> Self {
        Self(CountedBytes::without_reserve())
    }

    /// Reserves memory for lines of these events.
    pub(super) async fn make_room_for_events(&mut self, events: &[Event]) -> Result<(), ApiError> {
        let bytes = events.iter().map(|event| event.object.json_len()).sum();
        self.make_room(bytes).await
    }

    /// Reserves memory for further lines of objects of `bytes`.
    pub(super) async fn make_room(&mut self, bytes: usize) -> Result<(), ApiError> {
        self.0.make_room(COPIES * bytes).await
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
        let (bytes, end) = (&mut self.0.bytes, b"}\n");
        let length = head.len() + object.len() + end.len();
        if length > bytes.len() {
            // A large one alone: without room for a second one.
            bytes.reserve_exact(length);
        }
        for part in [head.as_bytes(), object, end] {
            bytes.extend_from_slice(part);
        }
    }

    /// How many bytes they have.
    pub(super) fn len(&self) -> usize {
        self.0.bytes.len()
    }

    /// The lines, which hold their memory.
    pub(super) fn into_bytes(self) -> Bytes {
        self.0.finish()
    }
}
