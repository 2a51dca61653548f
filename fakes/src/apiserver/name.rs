//! Resource names.

use std::{fmt, sync::Arc};

use fleetdex_core::model::Resource;

/// Plural and group of a resource, as `pods` or `deployments.apps`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The plural, as in URLs.
    pub plural: Arc<str>,
    /// The API group; empty for the core group.
    pub group: Arc<str>,
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        let (plural, group) = text.split_once('.').unwrap_or((text, ""));
        Self {
            plural: plural.into(),
            group: group.into(),
        }
    }
}

impl From<&Resource> for Name {
    fn from(resource: &Resource) -> Self {
        Self {
            plural: resource.plural.clone(),
            group: resource.gvk.group.clone(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => out.write_str(&self.plural),
            group => write!(out, "{}.{group}", self.plural),
        }
    }
}
