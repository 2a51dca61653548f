//! The condition for paths that selectors name and at which no object has a value.

use std::collections::BTreeMap;

use fleetdex_crds::condition::{self, Finding};

use super::inputs::StatusInputs;

/// The type of that condition.
pub(super) const MISSING_FIELDS: &str = "MissingFields";

/// What the objects of a kind have at a path, in all clusters together.
#[derive(Default)]
struct PathFindings {
    /// Whether any cluster has objects of the kind.
    has_objects: bool,
    /// Whether some object has a value at the path.
    is_found: bool,
    /// Whether a stream resumed without a list, so that the values of earlier objects are unknown.
    is_unknown: bool,
}

/// The condition, if any path is missing. Where the values of earlier objects are unknown, the
/// previous message still holds.
pub(super) fn missing_fields(inputs: &StatusInputs<'_>) -> Option<Finding> {
    let previous = condition::find(inputs.before, MISSING_FIELDS)
        .map(|condition| condition.message.as_str())
        .unwrap_or_default();
    let findings = path_findings(inputs);
    let missing: Vec<&str> = findings
        .iter()
        .filter(|(path, found)| found.is_missing(|| names_path(previous, path)))
        .map(|(path, _)| path.as_str())
        .collect();
    (!missing.is_empty()).then(|| {
        let message = format!(
            "{}; no object has had a value there, so In and Exists match nothing, and NotIn and \
             DoesNotExist match everything: check the spelling",
            missing.join(", ")
        );
        Finding::holds(MISSING_FIELDS, "NoObjectHasThem", message)
    })
}

/// What is known of each path, by `<path> of <kind> (<apiVersion>)`.
fn path_findings(inputs: &StatusInputs<'_>) -> BTreeMap<String, PathFindings> {
    let mut findings: BTreeMap<String, PathFindings> = BTreeMap::new();
    let clusters = inputs.plan.clusters.values();
    for unit in clusters.flat_map(|cluster| &cluster.units) {
        let paths = (inputs.selector_paths)(unit);
        if paths.is_empty() {
            continue;
        }
        let presence = (inputs.progress)(unit).and_then(|status| status.filter_paths);
        let gvk = &unit.resource.gvk;
        for path in paths {
            let found = findings
                .entry(format!("{path} of {} ({})", gvk.kind, gvk.api_version()))
                .or_default();
            match &presence {
                None => found.is_unknown = true,
                Some(presence) => {
                    found.has_objects |= presence.has_objects;
                    found.is_found |= presence.has_objects && !presence.missing.contains(&path);
                }
            }
        }
    }
    findings
}

impl PathFindings {
    fn is_missing(&self, was_missing: impl FnOnce() -> bool) -> bool {
        let has_none = if self.is_unknown {
            was_missing()
        } else {
            self.has_objects
        };
        !self.is_found && has_none
    }
}

/// Whether a message of [`missing_fields`] names a path.
fn names_path(message: &str, path: &str) -> bool {
    message
        .split("; ")
        .next()
        .is_some_and(|list| list.split(", ").any(|named| named == path))
}
