//! Names of clusters, namespaces and stores: cheap to clone, never empty.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};

/// A name was empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {0} name must not be empty")]
pub struct InvalidName(&'static str);

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidName;

            fn from_str(text: &str) -> Result<Self, InvalidName> {
                if text.is_empty() {
                    return Err(InvalidName($word));
                }
                Ok(Self(text.into()))
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidName;

            fn try_from(text: String) -> Result<Self, InvalidName> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{:?}", self.0)
            }
        }
    };
}

name_type!(
    /// A member cluster, as its source names it (`member1`, or `<namespace>/<name>` for Cluster
    /// API).
    ClusterName,
    "cluster"
);
name_type!(
    /// A Kubernetes namespace.
    Namespace,
    "namespace"
);
name_type!(
    /// One backend store: registries that write to the same addresses under the same prefix share
    /// it.
    StoreName,
    "store"
);

impl StoreName {
    /// The store in this process. Stores in OpenSearch are named by their prefix and a hash of
    /// their addresses.
    pub fn embedded() -> Self {
        Self("embedded".into())
    }
}
