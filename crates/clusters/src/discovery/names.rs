//! The names in discovery responses: which are allowed, and one copy of each.

use std::{collections::HashSet, sync::Arc};

/// Memory for the different names, in bytes. 10,000 resources with three names of 30 bytes each
/// take 3 MB.
const MAX_NAMES_BYTES: usize = 8 << 20;
/// Bytes per name besides its text: counters, length, and its entry in the set of names.
const NAME_OVERHEAD: usize = 64;
/// Longest group, in bytes. Groups are DNS subdomains of RFC 1123.
pub(super) const MAX_GROUP: usize = 253;
/// Longest other name, in bytes. Versions, plurals and, apart from capitals, kinds are DNS labels
/// of RFC 1123.
const MAX_NAME: usize = 63;

/// The different names of one member's discovery, each stored once.
#[derive(Debug, Default)]
pub(super) struct NamePool {
    names: HashSet<Arc<str>>,
    bytes: usize,
}

impl NamePool {
    /// Returns the shared copy of a group name; `None` if it is not allowed or there is no memory
    /// left.
    pub(super) fn group(&mut self, group: &str) -> Option<Arc<str>> {
        is_group(group).then(|| self.intern(group))?
    }

    /// Returns the shared copy of any other name; `None` if it is not allowed or there is no memory
    /// left.
    pub(super) fn name(&mut self, name: &str) -> Option<Arc<str>> {
        is_name(name).then(|| self.intern(name))?
    }

    fn intern(&mut self, text: &str) -> Option<Arc<str>> {
        if let Some(known) = self.names.get(text) {
            return Some(Arc::clone(known));
        }
        let bytes = self.bytes + text.len() + NAME_OVERHEAD;
        if bytes > MAX_NAMES_BYTES {
            return None;
        }
        self.bytes = bytes;
        let text: Arc<str> = text.into();
        self.names.insert(Arc::clone(&text));
        Some(text)
    }
}

/// Whether a text is a valid group; the core group is empty.
pub(crate) fn is_group(text: &str) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    text.len() <= MAX_GROUP && text.bytes().all(is_allowed)
}

/// Whether a text is a valid version, kind, resource, subresource, verb or category. Aggregated
/// APIs are not validated like custom resources: those of metrics have names with more than
/// letters, digits and `-`. Characters with a meaning in a path, a label or a terminal are not
/// allowed.
pub(crate) fn is_name(text: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'|');
    (1..=MAX_NAME).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !matches!(text, "." | "..")
}
