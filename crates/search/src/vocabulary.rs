//! What completions know of the fleet.

use std::collections::BTreeMap;

/// A set of values of which completions offer some.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValueSet {
    /// Kinds.
    Kinds,
    /// Member clusters.
    Clusters,
    /// Namespaces.
    Namespaces,
    /// Keys of labels.
    LabelKeys,
    /// Values of the label with this key.
    LabelValues(String),
    /// Reasons of health.
    Reasons,
    /// Images.
    Images,
}

/// The values of a set that begin with a prefix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WantedValues {
    /// The set.
    pub of: ValueSet,
    /// How they begin, in any ASCII case.
    pub prefix: String,
}

/// What is known of the fleet.
pub trait Vocabulary {
    /// These values, best first.
    fn values(&self, wanted: &WantedValues) -> Vec<String>;
}

/// A vocabulary without a word: only qualifiers, words of health and ages are completed.
#[derive(Clone, Copy, Debug)]
pub struct NoVocabulary;

impl Vocabulary for NoVocabulary {
    fn values(&self, _: &WantedValues) -> Vec<String> {
        Vec::new()
    }
}

/// The values that were read for a completion.
impl Vocabulary for BTreeMap<WantedValues, Vec<String>> {
    fn values(&self, wanted: &WantedValues) -> Vec<String> {
        self.get(wanted).cloned().unwrap_or_default()
    }
}
