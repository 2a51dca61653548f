//! Clients that ask a member as somebody else, for requests of users that are handed on to it.

use fleetdex_core::model::ClusterName;
use kube::Client;

pub use super::credentials::Impersonation;
use super::{
    bearer::Bearer,
    connect::ConnectError,
    member::{Access, Endpoint, Member},
    source::Asking,
    supervisor::Clusters,
};

/// No client could be made.
#[derive(Debug, thiserror::Error)]
pub enum ImpersonateError {
    /// No such member.
    #[error("there is no cluster {cluster}")]
    NotAMember {
        /// Its name.
        cluster: ClusterName,
    },
    /// A user without a name, as whom the member would answer this program itself.
    #[error("cluster {cluster} cannot be asked as a user with a blank name")]
    BlankUser {
        /// Its name.
        cluster: ClusterName,
    },
    /// A `Cluster` without a Secret for it.
    #[error(
        "cluster {cluster} cannot be asked as somebody else: name the Secret of an account that may impersonate in spec.impersonatorSecretRef"
    )]
    NoImpersonator {
        /// Its name.
        cluster: ClusterName,
    },
    /// The credentials, or what is made from them, are wrong.
    #[error("cluster {cluster} cannot be asked as somebody else")]
    Connect {
        /// Its name.
        cluster: ClusterName,
        /// What is wrong.
        source: ConnectError,
    },
}

impl Clusters {
    /// A client that asks a member as `who`: with the token of the Secret that `spec.impersonatorSecretRef` of its `Cluster` names, as in
    /// Karmada, or with a kubeconfig's own credentials, whose account then needs the right to impersonate. Reading the credentials takes at
    /// most the time of a small request; nothing is sent to the member yet.
    ///
    /// Each client has connections and a limit on requests of its own, and the credentials of the time at which it was made: make one for
    /// a request or a session, and no others for each.
    pub async fn client_as(
        &self,
        cluster: &ClusterName,
        who: Impersonation,
    ) -> Result<Client, ImpersonateError> {
        let member = self
            .state(cluster)
            .ok_or_else(|| ImpersonateError::NotAMember {
                cluster: cluster.clone(),
            })?
            .member;
        if who
            .user
            .as_deref()
            .is_some_and(|user| user.trim().is_empty())
        {
            return Err(ImpersonateError::BlankUser {
                cluster: cluster.clone(),
            });
        }
        let access = impersonating(&member)?;
        let failed = |source| ImpersonateError::Connect {
            cluster: cluster.clone(),
            source,
        };
        let mut credentials = self.load(&access, Asking::Again).await.map_err(failed)?;
        credentials.impersonation = as_whom(credentials.impersonation, who);
        let bearer = Bearer::new(credentials.token());
        self.connector()
            .connect(&member, &credentials, &bearer)
            .await
            .map_err(failed)
    }
}

/// How the member is reached to ask as somebody else.
fn impersonating(member: &Member) -> Result<Access, ImpersonateError> {
    let Access::Endpoint(endpoint) = &member.access else {
        return Ok(member.access.clone());
    };
    match &endpoint.impersonator {
        Some(secret) => Ok(Access::Endpoint(Endpoint {
            secret: Some(secret.clone()),
            ..endpoint.clone()
        })),
        None => Err(ImpersonateError::NoImpersonator {
            cluster: member.name.clone(),
        }),
    }
}

/// A kubeconfig may impersonate by itself; who asks as nobody else keeps to that.
fn as_whom(configured: Impersonation, who: Impersonation) -> Impersonation {
    if who == Impersonation::default() {
        configured
    } else {
        who
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_impersonation_of_a_kubeconfig_stays_unless_somebody_else_is_named() {
        let user = |name: &str| Impersonation {
            user: Some(name.to_owned()),
            ..Impersonation::default()
        };
        assert_eq!(
            as_whom(user("viewer"), Impersonation::default()),
            user("viewer")
        );
        assert_eq!(as_whom(user("viewer"), user("alice")), user("alice"));
    }
}
