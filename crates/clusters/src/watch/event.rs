//! Parses list pages and watch lines, and leaves the objects in them as raw JSON.

use fleetdex_core::model::{JsonScanner, ScanFault, Version, json_fault, quoted, status_message};
use serde::{Deserialize, de::Error as _};
use serde_json::value::RawValue;

use super::{FaultKind, StreamFault};

/// Why a list page or watch line cannot be parsed.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Not JSON of the expected form, perhaps truncated.
    #[error("malformed: {}", json_fault(.0))]
    Malformed(#[from] serde_json::Error),
    /// Not UTF-8.
    #[error("malformed: {0}")]
    Encoding(#[from] std::str::Utf8Error),
    /// The resource version is missing or not a number.
    #[error(transparent)]
    Version(#[from] fleetdex_core::model::InvalidVersion),
    /// The page has more objects than the limit, and is not the last one. A server without
    /// pagination sends all objects at once.
    #[error("a page has {objects} objects, more than the limit {limit}, and is not the last one")]
    Overfull {
        /// Number of objects.
        objects: usize,
        /// The requested limit.
        limit: u32,
    },
    /// The page has so many objects that they would take more memory than their bytes.
    #[error("a page has more than {MAX_ITEMS} objects")]
    TooMany,
    /// The event type is not one of Kubernetes'.
    #[error("unknown event type \"{0}\"")]
    UnknownType(String),
    /// The continue token is too long.
    #[error("the continue token has {0} bytes, more than {MAX_TOKEN}")]
    LongToken(usize),
}

/// Longest continue token, in bytes. API servers encode a version and a key in it, some hundred
/// bytes. It is kept between two pages and sent in a URL, of which servers accept at least 8 KiB.
pub const MAX_TOKEN: usize = 8 << 10;

/// One page of a list.
#[derive(Debug)]
pub struct ListPage<'a> {
    /// The version, which all pages of the list share.
    pub version: Version,
    /// Where the next page starts; `None` on the last page.
    pub continue_token: Option<String>,
    /// The objects as raw JSON.
    pub items: Vec<&'a str>,
}

/// Objects per page, at most. Only servers without pagination send more than 500. 500,000 objects
/// of 67 bytes each fill the largest page, and the name and UID of an object alone are longer.
/// Shorter objects are an attempt to use more memory than bytes sent.
const MAX_ITEMS: usize = 500_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: String,
}

impl<'a> ListPage<'a> {
    /// Parses the body of a list response.
    pub fn parse(body: &'a [u8]) -> Result<Self, EventError> {
        let body = std::str::from_utf8(body)?;
        let (mut metadata, mut items) = (None, Vec::new());
        let mut scanner = JsonScanner::new(body);
        let scanned = scanner.object(|scanner, name| {
            match &*name {
                "metadata" => metadata = Some(scanner.skip()?),
                "items" => items = raw_items(scanner)?,
                _ => drop(scanner.skip()?),
            }
            Ok(())
        });
        scanned
            .and_then(|()| scanner.end())
            .map_err(|fault| fault.of(body))?;
        if items.len() > MAX_ITEMS {
            return Err(EventError::TooMany);
        }
        let metadata = metadata.ok_or_else(|| serde_json::Error::missing_field("metadata"))?;
        let metadata: ListMeta = serde_json::from_str(metadata)?;
        let length = metadata.continue_token.len();
        if length > MAX_TOKEN {
            return Err(EventError::LongToken(length));
        }
        Ok(Self {
            version: metadata.resource_version.parse()?,
            continue_token: Some(metadata.continue_token).filter(|token| !token.is_empty()),
            items,
        })
    }

    /// Fails if the page has more objects than `limit` and is not the last one.
    pub fn within(self, limit: Option<u32>) -> Result<Self, EventError> {
        let objects = self.items.len();
        match limit {
            Some(limit) if self.continue_token.is_some() && objects > limit as usize => {
                Err(EventError::Overfull { objects, limit })
            }
            _ => Ok(self),
        }
    }
}

