//! Lists: all pages show the revision of the first page.

use std::collections::HashMap;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    name::Name,
    object::{Form, Selectors},
    request::ObjectRequest,
    status::Status,
    store::{Etcd, Live},
};
use crate::json::push_text;

/// The error text of the etcd storage layer for a continued list whose revision was compacted.
const CONTINUE_EXPIRED: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                                list without the continue parameter, or use the continue token in this response to retrieve the \
                                remainder of the results. Continuing with the provided token results in an inconsistent list - objects \
                                that were created, modified, or deleted between the time the first chunk was returned and now may show \
                                up in the list.";
const LIST_EXPIRED: &str = "The resourceVersion for the provided list is too old.";
/// In a continue token: continue at the current revision.
const INCONSISTENT: i64 = -1;

/// A continue token. The start key may have a leading slash; it has one if an API server serves the
/// list from its cache.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ContinueToken {
    v: String,
    #[serde(default)]
    rv: i64,
    #[serde(default)]
    start: String,
}

impl ContinueToken {
    fn new(revision: i64, start: &str) -> Self {
        Self {
            v: "meta.k8s.io/v1".to_owned(),
            rv: revision,
            start: start.to_owned(),
        }
    }

    fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(json!(self).to_string())
    }

    fn decode(text: &str) -> Result<Self, Status> {
        let invalid_token =
            |cause: String| Status::bad_request(format!("continue key is not valid: {cause}"));
        let bytes = URL_SAFE_NO_PAD
            .decode(text)
            .map_err(|error| invalid_token(error.to_string()))?;
        let token: Self =
            serde_json::from_slice(&bytes).map_err(|error| invalid_token(error.to_string()))?;
        if token.v != "meta.k8s.io/v1" || token.rv == 0 || token.start.is_empty() {
            return Err(invalid_token(
                "incorrect version, resourceVersion or start key".to_owned(),
            ));
        }
        Ok(token)
    }
}

/// The request for one page.
#[derive(Debug)]
pub(super) struct Listing {
    resource: Name,
    prefix: String,
    selectors: Selectors,
    form: Form,
    limit: Option<usize>,
    revision: u64,
    /// The key at which the page begins.
    from: String,
    /// Whether it is the second page or a later one.
    pub(super) is_continued: bool,
}

impl Listing {
    /// Parses the request and determines its revision.
    pub(super) fn new(
        object_request: ObjectRequest,
        etcd: &Etcd,
        largest_page: Option<usize>,
    ) -> Result<Self, Status> {
        let parameters = &object_request.parameters;
        if parameters.is_true("sendInitialEvents") {
            return Err(Status::invalid(
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list",
            ));
        }
        let selectors = object_request.selectors()?;
        let limit = parameters
            .number("limit")?
            .filter(|limit| *limit > 0)
            .and_then(|limit| usize::try_from(limit).ok());
        let limit = limit.map(|limit| largest_page.map_or(limit, |largest| largest.min(limit)));
        let prefix = object_request.prefix();
        let token = parameters.text("continue");
        let (revision, from) = if token.is_empty() {
            (first_revision(&object_request, etcd)?, String::new())
        } else {
            if !["", "0"].contains(&parameters.text("resourceVersion")) {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            continued(token, &prefix, etcd)?
        };
        let is_continued = !from.is_empty();
        Ok(Self {
            resource: object_request.resource,
            prefix,
            selectors,
            form: object_request.form,
            limit,
            revision,
            from,
            is_continued,
        })
    }

    /// Returns the error for a continued list whose revision was compacted, with a token for an
    /// inconsistent continuation.
    pub(super) fn expired(&self) -> Status {
        let start = self.from.strip_prefix(&self.prefix).unwrap_or_default();
        Status {
            continue_token: Some(ContinueToken::new(INCONSISTENT, start).encode()),
            ..Status::expired(CONTINUE_EXPIRED)
        }
    }

    /// Collects the objects. Rendering them with [`Page::render`] needs no lock.
    pub(super) fn collect(self, etcd: &Etcd, counts: &mut Counts) -> Result<Page, Status> {
        let table = etcd.table(&self.resource)?;
        let mut items = Vec::with_capacity(self.limit.unwrap_or(0).min(1_000));
        let mut has_more = false;
        for (key, revision, object) in table.scan(&self.prefix, &self.from, self.revision) {
            if self.limit.is_some_and(|limit| items.len() >= limit) {
                has_more = true;
                break;
            }
            if self.selectors.matches(key, object) {
                items.push(Live {
                    key: key.clone(),
                    revision,
                    object: object.clone(),
                });
            }
        }
        let last = items
            .last()
            .map(|item| item.key.clone())
            .filter(|_| has_more);
        let next = last.map(|last| {
            let from = format!("{last}\0");
            let remaining = self
                .selectors
                .is_empty()
                .then(|| counts.remaining(&self, etcd, items.len(), &from));
            let start = format!("/{}", from.strip_prefix(&self.prefix).unwrap_or_default());
            let revision = i64::try_from(self.revision).unwrap_or(i64::MAX);
            Next {
                token: ContinueToken::new(revision, &start).encode(),
                remaining,
            }
        });
        Ok(Page {
            form: self.form,
            revision: self.revision,
            items,
            next,
        })
    }
}

fn first_revision(object_request: &ObjectRequest, etcd: &Etcd) -> Result<u64, Status> {
    let parameters = &object_request.parameters;
    let current = etcd.revision();
    let Some(version) = parameters
        .number("resourceVersion")?
        .filter(|version| *version > 0)
    else {
        return Ok(current);
    };
    if version > current {
        return Err(Status::too_large_version(version, current));
    }
    if parameters.text("resourceVersionMatch") != "Exact" {
        return Ok(current);
    }
    if version < etcd.compacted() {
        Err(Status::expired(LIST_EXPIRED))
    } else {
        Ok(version)
    }
}

fn continued(token: &str, prefix: &str, etcd: &Etcd) -> Result<(u64, String), Status> {
    let token = ContinueToken::decode(token)?;
    let start = token.start.strip_prefix('/').unwrap_or(&token.start);
    let from = format!("{prefix}{start}");
    if token.rv == INCONSISTENT {
        return Ok((etcd.revision(), from));
    }
    let revision = u64::try_from(token.rv).unwrap_or_default();
    if revision > etcd.revision() {
        return Err(Status::too_large_version(revision, etcd.revision()));
    }
    if revision < etcd.compacted() {
        let again = ContinueToken::new(INCONSISTENT, start).encode();
        return Err(Status {
            continue_token: Some(again),
            ..Status::expired(CONTINUE_EXPIRED)
        });
    }
    Ok((revision, from))
}

/// The number of objects after each returned page, so that not every page has to count them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    following: HashMap<(Name, u64, String, String), usize>,
}

