//! The health of objects, in the words that users know from Argo CD.
//!
//! Order: a pending deletion, the rule of the kind, the generic rule. A caller that asks a script
//! or a webhook first asks [`deletion::assess`] before that, as Argo CD does.

use fleetdex_core::model::{Gvk, JsonTree};
use serde_json::{Value, json};

use crate::value::{Tree, integer, observed_generation};

mod assessment;
pub mod builtin;
pub mod deletion;
pub mod generic;
mod known_status;

pub use assessment::{Assessment, Health, MAX_MESSAGE_BYTES, MAX_REASON_BYTES};
pub use known_status::KnownStatus;

/// The health of a live object by the built-in rules: that of its kind, or the generic one.
pub fn assess(object: Tree<'_>, status: KnownStatus) -> Assessment {
    deletion::assess(object)
        .or_else(|| builtin::assess(object))
        .unwrap_or_else(|| generic::assess(object, status))
}

/// Whether the health of an object of a kind, without a status, depends on what is known of the
/// kind.
pub fn depends_on_known_status(gvk: &Gvk) -> bool {
    let bare = json!({ "apiVersion": gvk.api_version(), "kind": *gvk.kind });
    let health = |status| assess(&(&bare).into(), status);
    health(KnownStatus::NeverWritten) != health(KnownStatus::Written)
}

/// The boolean of Karmada's contract for an object that the built-in rules assessed: that of
/// Karmada's native rule if the kind has one, else whether the word is Healthy or Suspended.
pub fn healthy(object: Tree<'_>, assessment: &Assessment) -> bool {
    builtin::karmada_healthy(object).unwrap_or(matches!(
        assessment.health,
        Health::Healthy | Health::Suspended
    ))
}

/// The assessment for the boolean of a script or webhook. The cause of a `false` is what the
/// built-in rules say of the same object, if they find a problem, too: a pause is none.
pub fn from_boolean(object: &Value, healthy: bool) -> Assessment {
    if let Some(pending) = deletion::assess(object) {
        return pending;
    }
    if healthy {
        return Assessment::plain(Health::Healthy);
    }
    let object = &JsonTree::from(object);
    // An object that lacks one of the two numbers has no such delay.
    let observed = observed_generation(object);
    let is_behind = observed.is_some() && observed < integer(object, &["metadata", "generation"]);
    let health = if is_behind {
        Health::Progressing
    } else {
        Health::Degraded
    };
    let cause = assess(object, KnownStatus::Unknown);
    if matches!(cause.health, Health::Healthy | Health::Suspended) {
        return Assessment::new(health, UNHEALTHY, "");
    }
    let reason = if cause.reason.is_empty() {
        UNHEALTHY
    } else {
        &cause.reason
    };
    Assessment::new(health, reason, &cause.message)
}

const UNHEALTHY: &str = "Unhealthy";

#[cfg(test)]
mod tests;
