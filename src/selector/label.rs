//! Label selectors.
/// A label selector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector;
