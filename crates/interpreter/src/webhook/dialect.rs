//! The two dialects of interpreter webhooks: their kinds, fields and names of operations.

use serde_json::Value;

use crate::{Operation, value};

/// Group and version of all configurations and messages.
pub const API_VERSION: &str = "config.karmada.io/v1alpha1";
/// The only version of the messages.
pub const REVIEW_VERSION: &str = "v1alpha1";

/// How a webhook is configured and spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// That of Karmada since v0.10: `ResourceInterpreterWebhookConfiguration` and
    /// `ResourceInterpreterContext`.
    Released,
    /// That of the proposal: `ResourceExploringWebhookConfiguration` and `ExploreReview`.
    Proposal,
}

impl Dialect {
    /// Both dialects.
    pub const ALL: [Self; 2] = [Self::Released, Self::Proposal];

    /// The dialect of a configuration; `None` if the object is no webhook configuration.
    pub fn of_configuration(object: &Value) -> Option<Self> {
        let kind = value::text(object, &["kind"]);
        Self::ALL
            .into_iter()
            .filter(|_| value::text(object, &["apiVersion"]) == API_VERSION)
            .find(|dialect| dialect.configuration_kind() == kind)
    }

    /// The kind of its configurations.
    pub fn configuration_kind(self) -> &'static str {
        match self {
            Self::Released => "ResourceInterpreterWebhookConfiguration",
            Self::Proposal => "ResourceExploringWebhookConfiguration",
        }
    }

    /// The kind of its messages.
    pub fn message_kind(self) -> &'static str {
        match self {
            Self::Released => "ResourceInterpreterContext",
            Self::Proposal => "ExploreReview",
        }
    }

    /// The member of a webhook that lists the versions of messages.
    pub fn versions_member(self) -> &'static str {
        match self {
            Self::Released => "interpreterContextVersions",
            Self::Proposal => "exploreReviewVersions",
        }
    }

    /// The member of a rule that lists what it applies to: kinds, or plural names as admission
    /// webhooks have them.
    pub fn subjects_member(self) -> &'static str {
        match self {
            Self::Released => "kinds",
            Self::Proposal => "resources",
        }
    }

    /// The name of an operation; `None` if webhooks of this dialect are never asked for it. Karmada
    /// declares `Prune` and refuses it in configurations.
    pub fn operation_name(self, operation: Operation) -> Option<&'static str> {
        match (self, operation) {
            (Self::Released, Operation::Prune) => None,
            (Self::Released, _) => Some(operation.name()),
            (Self::Proposal, _) => operation.proposal_name(),
        }
    }

    /// The operation of a name, which must be spelt exactly.
    pub fn operation(self, name: &str) -> Option<Operation> {
        Operation::ALL
            .into_iter()
            .find(|operation| self.operation_name(*operation) == Some(name))
    }

    /// The names of all operations.
    pub fn operation_names(self) -> impl Iterator<Item = &'static str> {
        Operation::ALL
            .into_iter()
            .filter_map(move |operation| self.operation_name(operation))
    }
}
