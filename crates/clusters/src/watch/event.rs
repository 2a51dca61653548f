//! The bytes of list pages and watch lines, parsed no further than needed.

use std::fmt;

use fleetdex_core::model::{Version, json_fault, quoted, status_message};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, SeqAccess, Visitor},
};
use serde_json::value::RawValue;

use super::{Fault, FaultKind};

/// A list page or watch line that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// Not JSON of the expected shape, perhaps cut off.
    #[error("malformed: {}", json_fault(.0))]
    Malformed(#[from] serde_json::Error),
    /// Not UTF-8.
    #[error("malformed: {0}")]
    Encoding(#[from] std::str::Utf8Error),
    /// No usable resource version.
    #[error(transparent)]
    Version(#[from] fleetdex_core::model::InvalidVersion),
    /// More objects than were asked for, and more to come: a server that knows no pages sends all of them at once.
    #[error("a page has {objects} objects where {limit} were asked for, and is not the last one")]
    Overfull {
        /// What it has.
        objects: usize,
        /// What was asked for.
        limit: u32,
    },
    /// An event type that Kubernetes does not document.
    #[error("unknown event type \"{0}\"")]
    UnknownType(String),
    /// The token for the next page is longer than tokens are.
    #[error("the continue token has {0} bytes, more than {MAX_TOKEN}")]
    LongToken(usize),
}

/// API servers encode a version and a key in it: some hundred bytes. It is kept between two pages, and sent in a path, of which servers take 8 KiB at least.
pub const MAX_TOKEN: usize = 8 << 10;

/// One page of a list.
#[derive(Debug)]
pub struct ListPage<'a> {
    /// The revision that all pages of this list show.
    pub version: Version,
    /// Where the next page starts.
    pub continue_token: Option<String>,
    /// The objects as they came.
    pub items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawList<'a> {
    metadata: ListMeta,
    #[serde(borrow, default)]
    items: Option<Items<'a>>,
}

/// More than 500 objects come only from servers that know no pages, and 500,000 of them fill the largest page with 67 bytes each, which is less than
/// an object's identity. What is shorter is made to take more memory than it has bytes.
const MAX_ITEMS: usize = 500_000;

struct Items<'a>(Vec<&'a RawValue>);

impl<'de: 'a, 'a> Deserialize<'de> for Items<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ItemsVisitor;

        impl<'de> Visitor<'de> for ItemsVisitor {
            type Value = Items<'de>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("objects")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Items<'de>, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = sequence.next_element()? {
                    if items.len() == MAX_ITEMS {
                        return Err(A::Error::custom(format_args!(
                            "a page has more than {MAX_ITEMS} objects"
                        )));
                    }
                    items.push(item);
                }
                Ok(Items(items))
            }
        }

        deserializer.deserialize_seq(ItemsVisitor)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMeta {
    resource_version: String,
    #[serde(default, rename = "continue")]
    continue_token: String,
}

impl<'a> ListPage<'a> {
    /// Reads the body of a list response.
    pub fn parse(body: &'a [u8]) -> Result<Self, EventError> {
        let list: RawList<'a> = serde_json::from_slice(body)?;
        let length = list.metadata.continue_token.len();
        if length > MAX_TOKEN {
            return Err(EventError::LongToken(length));
        }
        Ok(Self {
            version: list.metadata.resource_version.parse()?,
            continue_token: Some(list.metadata.continue_token).filter(|token| !token.is_empty()),
            items: list.items.map(|items| items.0).unwrap_or_default(),
        })
    }

