//! The name of the level that has answered, as the index stores it.

use std::{fmt, sync::Arc};

/// The level that has answered, and which of its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnsweringLevel {
    /// The customization of this name; of several, which dependencies may have, the first.
    Customization(Arc<str>),
    /// A health script of Argo CD.
    ArgoCd,
    /// The webhook of this id, which is `<configuration>/<webhook>`.
    Webhook(Arc<str>),
    /// A built-in rule.
    BuiltIn,
}

impl fmt::Display for AnsweringLevel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Customization(name) => write!(out, "customization/{name}"),
            Self::ArgoCd => out.write_str("argocd"),
            Self::Webhook(id) => write!(out, "webhook/{id}"),
            Self::BuiltIn => out.write_str("built-in"),
        }
    }
}
