//! Who asks.

use std::collections::BTreeMap;

/// The group whose members may everything, in Kubernetes and here.
pub const MASTERS: &str = "system:masters";
/// The name of whoever holds the token of a loopback server.
const LOCAL: &str = "fleetdex:local";

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// User name.
    pub name: String,
    /// What tells users of the same name apart.
    pub uid: Option<String>,
    /// Groups, in the order that they were told in.
    pub groups: Vec<String>,
    /// Whatever else the authenticator says about the user.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Caller {
    /// Whoever holds the token of a loopback server, who may everything.
    pub fn local() -> Self {
        Self {
            name: LOCAL.to_owned(),
            uid: None,
            groups: vec![MASTERS.to_owned()],
            extra: BTreeMap::new(),
        }
    }

    /// Whether this is [`Self::local`]. No other authenticator gives a name that begins with `fleetdex:`.
    pub fn is_local(&self) -> bool {
        self.name == LOCAL
    }

    /// Whether nobody has to be asked what the caller may do.
    pub fn may_everything(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_the_token_may_everything_and_others_of_that_group_are_not_taken_for_it() {
        assert!(Caller::local().is_local() && Caller::local().may_everything());
        let admin = Caller {
            name: "admin".to_owned(),
            ..Caller::local()
        };
        assert!(admin.may_everything() && !admin.is_local());
        let user = Caller {
            groups: vec!["system:authenticated".to_owned()],
            ..admin
        };
        assert!(!user.may_everything());
    }
}
