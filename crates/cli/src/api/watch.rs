//! The events of a watch, as they come.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, Status};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    Item, Page, RawTable, Shape, TableColumn, error::ApiError, garbled, transport::Answer,
};

/// An event that is longer is none: an object has at most 1.5 MiB in etcd, and grows somewhat as JSON.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
/// HTTP status of a version that is gone.
const GONE: i32 = 410;

/// A watch that goes on until the server ends it, which is within a minute.
pub struct Watch {
    answer: Answer,
    path: String,
    shape: Shape,
    unread: Vec<u8>,
}

/// What a watch tells.
#[derive(Debug)]
pub enum Event {
    /// An object came, changed or went.
    Object {
        /// `ADDED`, `MODIFIED` or `DELETED`.
        kind: String,
        /// The object as it is now, or was last.
        item: Item,
        /// The columns, of the first event of a Table.
        columns: Vec<TableColumn>,
        /// Where to go on.
        version: Option<String>,
    },
    /// Nothing happened until this version.
    Bookmark(Option<String>),
    /// The server does not know any more what happened.
    Gone,
}

#[derive(Deserialize)]
struct RawEvent {
    #[serde(rename = "type")]
    kind: String,
    object: Box<RawValue>,
}

#[derive(Deserialize)]
struct Versioned {
    #[serde(default)]
    metadata: ListMeta,
}

impl Watch {
    pub(super) fn new(answer: Answer, path: String, shape: Shape) -> Self {
        Self {
            answer,
            path,
            shape,
            unread: Vec::new(),
        }
    }

    /// The next event; nothing at the end.
    pub async fn next(&mut self) -> Result<Option<Event>, ApiError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.unread) {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return self.event(&line).map(Some);
            }
            if self.unread.len() > MAX_EVENT_BYTES {
                let reason = format!("an event of more than {MAX_EVENT_BYTES} bytes");
                return Err(ApiError::Garbled {
                    path: self.path.clone(),
                    code: self.answer.code.as_u16(),
                    reason,
                });
            }
            match self.answer.next().await? {
                Some(piece) => self.unread.extend_from_slice(&piece),
                None => return Ok(None),
            }
        }
    }

    fn event(&self, line: &[u8]) -> Result<Event, ApiError> {
        let unread = |error| garbled(&self.path, self.answer.code.as_u16(), &error);
        let RawEvent { kind, object } = serde_json::from_slice(line).map_err(unread)?;
        if kind == "ERROR" {
            let status: Status = serde_json::from_str(object.get()).map_err(unread)?;
            return if status.code == Some(GONE) {
                Ok(Event::Gone)
            } else {
                Err(ApiError::refused(status))
            };
        }
        let Versioned { metadata } = serde_json::from_str(object.get()).map_err(unread)?;
        let version = metadata.resource_version;
        if kind == "BOOKMARK" {
            return Ok(Event::Bookmark(version));
        }
        if self.shape == Shape::Objects {
            return Ok(Event::Object {
                kind,
                item: Item {
                    object,
                    cells: Vec::new(),
                },
                columns: Vec::new(),
                version,
            });
        }
        let table: RawTable = serde_json::from_str(object.get()).map_err(unread)?;
        let Page {
            mut items, columns, ..
        } = table.into();
        if items.len() != 1 {
            let reason = format!("an event with {} rows", items.len());
            return Err(ApiError::Garbled {
                path: self.path.clone(),
                code: self.answer.code.as_u16(),
                reason,
            });
        }
        Ok(Event::Object {
            kind,
            item: items.remove(0),
            columns,
            version,
        })
    }
}