/// Bound of the counts: more than there are concurrent lists.
const COUNTS: usize = 4_096;

impl Counts {
    fn remaining(&mut self, listing: &Listing, etcd: &Etcd, given: usize, next: &str) -> usize {
        let key = |from: &str| {
            (
                listing.resource.clone(),
                listing.revision,
                listing.prefix.clone(),
                from.to_owned(),
            )
        };
        let known = self.following.get(&key(&listing.from)).copied();
        let remaining = known
            .unwrap_or_else(|| count(listing, etcd))
            .saturating_sub(given);
        if self.following.len() >= COUNTS {
            self.following.clear();
        }
        self.following.insert(key(next), remaining);
        remaining
    }
}

/// Counts the objects from the start of this page.
fn count(listing: &Listing, etcd: &Etcd) -> usize {
    let Ok(table) = etcd.table(&listing.resource) else {
        return 0;
    };
    let is_everything =
        listing.prefix.is_empty() && listing.from.is_empty() && listing.revision == etcd.revision();
    if is_everything {
        return table.live();
    }
    table
        .scan(&listing.prefix, &listing.from, listing.revision)
        .count()
}

/// Number of objects per chunk of a large page: chunks reuse memory instead of allocating the whole
/// page.
const ITEMS_PER_CHUNK: usize = 32;

/// The objects of one page.
#[derive(Debug)]
pub(super) struct Page {
    form: Form,
    revision: u64,
    items: Vec<Live>,
    next: Option<Next>,
}

#[derive(Debug)]
struct Next {
    token: String,
    /// `None` if selectors make it unknown.
    remaining: Option<usize>,
}

impl Page {
    /// Renders the body in one piece.
    pub(super) fn render(&self) -> String {
        let mut out = self.render_start();
        self.render_items(0, self.items.len(), &mut out);
        out
    }

    /// Whether the page is too large for one piece.
    pub(super) fn is_large(&self) -> bool {
        self.items.len() > ITEMS_PER_CHUNK
    }

    /// Renders the body in chunks, each on demand.
    pub(super) fn into_chunks(self) -> impl Iterator<Item = String> {
        let mut size = 0;
        (0..self.items.len().max(1))
            .step_by(ITEMS_PER_CHUNK)
            .map(move |first| {
                let mut out = if first == 0 {
                    self.render_start()
                } else {
                    String::with_capacity(size + size / 8)
                };
                self.render_items(first, first + ITEMS_PER_CHUNK, &mut out);
                size = out.len();
                out
            })
    }

    fn render_start(&self) -> String {
        let mut out = String::with_capacity(256 + self.items.len().min(ITEMS_PER_CHUNK) * 512);
        self.form.list(&mut out);
        out.push_str("{\"resourceVersion\":");
        push_text(&mut out, &self.revision.to_string());
        if let Some(next) = &self.next {
            out.push_str(",\"continue\":");
            push_text(&mut out, &next.token);
            if let Some(remaining) = next.remaining {
                out.push_str(",\"remainingItemCount\":");
                out.push_str(&remaining.to_string());
            }
        }
        out.push_str("},\"items\":[");
        out
    }

    /// Renders some items, and the end of the list after the last one.
    fn render_items(&self, first: usize, end: usize, out: &mut String) {
        for (index, item) in self.items.iter().enumerate().take(end).skip(first) {
            if index > 0 {
                out.push(',');
            }
            self.form.item(&item.object, item.revision, out);
        }
        if end >= self.items.len() {
            out.push_str("]}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_continue_token_has_the_format_of_kubernetes() {
        let token = ContinueToken::new(12, "web/a\0");
        assert_eq!(
            String::from_utf8(URL_SAFE_NO_PAD.decode(token.encode()).unwrap()).unwrap(),
            r#"{"v":"meta.k8s.io/v1","rv":12,"start":"web/a\u0000"}"#
        );
        assert_eq!(ContinueToken::decode(&token.encode()).unwrap(), token);
        for invalid_token in [
            "",
            "?",
            "e30",
            &ContinueToken::new(0, "a").encode(),
            &ContinueToken::new(5, "").encode(),
        ] {
            assert_eq!(
                ContinueToken::decode(invalid_token).unwrap_err().code,
                400,
                "{invalid_token}"
            );
        }
    }
}
