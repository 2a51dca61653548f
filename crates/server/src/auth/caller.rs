//! The authenticated user of a request.

use std::collections::BTreeMap;

/// The group whose members have all rights, in Kubernetes and here.
pub const MASTERS: &str = "system:masters";
/// The user name of the holder of a loopback server's token.
const LOCAL: &str = "fleetdex:local";

/// The authenticated user of a request, like `user.Info` of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User name.
    pub name: String,
    /// Distinguishes users of the same name.
    pub uid: Option<String>,
    /// Groups, in the authenticator's order.
    pub groups: Vec<String>,
    /// Further attributes that the authenticator gives.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    /// The holder of a loopback server's token, who has all rights.
    pub fn local() -> Self {
        Self {
            name: LOCAL.to_owned(),
            uid: None,
            groups: vec![MASTERS.to_owned()],
            extra: BTreeMap::new(),
        }
    }

    /// Whether this is [`Self::local`]. Authenticators refuse this name.
    pub fn is_local(&self) -> bool {
        self.name == LOCAL
    }

    /// Whether the caller is allowed everything without a review.
    pub fn is_superuser(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_holder_is_a_superuser_and_other_superusers_are_not_local() {
        assert!(Caller::local().is_local() && Caller::local().is_superuser());
        let admin = Caller {
            name: "admin".to_owned(),
            ..Caller::local()
        };
        assert!(admin.is_superuser() && !admin.is_local());
        let user = Caller {
            groups: vec!["system:authenticated".to_owned()],
            ..admin
        };
        assert!(!user.is_superuser());
    }
}
