//! What a reference to a needed object has to fulfil, whether a script or a webhook made it.
//!
//! Source: `pkg/util/interpreter/validation` of Karmada.

use fleetdex_core::{model::quoted, selector::LabelSelector};
use serde_json::Value;

use crate::request::DependentObject;

/// The first fault of a reference: it needs a version, a kind, and a name or a label selector that
/// works. The fault is a member, empty if it is the whole, and what is wrong with it.
pub fn fault(dependency: &DependentObject) -> Option<(&'static str, String)> {
    let needed = [
        ("apiVersion", &dependency.api_version),
        ("kind", &dependency.kind),
    ];
    if let Some((member, _)) = needed.into_iter().find(|(_, text)| text.is_empty()) {
        return Some((member, "is absent or empty".to_owned()));
    }
    match &dependency.label_selector {
        None if dependency.name.is_empty() => {
            let problem = "has neither a name nor a labelSelector: it needs one of them";
            Some(("", problem.to_owned()))
        }
        None => None,
        Some(selector) => Some(("labelSelector", selector_problem(selector)?)),
    }
}

fn selector_problem(selector: &Value) -> Option<String> {
    let Ok(parsed) = serde_json::from_value(selector.clone()) else {
        return Some("is not a LabelSelector".to_owned());
    };
    let error = LabelSelector::from_api(&parsed).err()?;
    Some(format!("cannot work: {}", quoted(&error.to_string())))
}
