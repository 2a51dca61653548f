//! What queries compare.

use std::borrow::Cow;

use super::{resource_name::ResourceName, words::WordText};

/// The properties of an object or a document that a [`Query`](super::Query) compares.
pub trait Searchable {
    /// The member that holds it.
    fn cluster(&self) -> &str;
    /// Its group and plural.
    fn resource(&self) -> &ResourceName;
    /// `metadata.namespace`; empty where there is none.
    fn namespace(&self) -> &str;
    /// `metadata.name`
    fn name(&self) -> &str;
    /// `metadata.creationTimestamp`, in milliseconds since 1970.
    fn created(&self) -> Option<i64>;
    /// `metadata.uid`
    fn uid(&self) -> Cow<'_, str>;
    /// UIDs of its owner references.
    fn owners(&self) -> Vec<Cow<'_, str>>;
    /// The objects that it refers to, each `apiVersion/kind/namespace/name`.
    fn dependencies(&self) -> Vec<Cow<'_, str>>;
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
    /// The value of a selectable field other than `metadata.name` and `metadata.namespace`; `None`
    /// if it is absent.
    fn field(&self, path: &str) -> Option<Cow<'_, str>>;
    /// The texts in which words are looked for.
    fn texts(&self) -> Vec<WordText<'_>>;
}
