//! The values that the objects of a search have of some properties, with how many objects have
//! each: for completions.

use std::collections::BTreeMap;

use super::{CheckedQuery, Query, QueryError, Requester};
use crate::model::{MAX_FIELD_VALUE_BYTES, index_fields};

/// Values of a property that a store returns at most: enough for the 50 of a completion, of several
/// stores and in several spellings.
pub const MAX_VALUES: usize = 200;
/// Values that are counted exactly. Of more, rare ones may be missing: 1,000 indices together
/// return a million, about 100 MB.
pub const MAX_EXACT_VALUES: usize = 1_000;
/// Bytes of a prefix at most. A regular expression of OpenSearch has 1,000 characters at most
/// (`index.max_regex_length`), and a letter takes four.
pub const MAX_PREFIX_BYTES: usize = 200;
/// Bytes of the value of a label at most.
/// <https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set>
pub const MAX_LABEL_VALUE_BYTES: usize = 63;
/// Bytes of the key of a label at most: a DNS subdomain, `/` and a name. With a value they take 317
/// × 2 + 63 × 4 characters of a regular expression.
pub const MAX_LABEL_KEY_BYTES: usize = 253 + 1 + 63;

/// A question for the values of several resources' objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesQuery {
    /// What is selected of each resource, as in a [`RankedQuery`](super::RankedQuery).
    pub queries: Vec<Query>,
    /// The requester whose share of the store the question uses.
    pub requester: Requester,
    /// Which values.
    pub prefixes: Vec<ValuePrefix>,
}

/// A property of which completions offer values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueField {
    /// The namespace.
    Namespace,
    /// The keys of labels.
    LabelKey,
    /// The value of the label with this key.
    Label(String),
    /// The reason of the health.
    Reason,
    /// The images, in each spelling that they are found by.
    Image,
}

/// How the values of a property begin, in any ASCII case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuePrefix {
    /// The property.
    pub field: ValueField,
    text: String,
    /// Beginnings of values that the text may leave out.
    omitted: &'static [&'static str],
}

/// How many objects have each value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueCounts(BTreeMap<String, u64>);

impl ValuesQuery {
    /// Checks each query.
    pub fn checked(&self) -> Result<Vec<CheckedQuery<'_>>, QueryError> {
        self.queries.iter().map(CheckedQuery::new).collect()
    }
}

impl ValueField {
    /// The mapped field of documents whose terms have the values.
    pub fn field(&self) -> &'static str {
        match self {
            Self::Namespace => index_fields::NAMESPACE,
            Self::LabelKey => index_fields::LABEL_KEYS,
            Self::Label(_) => index_fields::LABELS,
            Self::Reason => index_fields::HEALTH_REASON,
            Self::Image => index_fields::IMAGES,
        }
    }

    /// The value in an indexed term.
    pub fn value_of<'t>(&self, term: &'t str) -> Option<&'t str> {
        match self {
            Self::Label(key) => term.strip_prefix(key.as_str())?.strip_prefix('='),
            _ => Some(term),
        }
    }
}

impl ValuePrefix {
    /// The values that begin with a text; `None` if no value does, or none that a store could look
    /// for.
    pub fn new(field: ValueField, text: &str) -> Option<Self> {
        let (longest_key, longest) = match &field {
            ValueField::Label(key) => (key.len(), MAX_LABEL_VALUE_BYTES),
            _ => (0, MAX_PREFIX_BYTES),
        };
        (longest_key <= MAX_LABEL_KEY_BYTES && text.len() <= longest).then(|| Self {
            field,
            text: text.to_owned(),
            omitted: &[],
        })
    }

    /// The same, and values that begin with one of these before the text.
    #[must_use]
    pub fn or_behind(self, omitted: &'static [&'static str]) -> Self {
        Self { omitted, ..self }
    }

    /// How the values begin.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Beginnings of values that the text may leave out.
    pub fn omitted(&self) -> &'static [&'static str] {
        self.omitted
    }

    /// Whether a value begins so.
    pub fn matches(&self, value: &str) -> bool {
        let begins = |value: &str| {
            let start = value.as_bytes().get(..self.text.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(self.text.as_bytes()))
        };
        let mut rests = self
            .omitted
            .iter()
            .filter_map(|start| value.strip_prefix(start));
        // Documents do not index longer texts.
        value.len() <= MAX_FIELD_VALUE_BYTES && (begins(value) || rests.any(begins))
    }
}

impl ValueCounts {
    /// Adds objects with a value.
    pub fn add(&mut self, value: &str, count: u64) {
        if let Some(known) = self.0.get_mut(value) {
            *known += count;
            return;
        }
        self.0.insert(value.to_owned(), count);
        if self.0.len() > 2 * MAX_EXACT_VALUES {
            let most_frequent = std::mem::take(self).most_frequent(MAX_EXACT_VALUES);
            self.0.extend(most_frequent);
        }
    }

    /// Adds the counts of another store.
    pub fn add_all(&mut self, others: Self) {
        for (value, count) in others.0 {
            self.add(&value, count);
        }
    }

    /// The most frequent values, the first in the alphabet of those that are equally frequent, each
    /// with how many objects have it.
    pub fn most_frequent(self, limit: usize) -> Vec<(String, u64)> {
        let mut counts: Vec<(String, u64)> = self.0.into_iter().collect();
        counts.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
        counts.truncate(limit);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(field: ValueField, text: &str) -> ValuePrefix {
        ValuePrefix::new(field, text).unwrap()
    }

    fn label(key: &str) -> ValueField {
        ValueField::Label(key.to_owned())
    }

    #[test]
    fn values_match_by_their_beginning_or_behind_what_may_be_left_out() {
        let image = prefix(ValueField::Image, "Ng").or_behind(&["docker.io/library/"]);
        for (value, is_found) in [
            ("nginx", true),
            ("docker.io/library/nginx", true),
            ("docker.io/nginx", false),
            ("n", false),
            ("", false),
        ] {
            assert_eq!(image.matches(value), is_found, "{value}");
        }
        let everything = prefix(ValueField::Reason, "");
        assert!(
            everything.matches("") && !everything.matches(&"a".repeat(MAX_FIELD_VALUE_BYTES + 1))
        );
        assert_eq!(label("app").value_of("app=web"), Some("web"));
        assert_eq!(label("app").value_of("app-x=web"), None);
    }

    #[test]
    fn the_most_frequent_values_are_kept_of_very_many() {
        let mut counts = ValueCounts::default();
        counts.add("frequent", 1);
        for number in 0..10 * MAX_EXACT_VALUES {
            counts.add(&format!("v{number}"), 1);
            counts.add("frequent", 1);
        }
        assert!(counts.0.len() <= 2 * MAX_EXACT_VALUES);
        let first = counts.most_frequent(2);
        assert_eq!(
            first[0],
            ("frequent".to_owned(), 10 * MAX_EXACT_VALUES as u64 + 1)
        );
        assert_eq!(first[1].1, 1);
    }
}
