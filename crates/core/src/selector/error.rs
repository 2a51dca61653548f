//! Errors of selectors.

/// A selector that Kubernetes refuses, too.
///
/// Positions count characters from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// The text does not follow the grammar.
    #[error("at character {position}: found {found}, expected {expected}")]
    Unexpected {
        /// Its position.
        position: usize,
        /// The text at this position, quoted, or `end of text`.
        found: String,
        /// The valid alternatives.
        expected: &'static str,
    },
    /// A key or a value breaks the rules for labels.
    #[error("at character {position}: {source}")]
    Invalid {
        /// The position of the requirement's key or value.
        position: usize,
        /// The broken rule.
        source: InvalidRequirement,
    },
    /// A backslash in a field selector's value precedes a letter that has no escape.
    #[error("at character {position}: unknown escape {found}, expected one of {expected}")]
    UnknownEscape {
        /// The position of the backslash.
        position: usize,
        /// The backslash and the letter behind it, quoted.
        found: String,
        /// The valid escapes.
        expected: &'static str,
    },
}

/// A requirement that no label can meet, or with an unknown operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRequirement {
    /// No label can have this key.
    #[error("label key {key:?} is invalid: {reason}")]
    Key {
        /// The key.
        key: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// No label can have this value.
    #[error("value {value:?} of label {key:?} is invalid: {reason}")]
    Value {
        /// The label's key.
        key: String,
        /// The value.
        value: String,
        /// The rule it breaks.
        reason: &'static str,
    },
    /// `>` and `<` compare with 64-bit integers.
    #[error(
        "value {value:?} of label {key:?} must be a 64-bit integer, because '>' and '<' compare numbers"
    )]
    NotAnInteger {
        /// The label's key.
        key: String,
        /// The value.
        value: String,
    },
    /// `In` and `NotIn` of a `LabelSelector` object need values.
    #[error("label {key:?}: operator {operator} needs at least one value")]
    ValuesMissing {
        /// The label's key.
        key: String,
        /// The operator.
        operator: String,
    },
    /// `Exists` and `DoesNotExist` of a `LabelSelector` object have none.
    #[error("label {key:?}: operator {operator} takes no values")]
    ValuesNotAllowed {
        /// The label's key.
        key: String,
        /// The operator.
        operator: String,
    },
    /// An operator that a `LabelSelector` object does not have.
    #[error(
        "label {key:?}: unknown operator {operator:?}, expected In, NotIn, Exists or DoesNotExist"
    )]
    UnknownOperator {
        /// The label's key.
        key: String,
        /// The operator.
        operator: String,
    },
}
