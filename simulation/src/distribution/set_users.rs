//! What users know of sets, and what is ill.

use std::collections::{BTreeMap, BTreeSet};

use fleetdex_distribution::template_name::TemplateName;
use fleetdex_interpreter::value::text;
use serde_json::Value;

use super::{servers::NAMESPACE, set_sources::SET_NAMES};

/// The set whose source is a `ConfigMap`.
pub const FROM_MAP: &str = SET_NAMES[3];
/// That `ConfigMap`.
pub const SOURCE_MAP: &str = "source";

/// What users know of sets, and what is ill.
#[derive(Default)]
pub struct SetUsers {
    /// The sources that sets have had, the newest last.
    pub sources: BTreeMap<String, Vec<Vec<Value>>>,
    /// The sets whose source cannot be rendered.
    pub broken: BTreeSet<String>,
    /// What does not run in one member.
    pub ill: BTreeSet<(String, TemplateName)>,
    /// What runs nowhere.
    pub ill_marks: BTreeSet<String>,
    /// The sets whose accounts have no rights.
    pub denied: BTreeSet<String>,
    /// How many sources there were.
    pub writes: u64,
}

impl SetUsers {
    /// Whether a workload does not run.
    pub fn is_ill(&self, member: &str, name: &TemplateName, mark: &str) -> bool {
        self.ill_marks.contains(mark) || self.ill.contains(&(member.to_owned(), name.clone()))
    }

    /// The objects of a set; `None`: its source cannot be rendered.
    pub fn source(&self, set: &str) -> Option<&[Value]> {
        let sources = self.sources.get(set)?.last();
        sources
            .filter(|_| !self.broken.contains(set))
            .map(Vec::as_slice)
    }

    /// The names of the objects of all sets.
    pub fn names(&self) -> BTreeSet<TemplateName> {
        let sources = self.sources.values().flatten().flatten();
        sources.map(TemplateName::of).collect()
    }
}

/// The account whose rights bound a set.
pub fn account_of(set: &Value) -> String {
    let account = text(set, &["spec", "serviceAccountName"]);
    format!("system:serviceaccount:{NAMESPACE}:{account}")
}
