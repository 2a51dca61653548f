//! The path and the query by which a question is asked: the inverse of [`parse`](super::parse).

use std::fmt::Display;

use super::{ChangesRequest, ResourcePath, VerifyRequest};
use crate::{
    group::{GROUPS, VERSION},
    percent::encode,
};

mod questions;

/// A URI while it is written.
pub(super) struct UriWriter {
    pub(super) text: String,
    separator: char,
}

impl UriWriter {
    /// Begins with `/`, and these segments.
    pub(super) fn of(segments: &[&str]) -> Self {
        let mut uri = Self {
            text: String::new(),
            separator: '?',
        };
        for segment in segments {
            uri.segment(segment);
        }
        uri
    }

    /// Begins below the group.
    pub(super) fn below_group(segments: &[&str]) -> Self {
        Self::of(&[&["apis", GROUPS[0], VERSION][..], segments].concat())
    }

    pub(super) fn segment(&mut self, segment: &str) {
        self.text.push('/');
        self.text.push_str(&encode(segment));
    }

    pub(super) fn resource(&mut self, resource: &ResourcePath) {
        if resource.group.is_empty() {
            self.segment("api");
        } else {
            self.segment("apis");
            self.segment(&resource.group);
        }
        self.segment(&resource.version);
        if let Some(namespace) = &resource.namespace {
            self.segment("namespaces");
            self.segment(namespace.as_str());
        }
        self.segment(&resource.plural);
        if let Some(name) = &resource.name {
            self.segment(name);
        }
    }

    pub(super) fn parameter(&mut self, key: &str, value: impl Display) {
        self.text.push(self.separator);
        self.separator = '&';
        self.text.push_str(&encode(key));
        self.text.push('=');
        self.text.push_str(&encode(&value.to_string()));
    }

    pub(super) fn optional(&mut self, key: &str, value: Option<impl Display>) {
        if let Some(value) = value {
            self.parameter(key, value);
        }
    }

    pub(super) fn flag(&mut self, key: &str, is_set: bool) {
        if is_set {
            self.parameter(key, true);
        }
    }

    /// A list separated by commas; an empty one is no parameter.
    pub(super) fn words<T: Display>(&mut self, key: &str, words: impl IntoIterator<Item = T>) {
        let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
        if !words.is_empty() {
            self.parameter(key, words.join(","));
        }
    }
}

impl ChangesRequest {
    /// The path and the query by which it is asked.
    pub fn to_uri(&self) -> String {
        let Self {
            resource,
            store,
            watch,
            since,
        } = self;
        let mut uri = UriWriter::below_group(&["changes"]);
        uri.resource(resource);
        uri.parameter("store", store);
        uri.flag("watch", *watch);
        uri.optional("resourceVersion", *since);
        uri.text
    }
}

impl VerifyRequest {
    /// The path and the query by which it is asked.
    pub fn to_uri(&self) -> String {
        let path: &[&str] = if self.is_of_replica {
            &["changes", "verify"]
        } else {
            &["verify"]
        };
        let mut uri = UriWriter::below_group(path);
        uri.words("clusters", &self.clusters);
        uri.text
    }
}