    /// The page, unless it has more objects than were asked for and is not the last one.
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

/// One line of a watch; objects are JSON text that has not been looked into yet.
#[derive(Debug)]
pub enum WatchEvent<'a> {
    /// An object was added, or began to match the selectors.
    Added(&'a str),
    /// An object changed.
    Modified(&'a str),
    /// An object was deleted, or stopped matching; its resource version is that of the deletion.
    Deleted(&'a str),
    /// Everything up to this version has been sent.
    Bookmark(Version),
    /// The stream cannot go on.
    Error(Fault),
}

#[derive(Deserialize)]
struct RawEvent<'a> {
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
    /// Reads one line.
    pub fn parse(line: &'a [u8]) -> Result<Self, EventError> {
        let line = std::str::from_utf8(line)?;
        match split(line) {
            Some((kind, object)) => Self::of(kind, object),
            None => {
                let event: RawEvent<'a> = serde_json::from_str(line)?;
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

/// Type and object of a line as apiservers write it, `{"type":"…","object":{…}}`, without a look at every byte of the object: whether
/// that is JSON shows when it is parsed. Anything else takes the long way.
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
struct Status {
    code: u16,
    reason: String,
    details: Option<Details>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    retry_after_seconds: u64,
}

/// What a `Status` object, or an HTTP status with any body, means. Both ways of saying 410 are the same here.
pub(super) fn status_fault(body: &[u8], http_status: Option<u16>) -> Fault {
    let status: Status = serde_json::from_slice(body).unwrap_or_default();
    let code = http_status.unwrap_or(status.code);
    let message =
        status_message(body).unwrap_or_else(|| "no Status of Kubernetes says why".to_owned());
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
    Fault {
        kind,
        message: format!("HTTP {code}: {message}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_gives_its_items_untouched() {
        let body = br#"{"kind":"PodList","metadata":{"resourceVersion":"9","continue":"abc"},"items":[{"a": 1},{}]}"#;
        let page = ListPage::parse(body).unwrap();
        assert_eq!(page.version.get(), 9);
        assert_eq!(page.continue_token.as_deref(), Some("abc"));
        assert_eq!(page.items[0].get(), r#"{"a": 1}"#);
        assert!(
            ListPage::parse(br#"{"metadata":{"resourceVersion":"9"},"items":null}"#)
                .unwrap()
                .items
                .is_empty()
        );
        assert!(ListPage::parse(br#"{"metadata":{"resourceVersion":"9"},"items":[{"#).is_err());
    }

    #[test]
    fn more_than_was_asked_for_comes_only_from_servers_that_know_no_pages() {
        let page = |next: &str| {
            format!(
                r#"{{"metadata":{{"resourceVersion":"9","continue":"{next}"}},"items":[{{}},{{}},{{}}]}}"#
            )
        };
        let within = |next: &str, limit| {
            ListPage::parse(page(next).as_bytes())
                .and_then(|page| page.within(limit))
                .is_ok()
        };
        assert!(within("", Some(2)) && within("x", Some(3)) && within("x", None));
        assert!(!within("x", Some(2)));
    }

    #[test]
    fn a_members_words_come_short_and_on_one_line_into_faults() {
        let long = format!("\\n\\u001b{}", "A".repeat(1 << 20));
        let object = format!(r#"{{"metadata":{{"resourceVersion":"{long}"}}}}"#);
        let of_list = |list: String| ListPage::parse(list.as_bytes()).unwrap_err().to_string();
        let of_watch = |line: String| WatchEvent::parse(line.as_bytes()).unwrap_err().to_string();
        for fault in [
            of_list(object.clone()),
            of_list(format!(r#"{{"metadata":"{long}"}}"#)),
            of_list(format!(
                r#"{{"metadata":{{"resourceVersion":"1"}},"items":"{long}"}}"#
            )),
            of_watch(format!(r#"{{"type":"BOOKMARK","object":{object}}}"#)),
            of_watch(format!(r#"{{"type":"{long}","object":{{}}}}"#)),
            of_watch(format!(r#""{long}""#)),
        ] {
            assert!(
                fault.len() < 1_000 && !fault.contains(['\n', '\u{1b}']),
                "{fault}"
            );
        }
    }

    #[test]
    fn a_continue_token_has_a_limit() {
        let page = |length: usize| {
            format!(
                r#"{{"metadata":{{"resourceVersion":"1","continue":"{}"}},"items":[]}}"#,
                "A".repeat(length)
            )
        };
        assert!(ListPage::parse(page(MAX_TOKEN).as_bytes()).is_ok());
        assert!(matches!(
            ListPage::parse(page(MAX_TOKEN + 1).as_bytes()),
            Err(EventError::LongToken(_))
        ));
    }

    #[test]
    fn an_expired_version_is_recognised_in_the_stream_and_as_a_status() {
        let status = r#"{"kind":"Status","code":410,"reason":"Expired","message":"too old"}"#;
        let line = format!(r#"{{"type":"ERROR","object":{status}}}"#);
        let WatchEvent::Error(fault) = WatchEvent::parse(line.as_bytes()).unwrap() else {
            panic!("no error")
        };
        assert_eq!(fault.kind, FaultKind::Expired);
        assert_eq!(
            status_fault(status.as_bytes(), Some(410)).kind,
            FaultKind::Expired
        );
        assert_eq!(status_fault(b"gone", Some(410)).kind, FaultKind::Expired);
    }

    #[test]
    fn events_and_bookmarks_are_told_apart() {
        let object = r#"{"metadata":{"resourceVersion":"12"}}"#;
        let parse = |kind: &str| format!(r#"{{"type":"{kind}","object":{object}}}"#);
        assert!(matches!(
            WatchEvent::parse(parse("ADDED").as_bytes()).unwrap(),
            WatchEvent::Added(_)
        ));
        assert!(matches!(
            WatchEvent::parse(parse("DELETED").as_bytes()).unwrap(),
            WatchEvent::Deleted(_)
        ));
        assert!(
            matches!(WatchEvent::parse(parse("BOOKMARK").as_bytes()).unwrap(), WatchEvent::Bookmark(version) if version.get() == 12)
        );
        assert!(matches!(
            WatchEvent::parse(parse("NEW").as_bytes()),
            Err(EventError::UnknownType(_))
        ));
        let other_order = format!(r#"{{ "object": {object}, "type": "ADDED" }}"#);
        assert!(
            matches!(WatchEvent::parse(other_order.as_bytes()).unwrap(), WatchEvent::Added(text) if text == object)
        );
        assert!(WatchEvent::parse(b"{\"type\":\"ADDED\",\"obj").is_err());
    }
}