/// The items of a page; none of null. No more are kept than make a page too long.
fn raw_items<'a>(scanner: &mut JsonScanner<'a>) -> Result<Vec<&'a str>, ScanFault> {
    let mut items = Vec::new();
    if scanner.null()? {
        return Ok(items);
    }
    scanner.array(|scanner| {
        let item = scanner.skip()?;
        if items.len() <= MAX_ITEMS {
            items.push(item);
        }
        Ok(())
    })?;
    Ok(items)
}

/// One line of a watch, with the object as raw JSON that has not been parsed.
#[derive(Debug)]
pub enum WatchEvent<'a> {
    /// An object was added, or now matches the selectors.
    Added(&'a str),
    /// An object changed.
    Modified(&'a str),
    /// An object was deleted, or no longer matches; its resource version is that of the deletion.
    Deleted(&'a str),
    /// All changes up to this version have been sent.
    Bookmark(Version),
    /// The watch failed.
    Error(StreamFault),
}

#[derive(Deserialize)]
struct RawWatchEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: String,
}

impl<'a> WatchEvent<'a> {
    /// Parses one line.
    pub fn parse(line: &'a [u8]) -> Result<Self, EventError> {
        let line = std::str::from_utf8(line)?;
        match split(line) {
            Some((kind, object)) => Self::of(kind, object),
            None => {
                let event: RawWatchEvent<'a> = serde_json::from_str(line)?;
                Self::of(&event.kind, event.object.get())
            }
        }
    }

    fn of(kind: &str, object: &'a str) -> Result<Self, EventError> {
        match kind {
            "ADDED" => Ok(Self::Added(object)),
            "MODIFIED" => Ok(Self::Modified(object)),
            "DELETED" => Ok(Self::Deleted(object)),
            "BOOKMARK" => {
                let bookmark: Bookmark = serde_json::from_str(object)?;
                Ok(Self::Bookmark(bookmark.metadata.resource_version.parse()?))
            }
            "ERROR" => Ok(Self::Error(status_fault(object.as_bytes(), None))),
            other => Err(EventError::UnknownType(quoted(other))),
        }
    }
}

/// Splits a line as API servers write it, `{"type":"…","object":{…}}`, into type and object without
/// scanning the object, whose syntax is checked when it is parsed. `None` for any other form, which
/// needs a JSON parser.
fn split(line: &str) -> Option<(&str, &str)> {
    let (kind, rest) = line.strip_prefix("{\"type\":\"")?.split_once('"')?;
    let object = rest
        .strip_prefix(",\"object\":")?
        .trim_end()
        .strip_suffix('}')?;
    object.starts_with('{').then_some((kind, object))
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct RawStatus {
    code: u16,
    reason: String,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    retry_after_seconds: u64,
}

/// Converts a `Status` object, or an HTTP status with any body, to a fault. A 410 is the same in
/// both forms.
pub(super) fn status_fault(body: &[u8], http_status: Option<u16>) -> StreamFault {
    let status: RawStatus = serde_json::from_slice(body).unwrap_or_default();
    let code = http_status.unwrap_or(status.code);
    let message =
        status_message(body).unwrap_or_else(|| "the response has no Kubernetes Status".to_owned());
    let retry_after = status
        .details
        .map_or(0, |details| details.retry_after_seconds);
    let kind = match code {
        410 => FaultKind::Expired,
        401 => FaultKind::Unauthorized,
        403 => FaultKind::Forbidden,
        404 => FaultKind::NotFound,
        405 => FaultKind::NotAllowed,
        429 => FaultKind::Throttled {
            retry_after_seconds: retry_after,
        },
        _ if status.reason == "Expired" || status.reason == "Gone" => FaultKind::Expired,
        400 | 422 => FaultKind::Invalid,
        _ => FaultKind::Server,
    };
    StreamFault {
        kind,
        message: format!("HTTP {code}: {message}"),
    }
}

#[cfg(test)]
mod tests;
