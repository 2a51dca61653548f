//! The name of the level that has answered, as the index stores it.

use std::{fmt, sync::Arc};

/// The level that has answered, and which of its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnsweringLevel {
    /// The customizations of these names: dependencies may have several scripts, every other
    /// operation has one.
    Customizations(Arc<[Arc<str>]>),
    /// A health script of Argo CD.
    ArgoCd,
    /// The webhook of this id, which is `<configuration>/<webhook>`.
    Webhook(Arc<str>),
    /// A built-in rule.
    BuiltIn,
}

impl AnsweringLevel {
    /// The names of its rules: several if it is customizations.
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::Customizations(names) => names
                .iter()
                .map(|name| format!("customization/{name}"))
                .collect(),
            Self::ArgoCd => vec!["argocd".to_owned()],
            Self::Webhook(id) => vec![format!("webhook/{id}")],
            Self::BuiltIn => vec!["built-in".to_owned()],
        }
    }
}

impl fmt::Display for AnsweringLevel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.names().join(", "))
    }
}
