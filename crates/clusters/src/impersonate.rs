//! Clients that impersonate a user at a member, for user requests that are forwarded to it.

use fleetdex_core::model::ClusterName;
use kube::Client;

pub use super::credentials::Impersonation;
use super::{
    bearer::Bearer,
    connect::ConnectError,
    member::{ApiServerEndpoint, Member, MemberAccess},
    source::PluginCachePolicy,
    supervisor::Clusters,
};

/// Why no impersonating client can be built.
#[derive(Debug, thiserror::Error)]
pub enum ImpersonateError {
    /// The member does not exist.
    #[error("there is no cluster {cluster}")]
    NotAMember {
        /// Its name.
        cluster: ClusterName,
    },
    /// The user name is blank: the member would answer as if this program itself had asked.
    #[error("cluster {cluster} cannot be asked as a user with a blank name")]
    BlankUser {
        /// Its name.
        cluster: ClusterName,
    },
    /// The `Cluster` names no Secret for impersonation.
    #[error(
        "cluster {cluster} cannot be asked on behalf of a user: name the Secret of an account that may impersonate in spec.impersonatorSecretRef"
    )]
    NoImpersonator {
        /// Its name.
        cluster: ClusterName,
    },
    /// The credentials cannot be used.
    #[error("cluster {cluster} cannot be asked on behalf of a user")]
    Connect {
        /// Its name.
        cluster: ClusterName,
        /// What is wrong.
        source: ConnectError,
    },
}

impl Clusters {
    /// Returns a client that impersonates `user` at a member. It uses the token of the Secret that
    /// `spec.impersonatorSecretRef` of the `Cluster` names, as in Karmada, or the credentials of a
    /// kubeconfig, whose account then needs the right to impersonate. Reading the credentials takes
    /// at most the timeout of a small request; nothing is sent to the member.
    ///
    /// Each client has its own connections and rate limit, and the credentials of the time at which
    /// it was built: build one per request or session, and reuse it there.
    pub async fn client_as(
        &self,
        cluster: &ClusterName,
        user: Impersonation,
    ) -> Result<Client, ImpersonateError> {
        let member = self
            .state(cluster)
            .ok_or_else(|| ImpersonateError::NotAMember {
                cluster: cluster.clone(),
            })?
            .member;
        if user
            .user
            .as_deref()
            .is_some_and(|user| user.trim().is_empty())
        {
            return Err(ImpersonateError::BlankUser {
                cluster: cluster.clone(),
            });
        }
        let access = impersonator_access(&member)?;
        let failed = |source| ImpersonateError::Connect {
            cluster: cluster.clone(),
            source,
        };
        let mut credentials = self
            .load(&access, PluginCachePolicy::Use)
            .await
            .map_err(failed)?;
        credentials.impersonation = effective(credentials.impersonation, user);
        let bearer = Bearer::new(credentials.token());
        self.connector()
            .connect(&member, &credentials, &bearer)
            .await
            .map_err(failed)
    }
}

/// The access to a member with the credentials that may impersonate.
fn impersonator_access(member: &Member) -> Result<MemberAccess, ImpersonateError> {
    let MemberAccess::Endpoint(endpoint) = &member.access else {
        return Ok(member.access.clone());
    };
    match &endpoint.impersonator {
        Some(secret) => Ok(MemberAccess::Endpoint(ApiServerEndpoint {
            secret: Some(secret.clone()),
            ..endpoint.clone()
        })),
        None => Err(ImpersonateError::NoImpersonator {
            cluster: member.name.clone(),
        }),
    }
}

/// A kubeconfig may impersonate by itself, which applies if `requested` names no user.
fn effective(configured: Impersonation, requested: Impersonation) -> Impersonation {
    if requested == Impersonation::default() {
        configured
    } else {
        requested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfigs_impersonation_applies_unless_a_user_is_requested() {
        let user = |name: &str| Impersonation {
            user: Some(name.to_owned()),
            ..Impersonation::default()
        };
        assert_eq!(
            effective(user("viewer"), Impersonation::default()),
            user("viewer")
        );
        assert_eq!(effective(user("viewer"), user("alice")), user("alice"));
    }
}
