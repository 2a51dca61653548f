//! Names of resources.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::model::{Resource, qualified};

/// A resource as clients name it, without a version: a store holds each object once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ResourceName {
    /// API group; empty for the core group.
    pub group: Arc<str>,
    /// Plural, as in URLs.
    pub plural: Arc<str>,
}

impl ResourceName {
    /// A resource from its group and plural.
    pub fn new(group: &str, plural: &str) -> Self {
        Self {
            group: group.into(),
            plural: plural.into(),
        }
    }
}

/// As users and API servers write it: `pods`, `deployments.apps`.
impl fmt::Display for ResourceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&qualified(&self.plural, &self.group))
    }
}

impl From<&Resource> for ResourceName {
    fn from(resource: &Resource) -> Self {
        Self {
            group: Arc::clone(&resource.gvk.group),
            plural: Arc::clone(&resource.plural),
        }
    }
}
