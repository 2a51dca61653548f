//! What of the requested objects a caller is permitted to see.

use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::{Grant, Permitted},
};

/// What of the requested objects the response can show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permission {
    /// Restricts the query.
    pub permitted: Permitted,
    /// What the caller should know about the restriction.
    pub warnings: Vec<String>,
}

impl Permission {
    pub(super) fn of(
        clusters: Option<Vec<ClusterName>>,
        namespaces: Option<Vec<Namespace>>,
    ) -> Self {
        let permitted = match (clusters, namespaces) {
            (None, None) => Permitted::Everything,
            (clusters, namespaces) => Permitted::Only(vec![Grant {
                clusters,
                namespaces,
            }]),
        };
        Self {
            permitted,
            warnings: Vec::new(),
        }
    }
}
