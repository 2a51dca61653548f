//! Reads the events of a watch.

use std::fmt;

use fleetdex_query_api::answer::TableColumn;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    error::{ClientError, GONE, malformed_response},
    page::{ListItem, ListShape, ObjectPage},
    transport::ApiResponse,
};

/// Maximum length of an event: etcd limits an object to 1.5 MiB, and it grows somewhat as JSON.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// A watch; the server ends it within a minute.
pub struct WatchReader {
    response: ApiResponse,
    path: String,
    shape: ListShape,
    /// What the server warns of.
    pub warnings: Vec<String>,
    buffer: Vec<u8>,
}

/// An event of a watch.
#[derive(Debug)]
pub enum TableEvent {
    /// An object was added, modified or deleted.
    Object {
        /// The object, or its last state.
        item: ListItem,
        /// The columns, of the first event of a Table.
        columns: Vec<TableColumn>,
        /// Its resource version.
        version: Option<String>,
    },
    /// There are no other changes up to this resource version.
    Bookmark(Option<String>),
    /// The resource version has expired.
    Expired,
}

#[derive(Deserialize)]
struct EncodedEvent {
    #[serde(rename = "type")]
    kind: String,
    object: Box<RawValue>,
}

#[derive(Deserialize)]
struct WatchedVersion {
    #[serde(default)]
    metadata: ListMeta,
}

impl WatchReader {
    pub(super) fn new(
        response: ApiResponse,
        path: String,
        shape: ListShape,
        warnings: Vec<String>,
    ) -> Self {
        Self {
            response,
            path,
            shape,
            warnings,
            buffer: Vec::new(),
        }
    }

    /// Returns the next event, or `None` at the end.
    pub async fn next(&mut self) -> Result<Option<TableEvent>, ClientError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.buffer) {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return self.event(&line).map(Some);
            }
            if self.buffer.len() > MAX_EVENT_BYTES {
                let reason = format!("an event of more than {MAX_EVENT_BYTES} bytes");
                return Err(self.malformed(&reason));
            }
            match self.response.next().await? {
                Some(piece) => self.buffer.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }

    fn malformed(&self, reason: &dyn fmt::Display) -> ClientError {
        malformed_response(&self.path, self.response.code.as_u16(), reason)
    }

    fn event(&self, line: &[u8]) -> Result<TableEvent, ClientError> {
        let malformed = |error| self.malformed(&error);
        let EncodedEvent { kind, object } = serde_json::from_slice(line).map_err(malformed)?;
        if kind == "ERROR" {
            let status: Status = serde_json::from_str(object.get()).map_err(malformed)?;
            return if status.code == Some(GONE) {
                Ok(TableEvent::Expired)
            } else {
                Err(ClientError::refused(status))
            };
        }
        let WatchedVersion { metadata } = serde_json::from_str(object.get()).map_err(malformed)?;
        let version = metadata.resource_version;
        if kind == "BOOKMARK" {
            return Ok(TableEvent::Bookmark(version));
        }
        if self.shape == ListShape::Objects {
            return Ok(TableEvent::Object {
                item: ListItem::without_cells(object),
                columns: Vec::new(),
                version,
            });
        }
        let table = ObjectPage::parse(object.get().as_bytes(), ListShape::Table);
        let ObjectPage {
            mut items, columns, ..
        } = table.map_err(malformed)?;
        if items.len() != 1 {
            return Err(self.malformed(&format_args!("an event with {} rows", items.len())));
        }
        Ok(TableEvent::Object {
            item: items.remove(0),
            columns,
            version,
        })
    }
}
