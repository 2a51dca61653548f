//! What a reference to a needed object has to fulfil, whether a script or a webhook made it.
//!
//! Source: `pkg/util/interpreter/validation` of Karmada.

use fleetdex_core::{model::quoted, selector::LabelSelector};
use serde_json::Value;

use crate::request::DependentObject;

/// Why no object can be found by a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependencyFault {
    /// The member of the reference; empty if it is the whole.
    pub member: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// The first fault of a reference: it needs a version, a kind, and a name or a label selector that
/// works.
pub fn fault(dependency: &DependentObject) -> Option<DependencyFault> {
    let needed = [
        ("apiVersion", &dependency.api_version),
        ("kind", &dependency.kind),
    ];
    if let Some((member, _)) = needed.into_iter().find(|(_, text)| text.is_empty()) {
        return Some(of(member, "is absent or empty"));
    }
    match &dependency.label_selector {
        None if dependency.name.is_empty() => Some(of(
            "",
            "has neither a name nor a labelSelector: it needs one of them",
        )),
        None => None,
        Some(selector) => selector_problem(selector).map(|problem| of("labelSelector", problem)),
    }
}

fn of(member: &'static str, problem: impl Into<String>) -> DependencyFault {
    DependencyFault {
        member,
        problem: problem.into(),
    }
}

fn selector_problem(selector: &Value) -> Option<String> {
    let Ok(parsed) = serde_json::from_value(selector.clone()) else {
        return Some("is not a LabelSelector".to_owned());
    };
    let error = LabelSelector::from_api(&parsed).err()?;
    Some(format!("cannot work: {}", quoted(&error.to_string())))
}
