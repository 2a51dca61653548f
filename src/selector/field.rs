//! Field selectors.
/// A field selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector;
