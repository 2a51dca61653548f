//! A change that cannot be made.

/// A change and why it cannot be made.
pub(super) struct FailedChange {
    pub(super) change: String,
    pub(super) problem: String,
}

impl FailedChange {
    /// The change of a list at an index.
    pub(super) fn new(list: &str, index: usize, problem: impl Into<String>) -> Self {
        Self {
            change: format!("{list}[{index}]"),
            problem: problem.into(),
        }
    }
}
