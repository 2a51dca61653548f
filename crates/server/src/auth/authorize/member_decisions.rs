//! Collects the decisions of all members about one request.

use std::collections::BTreeMap;

use fleetdex_core::{
    model::{ClusterName, Namespace},
    query::{Grant, Permitted},
};

use super::{access_request::AccessRequest, permission::Permission};
use crate::{
    api_error::ApiError,
    auth::{
        caller::Caller,
        reviews::{Decision, ReviewError},
    },
};

/// The decisions of the members about one request.
#[derive(Default)]
pub(super) struct MemberDecisions {
    /// Members that allow it in all namespaces.
    allowed: Vec<ClusterName>,
    /// Members that may allow it in some namespaces.
    pub(super) undecided: Vec<ClusterName>,
    grants: BTreeMap<Vec<Namespace>, Vec<ClusterName>>,
    failed: usize,
    reason: String,
    warnings: Vec<String>,
}

impl MemberDecisions {
    /// Adds a member's decision about all namespaces.
    pub(super) fn add(&mut self, name: &ClusterName, decision: Result<Decision, ReviewError>) {
        match decision {
            Ok(Decision::Allowed) => self.allowed.push(name.clone()),
            Ok(Decision::Denied(reason)) => {
                self.reason = reason;
                self.undecided.push(name.clone());
            }
            Err(error) => self.fail(name, &error.to_string()),
        }
    }

    /// Omits a member whose review failed.
    pub(super) fn fail(&mut self, name: &ClusterName, problem: &str) {
        self.failed += 1;
        self.warnings.push(format!(
            "cluster {name} is left out, because your access to it cannot be reviewed: {problem}"
        ));
    }

    /// Grants the namespaces that a member allows.
    pub(super) fn grant(&mut self, name: ClusterName, namespaces: Vec<Namespace>) {
        if !namespaces.is_empty() {
            self.grants.entry(namespaces).or_default().push(name);
        }
    }

    /// The permission by all members; an error if they deny everything.
    pub(super) fn permission(
        mut self,
        caller: &Caller,
        request: &AccessRequest<'_>,
    ) -> Result<Permission, ApiError> {
        let mut grants = Vec::new();
        if !self.allowed.is_empty() {
            self.allowed.sort_unstable();
            grants.push(Grant {
                clusters: Some(self.allowed),
                namespaces: None,
            });
        }
        for (namespaces, mut clusters) in self.grants {
            clusters.sort_unstable();
            grants.push(Grant {
                clusters: Some(clusters),
                namespaces: Some(namespaces),
            });
        }
        if grants.is_empty() && self.failed == 0 && !request.clusters.is_empty() {
            return Err(request.forbidden(caller, &self.reason));
        }
        self.warnings.sort_unstable();
        Ok(Permission {
            permitted: Permitted::Only(grants),
            warnings: self.warnings,
        })
    }
}
